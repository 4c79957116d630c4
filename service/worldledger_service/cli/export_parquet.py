"""``worldledger export parquet``: logs and views as a folder of Parquet files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from worldledger.errors import MomentNotFoundError, TamperedError
from worldledger_service.arrow.extras import needed
from worldledger_service.cli.connect import database, opened, target
from worldledger_service.cli.moments import Moment, first_seq_from, moment_rule, read_moment
from worldledger_service.cli.naming import whole_names
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet, examples
from worldledger_service.cli.output import put_bytes, say
from worldledger_service.cli.progress import effects, progress_bar
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.arrow.lake.exporting import Since, Summary
    from worldledger_service.cli.connect import Target
    from worldledger_service.store import Store

EXAMPLES = examples(
    "worldledger export parquet -o lake --experiment first",
    "worldledger export parquet -o lake",
    "duckdb -c \"select kind, count(*) from read_parquet('lake/effects/**/*.parquet') group by kind\"",
)


def command(
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
    """
    if effects_only and views:
        raise typer.BadParameter("--effects-only and --views contradict each other")
    with_views = None if views == effects_only else views
    moment = None if since is None else read_moment(since, "--since")
    summary = _export(
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


def _export(where: Target, place: Path, asked: _Asked, *, quiet: bool) -> Summary:
    with needed():
        from worldledger_service.arrow.connections import Connections  # noqa: PLC0415 - large, and not always installed
        from worldledger_service.arrow.lake.exporting import export_lake  # noqa: PLC0415
        from worldledger_service.arrow.lake.manifest import Choice  # noqa: PLC0415

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
    """Return what tells behind which effect a world begins."""
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
    size = f"{_counted(summary.effects, 'effect')} of {_counted(summary.worlds, 'world')}, {summary.bytes / 1e6:.1f} MB"
    if not summary.new_files:
        return f"{summary.directory} is up to date: {size}"
    new = f"{_counted(summary.new_effects, 'effect')} in {_counted(summary.new_files, 'file')}"
    return f"wrote {new} ({summary.new_bytes / 1e6:.1f} MB) to {summary.directory}, which has {size} in all"


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
