"""``worldledger import pgn`` and ``export pgn``: recorded chess games become worlds, and worlds PGN."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.naming import find_world, no_experiment
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import Tell, counted, progress_bar, put, put_bytes, say
from worldledger_service.running import relax_gc

from worldledger.errors import SimulationError, TamperedError
from worldledger_chess.cli.games import history_of, require_chess

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

    from worldledger.chain import Finding
    from worldledger.effects import Effect
    from worldledger_chess.store.recordings import Notice, Reading, Summary


#: The endings of files that are meant for this command.


def import_pgn(
    ctx: typer.Context,
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="FOLDER_OR_FILES", help="PGN files, and folders with *.pgn in them.", show_default=False
        ),
    ],
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the games.")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse games about which anything is odd, instead of noting it.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Import recorded chess games: each becomes a world, whole or not at all.

    A game that is there already (in the same experiment) is left as it is, so the command can be run again at any
    time. What cannot be taken is named with file, line and game, while the rest goes in; the exit code is then 1.
    It is 2 where no file could be read at all.

    Examples:
        worldledger import pgn games/ --experiment first
        worldledger import pgn a.pgn b.pgn --experiment second --strict
    """
    from worldledger_chess.cli.reading import readers  # noqa: PLC0415 - slow to load; `--help` needs none of it

    where = target(ctx, database_url, home)
    with readers(paths, strict=strict) as reading:
        _import(where, paths, reading, experiment=experiment, strict=strict, quiet=quiet)


def _import(
    where: Target, paths: list[Path], reading: Reading | None, *, experiment: str | None, strict: bool, quiet: bool
) -> None:
    from worldledger_chess.store.recordings import Summary, import_games  # noqa: PLC0415

    summary = Summary()

    async def work(store: Store) -> None:
        relax_gc()
        with progress_bar("importing", quiet=quiet) as tell:
            await import_games(
                store,
                paths,
                reading=reading,
                experiment=experiment,
                progress=lambda made: tell(made.done, made.total, f"{made.games} games"),
                notice=lambda notice: _tell(notice, quiet=quiet),
                summary=summary,
                strict=strict,
            )

    try:
        with_store(where, work)
    except KeyboardInterrupt:
        say(f"{_imported(summary)} before it was stopped; run the same command again for the rest")
        raise
    if summary.refused or not quiet:
        put(_sentence(summary))
    if summary.refused:
        raise typer.Exit(1 if summary.read else 2)


def _tell(notice: Notice, *, quiet: bool) -> None:
    if notice.refused:
        say(f"refused: {notice}")
    elif not quiet:
        say(f"note: {notice}")


def _sentence(summary: Summary) -> str:
    parts = [f"{_imported(summary)} from {counted(summary.files, 'file')}"]
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{len(summary.refused)} refused")
    return ", ".join(parts)


def _imported(summary: Summary) -> str:
    return f"imported {counted(summary.imported, 'game')} ({summary.effects} effects)"


# ``worldledger export pgn``: games of chess as a PGN file.


@dataclass
class Exported:
    """What an export did: games, their moves, how many go on, and what was left out, by world."""

    games: int = 0
    moves: int = 0
    unfinished: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    failed: bool = False


def export_pgn(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - is stdout."),
    ],
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="The names of games.", show_default=False)
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="All games of this experiment, by name.")
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as a JSON object to stdout.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export games of chess as PGN, with comments, clocks, evaluations, every tag and the result as it was recorded.

    What was attempted and rejected stands in comments. `worldledger import pgn` makes the same effects of the file
    again. Worlds in which no game was started are left out. A world that is itself named pgn is exported as a log by
    `worldledger export -o FILE pgn`.

    Examples:
        worldledger export pgn my-game -o my-game.pgn
        worldledger export pgn --experiment first -o first.pgn
        worldledger export pgn --experiment first -o - | gzip > first.pgn.gz
    """
    if as_json and output == "-":
        raise typer.BadParameter("stdout has the games; give --output a file to have the summary there")
    names = list(dict.fromkeys(worlds or ()))
    if bool(names) == (experiment is not None):
        raise typer.BadParameter(
            "which games: name worlds, or give --experiment (a world named pgn: `export -o FILE pgn`)"
        )
    summary = Exported()

    async def work(store: Store) -> None:
        chosen = _Chosen(store, names, experiment, summary)
        total = await chosen.count()
        with (
            written_whole(output, force=force) as write,
            progress_bar("exporting", quiet=quiet or output == "-") as tell,
        ):
            await _write_games(store, chosen.worlds(), write, summary, _telling(tell, total, summary))
            if not summary.games:
                name, why = next(iter(summary.left_out.items()))
                raise SimulationError(f"there is no game that can be written; {name}: {why}")

    try:
        with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        say(f"{error.message}; a log that does not verify makes no export")
        raise typer.Exit(1) from None
    _conclude(summary, output, as_json=as_json, quiet=quiet)


class _Chosen:
    """The chosen games; those of an experiment are read page by page."""

    def __init__(self, store: Store, names: list[str], experiment: str | None, summary: Exported) -> None:
        self._store = store
        self._summary = summary
        self._names = names
        self._experiment = experiment

    async def worlds(self) -> AsyncIterator[WorldRecord]:
        """Return their worlds. Raises SimulationError for a named world that is no game."""
        for name in self._names:
            world = await find_world(self._store, name)
            require_chess(world)
            yield world
        if self._experiment is not None:
            async for world in self._store.every_world(experiment=self._experiment, unreadable=self._leave_out):
                if world.ruleset == "chess":
                    yield world

    def _leave_out(self, finding: Finding) -> None:
        self._summary.left_out[finding.world_id] = finding.what
        self._summary.failed = True

    async def count(self) -> int:
        """Return their number. Raises SimulationError if there is none."""
        count = 0
        async for _ in self.worlds():
            count += 1
        if not count:
            if self._experiment in await self._store.experiments():
                raise SimulationError(f"there are no games of chess in the experiment {self._experiment!r}")
            raise SimulationError(await no_experiment(self._store, self._experiment or ""))
        return count


def _telling(tell: Tell, total: int, summary: Exported) -> Callable[[], None]:
    return lambda: tell(summary.games + len(summary.left_out), total, f"{summary.games} games")


async def _write_games(
    store: Store,
    worlds: AsyncIterator[WorldRecord],
    write: Callable[[bytes], object],
    summary: Exported,
    tell: Callable[[], None],
) -> None:
    """Write games one by one, reading the next one meanwhile."""
    from worldledger_service.store.prefetch import prefetch  # noqa: PLC0415 - slow to load; `--help` needs none of it

    async with prefetch(_read(store, worlds)) as games:
        async for world, effects in games:
            text = _written(world, effects, summary)
            if text is not None:
                write(f"\n{text}".encode() if summary.games > 1 else text.encode())
            tell()


async def _read(store: Store, worlds: AsyncIterator[WorldRecord]) -> AsyncIterator[tuple[WorldRecord, list[Effect]]]:
    async for world in worlds:
        yield world, await history_of(store, world)


def _written(world: WorldRecord, effects: list[Effect], summary: Exported) -> str | None:
    """Write one game, or note why it is left out."""
    from worldledger_chess.rules.gamelog import GameLog  # noqa: PLC0415
    from worldledger_chess.rules.writing import write_game  # noqa: PLC0415

    try:
        log = GameLog.of(effects)
    except SimulationError as error:
        summary.left_out[world.world_id] = error.message
        summary.failed = True
        return None
    if log.started is None:
        summary.left_out[world.world_id] = "no game was started"
        return None
    game = write_game(log, event=world.experiment)
    summary.games += 1
    summary.moves += game.moves
    summary.unfinished += log.ended is None
    return game.text


def _conclude(summary: Exported, output: str, *, as_json: bool, quiet: bool) -> None:
    for name, why in summary.left_out.items():
        if summary.failed or not quiet:
            say(f"left out: {name}: {why}")
    if as_json:
        put_bytes(json.dumps(_document(summary, output), ensure_ascii=False).encode() + b"\n")
    elif not quiet:
        where = "" if output == "-" else f" to {output}"
        unfinished = f", {summary.unfinished} unfinished" if summary.unfinished else ""
        left_out = f", {len(summary.left_out)} left out" if summary.left_out else ""
        games = f"{counted(summary.games, 'game')} ({counted(summary.moves, 'move')})"
        say(f"exported {games}{unfinished}{left_out}{where}")
    if summary.failed:
        raise typer.Exit(1)


def _document(summary: Exported, output: str) -> dict[str, Any]:
    return {
        "file": output,
        "games": summary.games,
        "moves": summary.moves,
        "unfinished": summary.unfinished,
        "left_out": [{"world_id": name, "why": why} for name, why in summary.left_out.items()],
    }
