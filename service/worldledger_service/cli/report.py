"""``worldledger report``: an experiment, or one world at any moment, as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import InvalidNameError, WorldNotFoundError
from worldledger_service.cli.connect import Target, database, target, work
from worldledger_service.cli.files import require_page, written_whole
from worldledger_service.cli.moments import HEAD, Moment, moment_rule, place_of, read_moment
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import Tell, counted, effects, progress_bar, put_bytes, say
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.report.blocks import Report
    from worldledger_service.store import Store


def report(
    ctx: typer.Context,
    name: Annotated[
        str,
        typer.Argument(
            metavar="EXPERIMENT|WORLD",
            help="The name of an experiment, or else of a world (its beginning is enough).",
            show_default=False,
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="MOMENT",
            help=f"Report the world of this name, up to this moment: {moment_rule()}.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where to write the page; - is stdout.",
            show_default=False,
        ),
    ] = None,
    force: Force = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the numbers behind it to stdout, as a JSON object.")
    ] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write a report of an experiment, or of a world: one HTML file with tables and plots that needs nothing else.

    What an experiment contains decides what is in its report: each kind of worlds has sections of its own; of any
    experiment there are its worlds, their heads and their effects. All of it is of one moment. Where projections are
    behind the log, the report says which, and which commands bring them up to date.

    A world's report is read from its log, up to any moment: how it stood, what its kind measures, its effects by kind
    and source, and what was refused. That of a fork goes through its ancestors, and a moment of before the fork is
    looked up there. Of a name that an experiment and a world have, --at takes the world.

    Plots need the extra `analytics`; --json without --output does not.

    Examples:
        worldledger report examples -o report.html
        worldledger report examples --json | jq '.sections[].figures[].title'
        worldledger report market --at turn:10 -o market.html
    """
    moment = None if at is None else read_moment(at, "--at")
    if output is None and not as_json:
        raise typer.BadParameter("where to: give --output FILE, or --json for the numbers alone")
    if as_json and output == "-":
        raise typer.BadParameter("stdout has the page; give --output a file to have the numbers there")
    if output is not None:
        require_page(output, force=force)
    to = target(ctx, database_url, home)
    with progress_bar("reporting", quiet=quiet or output == "-") as tell:
        with database(to) as url:
            found = run_blocking(_found(to, url, name, moment, tell))
        plots = 0 if output is None else _write(found, output, tell, force=force)
    if as_json:
        document = found if isinstance(found, Mapping) else found.document()
        put_bytes(json.dumps(document, ensure_ascii=False).encode() + b"\n")
    if not quiet:
        _conclude(found, output, plots)


async def _found(to: Target, url: str, name: str, moment: Moment | None, tell: Tell) -> Report | Mapping[str, Any]:
    """Read the report of an experiment or, where there is none of that name or a moment is named, that of a world."""
    # Slow to load; `--help` needs none of it.
    from worldledger_service.report.experiment import QUESTIONS, UnknownExperimentError, make_report  # noqa: PLC0415

    unknown: UnknownExperimentError | None = None
    if moment is None:
        try:
            return await make_report(url, name, asked=_telling(tell, QUESTIONS, "questions"))
        except UnknownExperimentError as error:
            unknown, moment = error, HEAD

    async def of_world(store: Store) -> Mapping[str, Any]:
        from worldledger_service.runtime.reporting import report_of  # noqa: PLC0415

        try:
            world = await find_world(store, name)
        except (WorldNotFoundError, InvalidNameError) as error:
            if unknown is None or (error.details.get("near") and not unknown.details.get("close")):
                raise
            raise unknown from None
        return await report_of(store, world, await place_of(store, world, moment), effects(tell))

    return await work(url, to.settings, of_world)


def _write(found: Report | Mapping[str, Any], output: str, tell: Tell, *, force: bool) -> int:
    """Write the page; return how many plots it has."""
    # Slow to load; `--help` needs none of it.
    from worldledger_service.report.blocks import figures_of  # noqa: PLC0415
    from worldledger_service.report.page import write_page  # noqa: PLC0415
    from worldledger_service.report.world import page_of  # noqa: PLC0415

    page, template = (page_of(found), "runs.html") if isinstance(found, Mapping) else (found, "page.html")
    charts = sum(1 for _ in figures_of(page.sections))
    pieces: Iterator[str] = write_page(page, drawn=_telling(tell, charts, "plots"), template=template)
    with written_whole(output, force=force) as write:
        for piece in pieces:
            write(piece.encode())
    return charts


def _telling(tell: Tell, total: int, what: str) -> Callable[[int], Any]:
    return lambda done: tell(done, max(done, total), f"{done} {what}")


def _conclude(found: Report | Mapping[str, Any], output: str | None, plots: int) -> None:
    if isinstance(found, Mapping):
        at = found["at"]
        reported = f"{found['world_id']} up to seq {at['global_seq']}"
        reported += "" if at["world_id"] == found["world_id"] else f" of {at['world_id']}"
        many = found["effects"]
    else:
        for text in found.behind:
            say(f"behind the log: {text}")
        if found.behind:
            commands = " and ".join(f"`{command}`" for command in found.todo)
            say(f"run {commands}, and make the report again, to have all of it")
        reported, many = counted(found.facts["worlds"], "world"), found.facts["effects"]
    if output not in {None, "-"}:
        say(f"reported {reported} ({many} effects) with {counted(plots, 'plot')} to {output}")
