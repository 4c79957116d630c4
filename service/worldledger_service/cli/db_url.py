"""``worldledger db url``: the address of the database, for other programs."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from worldledger_service.cli.connect import database, target
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.cli.output import put, say

EXAMPLES = examples(
    "worldledger db url",
    'psql "$(worldledger db url)" -c "select * from verification"',
)


def command(
    ctx: typer.Context,
    admin: Annotated[
        bool, typer.Option("--admin", help="The address alone, to work as its user and not as worldledger_reader.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Print the database's address, with its password: for psql, dataframes, dashboards and programs of your own.

    A connection to it is a reader's, in the schema analytics. The embedded server runs for as long as a command
    needs it: keep `worldledger serve` or `worldledger project` running meanwhile.
    """
    from worldledger_service.database.guards import READER_ROLE  # noqa: PLC0415

    where = target(ctx, database_url, home)
    with database(where) as url:
        given = f"-c role={READER_ROLE} -c search_path=analytics -c default_transaction_read_only=on"
        reader = f"{'&' if '?' in url else '?'}options={quote(given, safe='')}"
        put(url if admin else url + reader)
    if where.embedded:
        say("the embedded server stops when no command needs it; `worldledger serve` keeps it running")
