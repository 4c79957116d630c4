"""The commands of social-RL experiments: import recorded runs as worlds, export runs as files."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet
from worldledger_service.cli.output import counted, progress_bar, put, put_bytes, say

from worldledger.errors import SimulationError, TamperedError

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from worldledger_service.cli.tree import Commands
    from worldledger_service.store import Store, WorldRecord

    from worldledger.chain import Finding
    from worldledger.effects import Effect
    from worldledger_social_rl.rules.recording import RunFile
    from worldledger_social_rl.store import RunNotice, RunSummary


#: The parts that differ between notices of one kind: texts in quotes, and numbers.
_VARYING = re.compile(r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|-?[0-9]+(?:\.[0-9]+)?")


def import_run(
    ctx: typer.Context,
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR",
            help="Folders with roundN_social_rl.json in them, or in their subfolders.",
            show_default=False,
        ),
    ],
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the runs.")
    ] = None,
    strict: Annotated[
        bool,
        typer.Option("--strict", help="Refuse runs that are not as the schema says, instead of saying what is odd."),
    ] = False,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone",
            metavar="NAME",
            help="Time zone of times without an offset in meta data, such as Europe/Berlin; by default UTC.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as a JSON object to stdout.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import recorded social-RL runs: each folder with rounds becomes a world, whole or not at all.

    Runs are taken as they were found, and what is not as the schema says is noted, file by file; nothing is lost, and
    `worldledger export social-rl` writes the same files again. A run that is there already (in the same experiment) is
    left as it is, and one that has more rounds by now is appended to, so the command can be run again at any time.
    Where a round has changed the run is refused. What cannot be taken is named with file and place, while the rest goes
    in; the exit code is then 1. It is 2 where no run was found at all.

    Examples:
        worldledger import social-rl outputs/ --experiment first
        worldledger import social-rl outputs/social_rl_2025-11-23_175825 --strict
    """
    from worldledger_social_rl.store import RunSummary, import_runs  # noqa: PLC0415

    summary = RunSummary()
    where = target(ctx, database_url, home)
    zone = None if timezone is None else _zone(timezone)
    telling = _Telling(quiet=quiet)

    async def work(store: Store) -> None:
        with progress_bar("importing", quiet=quiet) as tell:
            await import_runs(
                store,
                folders,
                experiment=experiment,
                strict=strict,
                timezone=zone,
                progress=lambda made: tell(made.done, made.total, f"{made.runs} runs"),
                notice=telling.tell,
                summary=summary,
            )

    try:
        with_store(where, work)
    except KeyboardInterrupt:
        telling.conclude()
        say(f"{_imported(summary)} before it was stopped; run the same command again for the rest")
        raise
    telling.conclude()
    if as_json:
        put_bytes(json.dumps(_document(summary), ensure_ascii=False).encode(errors="replace") + b"\n")
    elif summary.refused or summary.paths_refused or not quiet:
        put(_sentence(summary))
    if summary.refused or summary.paths_refused:
        raise typer.Exit(1 if summary.runs else 2)


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo  # noqa: PLC0415 - for those who ask for it

    try:
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):  # KeyError: there is none of this name
        raise typer.BadParameter(f"there is no timezone {name!r}; a name is such as Europe/Berlin or UTC") from None


class _Telling:
    """Reports refused runs, and notices about others: each kind of notice once, then a sum."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._more: dict[str, list[RunNotice]] = {}

    def tell(self, notice: RunNotice) -> None:
        """Report a notice now, or count it for the sum."""
        if notice.refused:
            say(f"refused: {notice}")
        elif not self._quiet:
            kind = _VARYING.sub("…", notice.text)
            if kind not in self._more:
                self._more[kind] = []
                say(f"note: {notice}")
            else:
                self._more[kind].append(notice)

    def conclude(self) -> None:
        """Report how many more there were of each kind."""
        for notices in filter(None, self._more.values()):
            files = len({notice.file for notice in notices})
            places = sum(notice.count for notice in notices)
            say(f"note: {places} more in {counted(files, 'file')}: {notices[0].text}")
        self._more.clear()


def _sentence(summary: RunSummary) -> str:
    parts = [_imported(summary)]
    if summary.grown:
        parts.append(f"{summary.grown} grown")
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{summary.refused} refused")
    return ", ".join(parts)


def _imported(summary: RunSummary) -> str:
    return (
        f"imported {counted(summary.imported, 'run')} ({counted(summary.rounds, 'round')}, {summary.effects} effects)"
    )


def _document(summary: RunSummary) -> dict[str, Any]:
    return {
        "runs": summary.runs,
        "imported": summary.imported,
        "grown": summary.grown,
        "already": summary.already,
        "refused": summary.refused,
        "rounds": summary.rounds,
        "messages": summary.messages,
        "effects": summary.effects,
        "worlds": summary.worlds,
        "notices": [asdict(notice) for notice in summary.notices],
    }


# ``worldledger export social-rl``: the files of a social-RL run, as they were imported or as they would be.

#: Most names in one remark.
_NAMED = 5


@dataclass
class _Made:
    """The result of an export: file names, and the unfinished round, if there is one.

    ``places`` are the files themselves (device and inode): two names may be one, on a disk without case or by a link.
    """

    names: set[str] = field(default_factory=set)
    places: set[tuple[int, int]] = field(default_factory=set)
    rounds: int = 0
    open_round: int | None = None


def export_run(
    ctx: typer.Context,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="DIR", help="The folder to write to; it is made if it is not there."),
    ],
    world: Annotated[
        str | None, typer.Argument(metavar="WORLD", help="The name of a run's world.", show_default=False)
    ] = None,
    experiment: Annotated[
        str | None,
        typer.Option(
            "--experiment", metavar="NAME", help="All runs of this experiment, each into a folder of its own."
        ),
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Write into a folder that is not empty; files of the same names are replaced."),
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export a social-RL run as files: its rounds, meta.json, and whatever other JSON was in its folder.

    They hold what was imported, value by value. A run that is played here has files too; of a round that is not over,
    what there is of it. Each file appears when it is whole, and none takes another's place: what the log has under the
    name of another file is written beside that one, and noted. A world that is itself named social-rl is exported as a
    log by `worldledger export -o FILE social-rl`.

    Examples:
        worldledger export social-rl my-run -o my-run/
        worldledger export social-rl --experiment first -o first/
    """
    if (world is None) == (experiment is None):
        raise typer.BadParameter("which runs: name a world, or give --experiment")
    _require_room(output, force=force)

    unreadable: list[Finding] = []
    tampered: list[str] = []

    async def work(store: Store) -> None:
        for record, folder in await _chosen(store, world, experiment, output, unreadable):
            _require_room(folder, force=force)
            try:
                await _export(store, record, folder, quiet=quiet, is_only=world is not None)
            except TamperedError as error:
                tampered.append(f"{error.message}; a log that does not verify makes no export")

    with_store(target(ctx, database_url, home), work)
    for what in [*tampered, *(finding.error().message for finding in unreadable)]:
        say(what)
    if tampered or unreadable:
        raise typer.Exit(1)


async def _chosen(
    store: Store, world: str | None, experiment: str | None, output: Path, unreadable: list[Finding]
) -> list[tuple[WorldRecord, Path]]:
    """Return the runs, each with the folder that it is written to.

    Of an experiment that is one in ``output``, called as the run's own folder was, or as its world where several runs
    have that name. Raises SimulationError for a world that is no run, and an experiment without any.
    """
    if world is not None:
        record = await find_world(store, world)
        if record.ruleset != "social_rl":
            what = f"world {record.world_id!r} is no social-RL run; its ruleset is {record.ruleset}"
            raise SimulationError(what, world_id=record.world_id, ruleset=record.ruleset)
        return [(record, output)]
    every = store.every_world(experiment=experiment, unreadable=unreadable.append)
    records = [each async for each in every if each.ruleset == "social_rl"]
    if not records:
        raise SimulationError(f"there are no social-RL runs in the experiment {experiment!r}", experiment=experiment)
    names = [_folder_of(record) for record in records]
    counts = Counter(name.casefold() for name in names)
    return [
        (record, output / (name if counts[name.casefold()] == 1 else record.world_id))
        for record, name in zip(records, names, strict=True)
    ]


def _folder_of(record: WorldRecord) -> str:
    from worldledger_social_rl.rules.words import fits_a_disk, is_plain_name  # noqa: PLC0415

    recording = record.config.get("recording")
    name = recording.get("folder") if isinstance(recording, dict) else None
    return name if isinstance(name, str) and is_plain_name(name) and fits_a_disk(name) else record.world_id


async def _export(store: Store, record: WorldRecord, output: Path, *, quiet: bool, is_only: bool) -> None:
    """Write a run's files. Raises SimulationError if it is the only one, and there is nothing to write."""
    made = _Made()
    await _check(store, record)
    with progress_bar("exporting", quiet=quiet) as tell:
        await _write(store, record, output, made, lambda done: tell(done, record.head_seq, f"{made.rounds} rounds"))
    if not made.names:
        what = f"there is nothing to write: no round was begun in {record.world_id!r}"
        if is_only:
            raise SimulationError(what, world_id=record.world_id)
        say(f"note: {what}")
    elif not quiet:
        _conclude(made, output)


def _require_room(output: Path, *, force: bool) -> None:
    """Raise SimulationError if the path is no folder or, without ``force``, a folder that is not empty."""
    try:
        if output.exists() and not output.is_dir():
            raise SimulationError(f"{output}: not a folder", file=str(output))
        if not force and output.is_dir() and any(output.iterdir()):
            raise SimulationError(f"{output}: the folder is not empty; --force writes into it", file=str(output))
    except OSError as error:
        raise SimulationError(f"{output}: cannot be looked into ({error.strerror or error})") from error


async def _check(store: Store, record: WorldRecord) -> None:
    """Raise TamperedError if the log does not verify, before anything is written."""
    from tempfile import TemporaryFile  # noqa: PLC0415 - slow to load; `--help` needs none of it

    from worldledger.chain import Verifier  # noqa: PLC0415

    head = record.head.position
    verifier = Verifier(record.world_id, spill=TemporaryFile)
    try:
        async for batch in store.reader.batches(record.world_id, until_seq=head.global_seq):
            if not await asyncio.to_thread(verifier.feed, batch):
                break
        verdict = verifier.finish(head)
    finally:
        verifier.close()
    if verdict.finding is not None:
        raise verdict.finding.error()


async def _write(store: Store, record: WorldRecord, output: Path, made: _Made, progress: Callable[[int], None]) -> None:
    import orjson  # noqa: PLC0415 - slow to load; `--help` needs none of it

    async for file in _files(store, record, made, progress):
        if not made.names:
            _make_folder(output)
        path = output / file.name
        is_new = file.name not in made.names
        if is_new and _place(path) in made.places:
            what = "the same file there as another one of this run; export it to another folder"
            raise SimulationError(f"{path}: {what}", file=str(path))
        made.names.add(file.name)
        with written_whole(str(path), force=True) as write:
            write(orjson.dumps(file.value, option=orjson.OPT_INDENT_2) + b"\n")
        if (place := _place(path)) is not None:
            made.places.add(place)
        if file.meant is not None and is_new:
            why = "that name is another's, or too long"
            say(f"note: effect {file.seq} calls {file.meant} what was written as {file.name}: {why}")


def _place(path: Path) -> tuple[int, int] | None:
    """Return the identity (device and inode) of the file at a path, following links; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _make_folder(output: Path) -> None:
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{output}: cannot be made ({error.strerror or error})", file=str(output)) from error


async def _files(
    store: Store, record: WorldRecord, made: _Made, progress: Callable[[int], None]
) -> AsyncIterator[RunFile]:
    """Return a world's files, one round at a time, put together in a thread that requests the effects."""
    from worldledger_service.store.importing import in_thread  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger_social_rl.rules.recording import write_run  # noqa: PLC0415
    from worldledger_social_rl.store import effects_in_thread  # noqa: PLC0415

    async with effects_in_thread(store.reader, record, progress) as effects:
        async for file in in_thread(write_run(_noted(made, effects))):
            yield file


def _noted(made: _Made, effects: Iterator[Effect]) -> Iterator[Effect]:
    for effect in effects:
        if effect["kind"] == "RoundStarted":
            made.rounds += 1
            made.open_round = effect["payload"].get("round_number")
        elif effect["kind"] == "RoundEnded":
            made.open_round = None
        yield effect


def _conclude(made: _Made, output: Path) -> None:
    if made.open_round is not None:
        say(f"note: round {made.open_round} is not over; what there is of it was exported")
    others = sorted(path.name for path in output.glob("*.json") if path.name not in made.names)
    if others:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        say(f"note: {output} also has {', '.join(others[:_NAMED])}{more}, which is not of this run")
    say(f"exported {counted(len(made.names), 'file')} ({counted(made.rounds, 'round')}) to {output}")


def add(commands: Commands) -> None:
    """Add the commands to the program's."""
    commands.add("import social-rl", import_run)
    commands.add("export social-rl", export_run)
