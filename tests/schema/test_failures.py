"""Every error of the database becomes one of ours, that says what to do and shows no password."""

from __future__ import annotations

import errno

import asyncpg
import pytest
from worldledger_service.database.address import Address, describe, parse_address
from worldledger_service.database.analytics.asking import explained as of_a_query
from worldledger_service.database.failures import explain, explained, what_to_do

from worldledger.errors import RecoveryAction, SchemaVersionError, SimulationError, StoreUnavailableError

URL = "postgresql://ann:hunter2@db.example:6543/lab"

PLAIN = {
    asyncpg.InvalidPasswordError("password authentication failed"): "refuses the password",
    asyncpg.InvalidAuthorizationSpecificationError("no pg_hba.conf entry"): "refuses the login.*pg_hba",
    asyncpg.InvalidCatalogNameError('database "lab" does not exist'): "does not exist.*createdb",
    asyncpg.TooManyConnectionsError("sorry, too many clients"): "no more connections.*max_connections",
    asyncpg.DiskFullError("could not extend file"): "no disk space left.*free some space",
    asyncpg.ReadOnlySQLTransactionError("cannot execute INSERT"): "is read-only.*standby",
    asyncpg.AdminShutdownError("terminating connection"): "is shutting down.*req_id",
    asyncpg.CrashShutdownError("terminating connection"): "restarted after a crash",
    asyncpg.CannotConnectNowError("the database system is starting up"): "is starting up",
    asyncpg.QueryCanceledError("canceling statement"): "took too long",
    asyncpg.LockNotAvailableError("canceling statement"): "locked by someone else",
    asyncpg.SerializationError("could not serialize access"): "is contended",
    asyncpg.DeadlockDetectedError("deadlock detected"): "is contended",
    asyncpg.OutOfMemoryError("out of memory"): "short of resources",
    asyncpg.PostgresIOError("could not read block"): "cannot read or write its files",
    asyncpg.DataCorruptedError("invalid page"): "damaged data on its disk.*backup",
    asyncpg.IndexCorruptedError("right sibling's left-link"): "damaged index.*REINDEX",
    asyncpg.InternalServerError("cache lookup failed"): "internal error.*server's log",
    asyncpg.ConnectionDoesNotExistError("connection was closed"): "broke off the connection",
    asyncpg.InsufficientPrivilegeError("permission denied for table effects"): "worldledger db check",
    asyncpg.UniqueViolationError("duplicate key"): "refused a statement.*duplicate key",
    asyncpg.InterfaceError("pool is closed"): "pool is closed",
    asyncpg.InternalClientError("unknown protocol state"): "unknown protocol state",
    ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"): "cannot be reached.*is the server running",
    FileNotFoundError(errno.ENOENT, "No such file or directory"): "cannot be reached",
    OSError("Multiple exceptions: [Errno 111] …"): "cannot be reached.*Multiple",
    TimeoutError(): "did not answer in time",
}


@pytest.mark.parametrize("error", PLAIN, ids=lambda error: type(error).__name__)
def test_unavailable(error: Exception) -> None:
    """What the server or the way to it lacks is StoreUnavailableError, with where, what and what to do."""
    explained_error = explain(error, URL)
    assert type(explained_error) is StoreUnavailableError
    with pytest.raises(StoreUnavailableError, match=PLAIN[error]):
        raise explained_error
    assert "database 'lab' at db.example:6543 as user 'ann'" in explained_error.message
    assert "hunter2" not in explained_error.message
    assert explained_error.recovery is RecoveryAction.RETRY_WITH_DELAY
    assert explained_error.details.get("sqlstate") == getattr(error, "sqlstate", None)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UndefinedTableError('relation "effects" does not exist'),
        asyncpg.UndefinedColumnError('column "kind" does not exist'),
        asyncpg.UndefinedFunctionError("function chain_checksum does not exist"),
        asyncpg.InvalidParameterValueError('role "worldledger_service" does not exist'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_schema(error: Exception) -> None:
    """What the database lacks of our schema is SchemaVersionError, with what to run."""
    with pytest.raises(SchemaVersionError, match="run `worldledger db upgrade`"):
        raise explain(error, URL)


def test_wrapped_errors_are_unwrapped() -> None:
    """An error that a library wrapped is explained by what lies under it; ours comes back as it is."""
    outer = RuntimeError("outer")
    outer.__cause__ = asyncpg.DiskFullError("could not extend file")
    assert "no disk space left" in explain(outer, URL).message
    ours = SchemaVersionError("old")
    assert explain(ours, URL) is ours
    assert "unexpected RuntimeError: odd" in explain(RuntimeError("odd"), URL).message


def test_boundary() -> None:
    """The boundary turns the database's errors into ours, keeps the cause, and lets all others pass."""
    with pytest.raises(SimulationError) as caught, explained(URL):
        raise asyncpg.DiskFullError("could not extend file")
    assert isinstance(caught.value.__cause__, asyncpg.DiskFullError)
    with pytest.raises(ZeroDivisionError), explained(URL):
        raise ZeroDivisionError
    with pytest.raises(StoreUnavailableError, match="unexpected ZeroDivisionError"), explained(URL, ZeroDivisionError):
        raise ZeroDivisionError


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h:1/d", "database 'd' at h:1 as user 'u'"),
        ("postgres://u@[::1]/d", "database 'd' at ::1 as user 'u'"),
        ("postgresql:///d?host=/run/pg&port=5433&user=u", "database 'd' at /run/pg port 5433 as user 'u'"),
        ("postgresql://u:p@%2Frun%2Fpg/d%20e", "database 'd e' at /run/pg as user 'u'"),
        ("postgresql://", "the database at the local server"),
        ("postgresql://u:se/cret@h/d", "the given address"),
        ("postgresql://u:1?2@h/d", "the given address"),
        ("postgresql://u:1#2@h/d", "the given address"),
        ("http://h/d", "the given address"),
        ("postgresql://[::1/d", "the given address"),
    ],
)
def test_addresses(url: str, shown: str) -> None:
    """An address is named by its parts without the password; one that cannot be trusted to be whole is not."""
    assert describe(url) == shown


def test_address_parts() -> None:
    """The parts that may be shown."""
    assert parse_address(URL) == Address("ann", "db.example", 6543, "lab")


def test_a_query_is_not_advised_to_be_tried_again_on_a_damaged_disk() -> None:
    """What does not pass is not said to: a query is refused with the same advice as any other statement."""
    damaged = of_a_query(asyncpg.DataCorruptedError("invalid page in block 0"), "select 1")
    assert damaged.message.endswith(what_to_do("XX001"))
    assert "backup" in damaged.message
    assert of_a_query(asyncpg.AdminShutdownError("terminating"), "select 1").message.endswith(": try again")
