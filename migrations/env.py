"""How Alembic runs here: on a connection that `worldledger db upgrade` hands over, one migration at a time.

``config.attributes["connection"]`` is a SQLAlchemy connection under the owner's role (the service makes it with
its async engine and calls this through ``run_sync``); ``config.attributes["metadata"]`` holds the tables, for
comparison only. Nothing here or in ``versions`` imports the application: a migration must do next year what it
does today.
"""

from __future__ import annotations

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection

#: Any number that no other program's advisory lock in this database has: the letters "wldgr".
ADVISORY_LOCK = 0x776C646772

#: Another upgrade may hold the lock for as long as its migrations take.
WAIT_FOR_TURN = "30min"
#: A migration that waits for a table lock makes everybody else wait behind it: give up soon, and be run again.
LOCK_TIMEOUT = context.config.attributes.get("lock_timeout", "10s")
#: One statement; a migration that has to rewrite a large table sets its own.
STATEMENT_TIMEOUT = "10min"


def run(connection: Connection) -> None:
    """Run the migrations, all of them in one transaction."""
    context.configure(
        connection=connection,
        target_metadata=context.config.attributes.get("metadata"),
        compare_server_default=True,
    )
    with context.begin_transaction():
        for setting, value in (("lock_timeout", WAIT_FOR_TURN), ("statement_timeout", WAIT_FOR_TURN)):
            connection.exec_driver_sql(f"set local {setting} = '{value}'")
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({ADVISORY_LOCK})")
        for setting, value in (("lock_timeout", LOCK_TIMEOUT), ("statement_timeout", STATEMENT_TIMEOUT)):
            connection.exec_driver_sql(f"set local {setting} = '{value}'")
        context.run_migrations()


if context.is_offline_mode() or "connection" not in context.config.attributes:
    raise CommandError("these migrations need a connection under the owner's role: run `worldledger db upgrade`.")
run(context.config.attributes["connection"])
