"""``worldledger projections pause``: let nobody write a projection for a while."""

from __future__ import annotations

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import All, Feeding, Names, chosen, with_projections
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, examples
from worldledger_service.cli.output import put

EXAMPLES = examples("worldledger projections pause entities")


def command(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Pause projections: once this has returned, no process writes them until they are resumed.

    What is there can be read meanwhile; it falls behind the logs.
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        await feeding.do(feeding.engine.ensure())  # one that was never built can be paused, too
        for name in names:
            await feeding.do(feeding.engine.pause(name))
            put(f"paused {name}")

    with_projections(where, names, work)
