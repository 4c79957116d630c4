"""Which of the database's errors pass by themselves, so that trying again makes sense."""

from __future__ import annotations

import asyncpg

#: Classes and codes of PostgreSQL (documentation, appendix A) that mean "not now": connection exceptions, too many
#: connections, shutdown and start-up, serialisation failures and deadlocks.
_PASSING = ("08", "53300", "57P01", "57P02", "57P03", "57P05", "40001", "40P01")


def is_outage(error: BaseException) -> bool:
    """Tell whether the database was away, or in another's way, rather than refusing what was asked.

    After an outage in the middle of a statement it is not known whether the statement was carried out, except for
    serialisation failures and deadlocks, which roll back.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_PASSING)
    if isinstance(error, asyncpg.DataError):
        return False  # a value that cannot be sent
    return isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError))
