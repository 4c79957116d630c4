"""``worldledger projections verify``: compare projections with what the logs give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import All, Feeding, Names, chosen, with_projections
from worldledger_service.cli.options import DatabaseUrl, Home, Json, OwnProjections, Quiet, examples
from worldledger_service.cli.output import json_list, put, say
from worldledger_service.cli.progress import effects, progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable

    from worldledger_service.projecting.engine import Report

EXAMPLES = examples(
    "worldledger projections verify entities",
    "worldledger projections verify entities world_summaries --json",
)


def command(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    as_json: Json = False,
    quiet: Quiet = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Check what is live of projections, row by row, against a replay of the logs, and the views against the program.

    The exit code is 0 if every row is what the log gives, 1 if one is not (the world, the key, the column and both
    values are named), 2 if a check could not be run. `worldledger projections rebuild` puts things right.
    """
    from worldledger.errors import SimulationError, StoreUnavailableError  # noqa: PLC0415

    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)
    reports: list[Report] = []
    unchecked: list[str] = []

    async def work(feeding: Feeding, tell_report: Callable[[Report], None]) -> None:
        for name in names:
            try:
                with progress_bar(f"verifying {name}", quiet=quiet) as tell:
                    report = await feeding.do(feeding.engine.verify(name, effects(tell)))
            except StoreUnavailableError:
                raise
            except SimulationError as error:
                unchecked.append(name)
                say(error.message)
                continue
            reports.append(report)
            tell_report(report)

    if as_json:
        with json_list() as item:
            with_projections(where, names, lambda feeding: work(feeding, item))
    else:
        with_projections(where, names, lambda feeding: work(feeding, lambda report: put(_sentence(report))))
    if any(not report["verified"] for report in reports):
        raise typer.Exit(1)
    if unchecked:
        raise typer.Exit(2)


def _sentence(report: Report) -> str:
    name, finding = report["projection"], report["finding"]
    if finding is None:
        return f"verified {name} {report['rows']} rows of {report['worlds']} worlds"
    parts = []
    if finding["world_id"] is not None:
        parts.append(f"world {finding['world_id']}")
    key = {column: value for column, value in (finding["key"] or {}).items() if column != "world_id"}
    parts += [f"{column} {value}" for column, value in key.items()]
    where = f"{', '.join(parts)}: " if parts else ""
    return f"DIFFERS {name}: {where}{finding['what']}{_values(finding)}"


def _values(finding: dict[str, Any]) -> str:
    if finding["column"] is None:
        return ""
    live, expected = ("null" if finding[side] is None else finding[side] for side in ("live", "expected"))
    return f": live is {live}, the log gives {expected}"
