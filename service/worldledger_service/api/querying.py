"""The connections on which questions in SQL are asked: few, and none of those that the log needs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from worldledger.errors import OverloadedError
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.guards import READER_ROLE

if TYPE_CHECKING:
    from worldledger_service.database.engine import Pool, PooledConnection

#: Most questions at once; whoever comes then waits for so many seconds.
MOST: Final = 4
_PATIENCE: Final = 5.0


class SqlDoor:
    """Lends connections under the reader's role; the first one is opened when somebody asks."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening = asyncio.Lock()
        self._pool: Pool | None = None

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PooledConnection]:
        """Lend one. Raises OverloadedError where all are in use, StoreUnavailableError where the database is away."""
        async with self._opening:
            if self._pool is None:
                self._pool = await connect_pool(
                    self._url, role=READER_ROLE, max_size=MOST, command_timeout=None, application_name="worldledger sql"
                )
        try:
            connection = await self._pool.acquire(timeout=_PATIENCE)
        except TimeoutError:
            raise OverloadedError(f"{MOST} questions are being answered, the most at once: try again") from None
        try:
            yield connection
        finally:
            await self._pool.release(connection)

    async def close(self) -> None:
        """Close the connections."""
        if self._pool is not None:
            await self._pool.close()
