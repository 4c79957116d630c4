"""``worldledger db upgrade``: bring the schema to this version's."""

from __future__ import annotations

import typer

from worldledger_service.cli.connect import database, make_views, target
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.output import put
from worldledger_service.running import run_blocking

EXAMPLES = examples("worldledger db upgrade --database-url postgresql://me@localhost/worldledger")


def command(ctx: typer.Context, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """Make the tables of a new database, or bring those of an older version up to date.

    All or nothing; a database that is up to date is left as it is. The views that the installed kinds of worlds bring
    are made or brought up to date, those of each kind by themselves. The tables and views of projections are there
    afterwards, empty until these are fed. The embedded database does this by itself.
    """
    from worldledger.errors import InvalidKindError  # noqa: PLC0415 - as below: slow to load; `--help` needs none of it
    from worldledger_service.database import schema  # noqa: PLC0415
    from worldledger_service.database.revision import REVISIONS  # noqa: PLC0415

    where = target(ctx, database_url, home)
    with database(where, upgrade=False) as url:
        refused = None
        try:
            run_blocking(schema.upgrade(url))
        except InvalidKindError as error:
            refused = error
        run_blocking(make_views(url, where.settings))
    put(f"the database is at revision {REVISIONS[-1]}")
    if refused is not None:
        raise refused
