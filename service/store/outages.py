"""Which of the database's errors pass by themselves, so that trying again makes sense."""

from __future__ import annotations

import asyncpg

#: Classes and codes of PostgreSQL (documentation, appendix A) that mean "not now": connection exceptions, too many
#: connections, shutdown and start-up, serialisation failures and deadlocks.
_PASSING = ("08", "53300", "57P01", "57P02", "57P03", "57P05", "40001", "40P01")


def is_outage(error: BaseException) -> bool:
    """Tell whether the database was away, or in another's way, rather than refusing what was asked."""
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(_PASSING)
    if isinstance(error, asyncpg.DataError):
        return False  # a value that cannot be sent
    return isinstance(error, (OSError, TimeoutError, asyncpg.InterfaceError, asyncpg.InternalClientError))


def leaves_doubt(error: BaseException) -> bool:
    """Tell whether after this error of a statement or commit it is not known if it was carried out.

    What PostgreSQL reports by itself was rolled back, unless it reports that the connection ends.
    """
    if isinstance(error, asyncpg.PostgresError):
        return (error.sqlstate or "").startswith(("08", "57P"))
    return True
