"""``worldledger report``: an experiment as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger_service.cli.connect import database, target
from worldledger_service.cli.files import require_none, written_whole
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet
from worldledger_service.cli.output import Tell, counted, progress_bar, put_bytes, say
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.report.blocks import Report


def report(
    ctx: typer.Context,
    experiment: Annotated[
        str, typer.Argument(metavar="EXPERIMENT", help="The name of an experiment.", show_default=False)
    ],
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
    """Write a report of an experiment: one HTML file with tables and plots that needs nothing else, and no network.

    What the experiment contains decides what is in it: each kind of worlds has sections of its own; of any experiment
    there are its worlds, their heads and their effects. All of it is of one moment. Where projections are behind the
    log, the report says which, and which commands bring them up to date.

    Plots need the extra `analytics`; --json without --output does not.

    Examples:
        worldledger report examples -o report.html
        worldledger report examples --json | jq '.sections[].figures[].title'
    """
    if output is None and not as_json:
        raise typer.BadParameter("where to: give --output FILE, or --json for the numbers alone")
    if as_json and output == "-":
        raise typer.BadParameter("stdout has the page; give --output a file to have the numbers there")
    if output is not None:
        from worldledger_service.report.drawing import require_drawing  # noqa: PLC0415 - `--help` needs none of it

        require_drawing()
        if not force:
            require_none(output)
    with progress_bar("reporting", quiet=quiet or output == "-") as tell:
        with database(target(ctx, database_url, home)) as url:
            report = run_blocking(_read(url, experiment, tell))
        if output is not None:
            _write(report, output, tell, force=force)
    if as_json:
        put_bytes(json.dumps(report.document(), ensure_ascii=False).encode() + b"\n")
    if not quiet:
        _conclude(report, output)


async def _read(url: str, experiment: str, tell: Tell) -> Report:
    from worldledger_service.report.experiment import QUESTIONS, make_report  # noqa: PLC0415 - slow to load; `--help` needs none of it

    return await make_report(url, experiment, asked=_telling(tell, QUESTIONS, "questions"))


def _write(report: Report, output: str, tell: Tell, *, force: bool) -> None:
    from worldledger_service.report.page import write_page  # noqa: PLC0415 - slow to load; `--help` needs none of it

    charts = sum(1 for _ in report.figures())
    with written_whole(output, force=force) as write:
        for piece in write_page(report, drawn=_telling(tell, charts, "plots")):
            write(piece.encode())


def _telling(tell: Tell, total: int, what: str) -> Callable[[int], Any]:
    return lambda done: tell(done, max(done, total), f"{done} {what}")


def _conclude(report: Report, output: str | None) -> None:
    for text in report.behind:
        say(f"behind the log: {text}")
    if report.behind:
        commands = " and ".join(f"`{command}`" for command in report.todo)
        say(f"run {commands}, and make the report again, to have all of it")
    if output not in {None, "-"}:
        plots = sum(1 for _ in report.figures())
        worlds = report.facts["worlds"]
        say(
            f"reported {counted(worlds, 'world')} ({report.facts['effects']} effects) "
            f"with {counted(plots, 'plot')} to {output}"
        )
