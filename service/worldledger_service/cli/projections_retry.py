"""``worldledger projections retry``: give worlds that were set aside another chance."""

from __future__ import annotations

from typing import Annotated

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import All, Feeding, Names, chosen, with_projections
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, examples
from worldledger_service.cli.output import put

EXAMPLES = examples("worldledger projections retry entities", "worldledger projections retry entities --world my-world")


def command(
    ctx: typer.Context,
    names: Names = None,
    every: All = False,
    world: Annotated[str | None, typer.Option("--world", metavar="W", help="Only this world.")] = None,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Release the worlds that projections have parked, so that whatever feeds them tries the effect again.

    That is `worldledger serve` or `worldledger project`. A world in which it fails again is parked again.
    """
    where = target(ctx, database_url, home, own_projections=own(projection))
    names = chosen(where, names, every=every)

    async def work(feeding: Feeding) -> None:
        only = None if world is None else (await exact_world(feeding.store, world)).world_id
        for name in names:
            released = await feeding.do(feeding.engine.retry(name, only))
            put(f"released {released} world{'' if released == 1 else 's'} of {name}")

    with_projections(where, names, work)
