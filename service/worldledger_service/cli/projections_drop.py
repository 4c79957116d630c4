"""``worldledger projections drop``: take a projection out of the database."""

from __future__ import annotations

from typing import Annotated

import typer

from worldledger_service.cli.connect import own, target
from worldledger_service.cli.feeding import Feeding, every_name, with_projections
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections, examples
from worldledger_service.cli.output import put

EXAMPLES = examples("worldledger projections drop words")


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The projection's name.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Drop it even if this program has it.")] = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Drop a projection that this program does not have: its builds, their tables, and its views. The logs stay.

    Stop first whatever feeds it: a process that has the projection makes it again. It can always be made again from
    the logs, so nothing is asked.
    """
    where = target(ctx, database_url, home, own_projections=own(projection))

    async def work(feeding: Feeding) -> None:
        builds = await feeding.do(feeding.engine.drop(name, force=force))
        put(f"dropped {name}, {builds} build{'' if builds == 1 else 's'}")

    with_projections(where, every_name(where), work)
