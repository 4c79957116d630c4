"""The commands that export: a world's log as a file, logs and views as Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from worldledger.errors import InvalidNameError, MomentNotFoundError, SimulationError, TamperedError
from worldledger_service.arrow.pool import needed
from worldledger_service.cli.connect import Target, database, opened, target, with_store
from worldledger_service.cli.files import require_none, written_whole
from worldledger_service.cli.moments import HEAD, Moment, first_seq_from, moment_rule, read_moment
from worldledger_service.cli.naming import find_world, no_experiment, whole_names
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import counted, effects, progress_bar, put_bytes, say
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.arrow.lake.exporting import Since, Summary
    from worldledger_service.store import Store, WorldRecord


def export(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Where to write it; - is stdout. With --all the folder of the files."
        ),
    ],
    world: Annotated[str | None, typer.Argument(metavar="WORLD", help="A world's name.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="Every world, each as WORLD.ndjson in a folder.")] = False,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="As --all, the worlds of this experiment.")
    ] = None,
    own: Annotated[
        bool, typer.Option("--own", help="Of a fork only its own log, without what it has from its ancestors.")
    ] = False,
    force: Force = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export a world: every effect as it was hashed, one a line, and a trailer that makes the file checkable.

    What is appended while the export runs is left out. Check a file anywhere, without a database, by
    `worldledger verify --file`, and bring it in again by `worldledger import log`. The file of a fork begins with the
    logs of its ancestors, the oldest first, each up to the fork point; --own and --all leave them out. With --all a
    world that does not verify is named, and the others are exported.

    Kinds of worlds have further forms, such as `worldledger export parquet` for all of them. So a world that is itself
    named as one goes last: `worldledger export -o FILE parquet`.

    Examples:
        worldledger export my-world -o my-world.ndjson
        worldledger export my-world -o - | gzip > my-world.ndjson.gz
        worldledger export --all -o backup
    """
    if (world is not None) + every + (experiment is not None) != 1:
        raise typer.BadParameter("name a world, or give --all or --experiment")
    if world is None:
        _export_all(
            target(ctx, database_url, home), Path(output), experiment, own=own or every, force=force, quiet=quiet
        )
        return

    async def work(store: Store) -> None:
        record = await find_world(store, world)
        await _export(store, record, output, own=own, force=force, quiet=quiet)

    try:
        with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        say(f"{error.message}; a log that does not verify makes no export")
        raise typer.Exit(1) from None


async def _export(store: Store, record: WorldRecord, output: str, *, own: bool, force: bool, quiet: bool) -> None:
    from worldledger_service.store.lineage import check_inherited  # noqa: PLC0415 - slow to load; `--help` needs none
    from worldledger_service.store.transfer import export_world  # noqa: PLC0415 - as above

    before = total = 0
    with (
        written_whole(output, force=force) as write,
        progress_bar(f"exporting {record.world_id}", quiet=quiet or output == "-") as tell,
    ):

        def told(done: int) -> None:
            tell(before + done, total, f"{before + done} effects")

        line = [record] if own else await store.states.line(record)
        total = sum(each.head_seq for each in line)
        for each in line:
            if each is not line[0]:
                await check_inherited(store.reader, each.world_id)
            trailer = await export_world(store.reader, each, write, told)
            before += each.head_seq
    if not quiet:
        where = "" if output == "-" else f" to {output}"
        along = f", after what it has from {', '.join(each.world_id for each in line[:-1])}" if line[1:] else ""
        say(f"exported {record.world_id}: {trailer.count} effects, head {trailer.head}{along}{where}")


def _export_all(where: Target, folder: Path, experiment: str | None, *, own: bool, force: bool, quiet: bool) -> None:
    """Export every world, or an experiment's, each to a file. Existing files are replaced only with ``force``."""
    tampered: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SimulationError(f"{folder}: cannot be made ({error.strerror or error})", file=str(folder)) from error

    async def work(store: Store) -> int:
        names: list[str] = []
        every = store.every_world(experiment=experiment, unreadable=lambda finding: names.append(finding.world_id))
        names.extend([world.world_id async for world in every])
        names.sort()
        if not names and experiment is not None:
            raise SimulationError(await no_experiment(store, experiment), experiment=experiment)
        files = {name: str(folder / f"{name}.ndjson") for name in names}
        if not force:
            for file in files.values():
                require_none(file)
        for name, file in files.items():
            try:
                await _export(store, await store.world(name), file, own=own, force=force, quiet=True)
            except (TamperedError, InvalidNameError) as error:
                say(f"{error.message}; a log that does not verify makes no export")
                tampered.append(name)
        return len(names)

    count = with_store(where, work)
    if not quiet:
        say(f"exported {count - len(tampered)} of {count} worlds to {folder}")
    if tampered:
        raise typer.Exit(1)


# -- export html ---------------------------------------------------------------------------------------------


def export_html(
    ctx: typer.Context,
    world: Annotated[str, typer.Argument(metavar="WORLD", help="A world's name.", show_default=False)],
    output: Annotated[str, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - is stdout.")],
    from_: Annotated[
        str | None, typer.Option("--from", metavar="MOMENT", help="Begin with this moment.", show_default="its genesis")
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="MOMENT", help="End with this moment.", show_default="its head")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="MOMENT", help="Open at this moment.", show_default="where it begins"),
    ] = None,
    views: Annotated[
        list[str] | None,
        typer.Option("--view", metavar="AGENT", help="Show what this agent believed, too; up to four times."),
    ] = None,
    force: Force = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export a world as one HTML file: the console with all of the world, which opens without a service or a network.

    It shows every moment, what agents believed, and verifies; `--at` and `--view` say what it opens with. More than
    100,000 effects are too many: then export a part of the log, by `--from` and `--to`. What is verified of a part is
    that its effects are one chain, from the position before it to its last one; compare these positions with the log.

    Examples:
        worldledger export html market -o market.html
        worldledger export html market --at turn:10 --view Trader_1 -o belief.html
        worldledger export html market --from turn:5 --to turn:10 -o turns.html
    """
    from worldledger_service.app import create_app  # noqa: PLC0415 - slow to load
    from worldledger_service.console.taking_along import (  # noqa: PLC0415
        MOST_AGENTS,
        address_of,
        asking,
        own_seq,
        page,
        part_of,
    )
    from worldledger_service.runtime.moments import not_registered  # noqa: PLC0415

    views = list(dict.fromkeys(views or []))
    if len(views) > MOST_AGENTS:
        raise typer.BadParameter(f"--view: a page shows the beliefs of {MOST_AGENTS} agents at most")
    where = target(ctx, database_url, home, projections=False)

    begin = None if from_ is None else read_moment(from_, "--from")
    end = HEAD if to is None else read_moment(to, "--to")
    opens = begin if at is None else read_moment(at, "--at")

    async def work(url: str) -> str:
        async with opened(url, where.settings) as store:
            record = await find_world(store, world)
            first, last = await part_of(store, record, begin, end)
            seq = first if opens is None else await own_seq(store, record, opens)
            if not first <= seq <= last:
                what = f"--at: effect {seq} is not in the part from {first} to {last}"
                raise MomentNotFoundError(what, world_id=record.world_id, global_seq=seq)
            if views:
                known = (await store.states.state_at(record.world_id, seq)).state.metadata["agents"]
                for agent in views:
                    if agent not in known:
                        raise await not_registered(store, record.world_id, agent, seq, record.head_seq)
        app = create_app(where.settings, url)
        async with app.router.lifespan_context(app):
            address = address_of(record.world_id, seq, views)
            async for piece in page(asking(app), record.world_id, first=first, last=last, address=address):
                write(piece)
        return record.world_id

    with written_whole(output, force=force) as write, database(where) as url:
        name = run_blocking(work(url))
    if not quiet:
        say(f"exported {name}{'' if output == '-' else f' to {output}'}")


# -- export parquet ------------------------------------------------------------------------------------------


def export_parquet(
    ctx: typer.Context,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="The lake: a new folder, or one to be brought up to date."
        ),
    ],
    experiment: Annotated[
        list[str] | None,
        typer.Option("--experiment", metavar="NAME", help="The worlds of this experiment; can be repeated."),
    ] = None,
    world: Annotated[
        list[str] | None, typer.Option("--world", metavar="WORLD", help="This world; can be repeated.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="MOMENT",
            help=f"Worlds that come into the lake begin with this moment: {moment_rule()}.",
        ),
    ] = None,
    effects_only: Annotated[
        bool,
        typer.Option("--effects-only", help="Leave the views out, now and from now on: they take most of the time."),
    ] = False,
    views: Annotated[
        bool, typer.Option("--views", help="Bring the views into a lake that was made without them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as a JSON object to stdout.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export effects and the views of the schema analytics as Parquet files that DuckDB, polars and pandas read.

    The first export makes the folder. Each one after that adds what is new of its worlds, and of others if you name
    them; without any named, a new lake has all worlds. Files appear whole and together; a world whose history is not
    the one that was exported is refused, and the lake stays as it was.

    A world that is itself named parquet is exported as a log by `worldledger export -o FILE parquet`.

    Examples:
        worldledger export parquet -o lake --experiment first
        worldledger export parquet -o lake
        duckdb -c "select kind, count(*) from read_parquet('lake/effects/**/*.parquet') group by kind"
    """
    if effects_only and views:
        raise typer.BadParameter("--effects-only and --views contradict each other")
    with_views = None if views == effects_only else views
    moment = None if since is None else read_moment(since, "--since")
    summary = _export_lake(
        target(ctx, database_url, home), output, _Asked(experiment or [], world or [], with_views, moment), quiet=quiet
    )
    if as_json:
        put_bytes(json.dumps(summary.document(), ensure_ascii=False).encode() + b"\n")
    elif not quiet:
        say(_told(summary))


class _Asked(NamedTuple):
    experiments: list[str]
    worlds: list[str]
    views: bool | None
    since: Moment | None


def _export_lake(where: Target, place: Path, asked: _Asked, *, quiet: bool) -> Summary:
    with needed():
        from worldledger_service.arrow.connections import Connections  # noqa: PLC0415 - large, and not always installed
        from worldledger_service.arrow.lake.exporting import export_lake  # noqa: PLC0415
        from worldledger_service.arrow.lake.folder import Choice  # noqa: PLC0415

    async def work(url: str) -> Summary:
        async with opened(url, where.settings) as store:
            choice = Choice(
                experiments=asked.experiments, worlds=await whole_names(store, asked.worlds), views=asked.views
            )
            connections = Connections(url, most=1, timeout=where.settings.command_timeout)
            try:
                with progress_bar(f"exporting to {place}", quiet=quiet) as tell:
                    return await export_lake(
                        store, connections, place, choice, since=_since(store, asked.since), progress=effects(tell)
                    )
            finally:
                await connections.close()

    with database(where) as url:
        try:
            return run_blocking(work(url))
        except TamperedError as error:
            say(f"{error.message}; the lake is as it was")
            raise typer.Exit(1) from None


def _since(store: Store, moment: Moment | None) -> Since | None:
    """Return a function from a world's name to the seq after which its part of the lake begins."""
    if moment is None:
        return None

    async def after(name: str) -> int:
        world = await store.world(name)
        try:
            return await first_seq_from(store, world, moment) - 1
        except MomentNotFoundError:  # the world has not come so far
            return world.head_seq

    return after


def _told(summary: Summary) -> str:
    size = f"{counted(summary.effects, 'effect')} of {counted(summary.worlds, 'world')}, {summary.bytes / 1e6:.1f} MB"
    if not summary.new_files:
        return f"{summary.directory} is up to date: {size}"
    new = f"{counted(summary.new_effects, 'effect')} in {counted(summary.new_files, 'file')}"
    return f"wrote {new} ({summary.new_bytes / 1e6:.1f} MB) to {summary.directory}, which has {size} in all"
