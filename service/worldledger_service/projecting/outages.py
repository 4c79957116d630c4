"""What an error means for the engine: whether it is transient, or the data are at fault; and transactions.

The engine has time: it waits for more than the log does (`worldledger_service.store.outages`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import asyncpg

from worldledger.errors import StoreUnavailableError
from worldledger_service.database.failures import DRIVER, LASTING, has_state, name_holders, passes
from worldledger_service.projecting import statements

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

#: The errors of using the database.
FOREIGN: Final = DRIVER
#: Classes and codes (PostgreSQL documentation, appendix A) that tell that rows cannot be written so: a key twice,
#: data, constraints, types, limits.
_DATAS_FAULT: Final = ("21", "22", "23", "42804", "42846", "54")


class RefusedRowsError(Exception):
    """The driver cannot send these rows."""


def is_worth_waiting_for(error: BaseException) -> bool:
    """Return whether an error passes for the engine, which has time: the same work may succeed later."""
    return isinstance(error, StoreUnavailableError) or passes(error, LASTING)


def is_datas_fault(error: BaseException) -> bool:
    """Return whether the database, or the driver, refuses the rows themselves."""
    return has_state(error, _DATAS_FAULT) or isinstance(error, RefusedRowsError)


@asynccontextmanager
async def transaction(pool: Pool, *, begin: str = "begin") -> AsyncIterator[Connection]:
    """Lend a connection in a transaction that ``begin`` opens; the error that ended the block is raised.

    An error because of a lock has a note about its holders (`worldledger_service.database.failures`).
    """
    async with pool.acquire() as connection:
        try:
            await connection.execute(begin)
            yield connection
            await connection.execute("commit")
        except BaseException as error:
            try:
                await connection.execute("rollback")
                await name_holders(error, connection)
            except FOREIGN:
                with suppress(asyncpg.InterfaceError):  # the pool may have taken it back
                    connection.terminate()
            raise


def brief(*, idle: float, lock: float) -> str:
    """Return the beginning of a short transaction: seconds that it may be idle, and wait for a lock."""
    return statements.BEGIN.format(idle=round(idle * 1000), lock=round(lock * 1000))
