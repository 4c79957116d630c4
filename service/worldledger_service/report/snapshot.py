"""One moment of the database, read only: everything that a report says is of the same moment.

The work is done as worldledger_reader, who may read the schema ``analytics`` and nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from worldledger_service.database.engine import connect_one
from worldledger_service.database.failures import explained
from worldledger_service.database.guards import READER_ROLE
from worldledger_service.report import queries

if TYPE_CHECKING:
    from asyncpg import Record

    from worldledger_service.database.engine import Connection

_SETTINGS: Final = (
    "set local statement_timeout = '10min'",  # for one question
    "set local idle_in_transaction_session_timeout = '60s'",
    "set local jit = off",  # compiling takes longer than what is asked
)


class Snapshot:
    """Answers questions, all of them of one moment. ``asked`` is told the number of each."""

    def __init__(self, connection: Connection, asked: Callable[[int], object]) -> None:
        self._connection = connection
        self._asked = asked
        self._questions = 0

    async def rows(self, query: str, *values: Any) -> list[Record]:
        """Return the rows of a query."""
        self._questions += 1
        self._asked(self._questions)
        return await self._connection.fetch(query, *values)

    async def value(self, query: str, *values: Any) -> Any:
        """Return the first value of a query's first row; None where there is no row."""
        found = await self.rows(query, *values)
        return found[0][0] if found else None


@asynccontextmanager
async def snapshot(
    url: str, views: Sequence[str], *, asked: Callable[[int], object] = lambda number: None
) -> AsyncIterator[tuple[Snapshot, frozenset[str]]]:
    """Lend a snapshot, and say which of the views of ``analytics`` are there.

    These stay what they are until the end: else a projection that is swapped meanwhile would be read as it was not yet
    filled. Raises StoreUnavailableError, or SchemaVersionError for a database without the schema.
    """
    with explained(url):
        connection = await connect_one(url, role=READER_ROLE, application_name="worldledger report")
        try:
            there = frozenset(row["name"] for row in await connection.fetch(queries.THERE, list(views)))
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                for setting in _SETTINGS:
                    await connection.execute(setting)
                if there:  # before the first query: the snapshot is taken with that
                    names = ", ".join(f'analytics."{name}"' for name in sorted(there))
                    await connection.execute(f"lock table {names} in access share mode")
                yield Snapshot(connection, asked), there
        finally:
            await connection.close()
