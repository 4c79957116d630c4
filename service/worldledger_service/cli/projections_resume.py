"""``worldledger projections resume``: let a paused projection go on."""

from __future__ import annotations

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import All, Feeding, Names, chosen, with_projections
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, examples
from worldledger_service.cli.output import put

EXAMPLES = examples("worldledger projections resume entities")


def command(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Let paused projections go on where they were, in whatever process feeds them. One that runs is left alone."""
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        for name in names:
            await feeding.do(feeding.engine.resume(name))
            put(f"resumed {name}")

    with_projections(where, names, work)
