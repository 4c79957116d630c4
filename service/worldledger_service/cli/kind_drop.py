"""``worldledger kind drop``: take the views of a kind of worlds out of the database."""

from __future__ import annotations

from typing import Annotated

import typer

from worldledger_service.cli.connect import database, target
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.output import plain, put
from worldledger_service.running import run_blocking

EXAMPLES = examples("worldledger kind drop auction")


def command(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The kind's name.", show_default=False)],
    force: Annotated[bool, typer.Option("--force", help="Drop them even if the kind is installed.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Drop the views that a kind of worlds has brought to the schema analytics. Worlds and their logs stay.

    It is refused while the kind is installed, because the next `worldledger db upgrade` makes the views again, and
    where something else is made upon them. They can always be made again, so nothing is asked. The kind's projections
    are dropped by `worldledger projections drop`. The user of the address works as the owner of the tables, as for
    `db upgrade`.
    """
    from worldledger_service.database.analytics import of_kinds  # noqa: PLC0415 - slow to load; `--help` needs none of it

    with database(target(ctx, database_url, home)) as url:
        dropped = run_blocking(of_kinds.drop(url, name, force=force))
    put(f"dropped the views of {name}: {', '.join(map(plain, dropped.views))}")
    if dropped.worlds:
        names = [*map(plain, dropped.names), *(["…"] if dropped.worlds > len(dropped.names) else [])]
        put(f"worlds of this kind that are left, with their logs: {dropped.worlds}: {', '.join(names)}")
