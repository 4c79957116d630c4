"""The one table from the database's errors to this project's: what happened, where, and what to do about it.

``explain`` maps one error; ``explained`` is the boundary that code puts around its use of the database. No
message ever holds a password. ``passes`` tells which errors pass by themselves, and how soon.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

import asyncpg

from worldledger.errors import SchemaVersionError, SimulationError, StoreUnavailableError
from worldledger_service.database.address import EXPECTED_FORM, MOST_PORT, describe, parse_address, wrong_port

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection, PooledConnection


# -- naming the sessions whose locks were waited for in vain (SQLSTATE 55P03) -----------------------------
#
# PostgreSQL says of such a lock only that it was not to be had. By then the wait is over, so `pg_blocking_pids` knows
# nothing any more: what is asked is who holds locks on tables and views of this project, in a transaction that is
# older than the shortest wait. What they are is added to the error as a note (`BaseException.add_note`).


#: Sessions that are named at most.
_MOST: Final = 3
#: $1: how many. Times are null where the user may not see them (no member of that role, nor of pg_read_all_stats). A
#: prepared transaction has no process; the advisory lock is that of migrations/env.py.
_HOLDERS: Final = """
select l.pid, a.usename, a.application_name,
       to_char(coalesce(a.xact_start, p.prepared) at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS') as since,
       (array_agg(distinct l.relation::regclass::text) filter (where l.relation is not null))[1:2] as relations,
       p.gid
from pg_locks l
left join pg_stat_activity a on a.pid = l.pid
left join pg_prepared_xacts p on l.pid is null and l.virtualtransaction = '-1/' || p.transaction
left join pg_class c on l.locktype = 'relation' and c.oid = l.relation
left join pg_namespace n on n.oid = c.relnamespace
where l.granted and l.pid is distinct from pg_backend_pid()
  and l.database = (select oid from pg_database where datname = current_database())
  and (c.relkind in ('r', 'v', 'm', 'p') and n.nspname in ('public', 'projections', 'analytics')
       or l.locktype = 'advisory' and l.classid = 119 and l.objid = 1818519410 and l.objsubid = 1)
  and coalesce(a.xact_start, p.prepared, '-infinity') < clock_timestamp() - interval '0.2 s'
group by l.pid, a.usename, a.application_name, a.xact_start, p.prepared, p.gid
order by coalesce(a.xact_start, p.prepared) nulls last limit $1
"""


def _holder(row: asyncpg.Record) -> str:
    since = f", in a transaction since {row['since']} UTC" if row["since"] else ""
    locks = f" (locks on {', '.join(row['relations'])})" if row["relations"] else ""
    if row["pid"] is None:
        return (
            f"the prepared transaction {row['gid']}{since}{locks}: COMMIT PREPARED or ROLLBACK PREPARED '{row['gid']}'"
        )
    who = f"user {row['usename']}, application {row['application_name'] or 'without a name'}"
    return f"PID {row['pid']}, {who}{since}{locks}: SELECT pg_terminate_backend({row['pid']}) ends it"


async def lock_holders(connection: Connection | PooledConnection) -> str | None:
    """Say which sessions hold locks in this database, longest first, and how each is ended; None if there are none."""
    rows = await connection.fetch(_HOLDERS, _MOST)
    return "held by " + "; by ".join(map(_holder, rows)) if rows else None


async def name_holders(error: BaseException, connection: Connection | PooledConnection) -> None:
    """Add who holds the lock to an error that says that it was not to be had; other errors stay as they are."""
    if isinstance(error, asyncpg.LockNotAvailableError):
        with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
            if held := await lock_holders(connection):
                error.add_note(held)


def holders_of(error: BaseException) -> str | None:
    """Return what `name_holders` added to an error."""
    return (
        next(iter(getattr(error, "__notes__", ())), None) if isinstance(error, asyncpg.LockNotAvailableError) else None
    )


#: What an open connection to the database may raise.
DRIVER: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
#: What using the database may raise, before it is explained; OverflowError where a stored time is none of Python's.
FOREIGN: Final = (*DRIVER, OverflowError)

_CHECK_LOGIN: Final = "check the user and the password in the address (WORLDLEDGER_DATABASE_URL, --database-url)"
_UPGRADE: Final = "run `worldledger db upgrade`"
_ADDRESS: Final = (
    f"the address is not understood; expected {EXPECTED_FORM}, with the reserved characters of a password "
    "percent-encoded and no settings that PostgreSQL does not know"
)
_NO_PORT: Final = f"a port is a number from 1 to {MOST_PORT}; correct it (WORLDLEDGER_DATABASE_URL, --database-url)"
_RETRY: Final = "try again; the same req_id makes a retry safe"
_CHANGED: Final = "`worldledger verify --all` names worlds that were changed"
_DAMAGED: Final = "look at the server's log and at its disk, and restore what is lost from a backup or an export"

#: SQLSTATE (or its class, the first two characters) to what is the matter and what to do.
#: Source: PostgreSQL documentation, appendix A.
_UNAVAILABLE: Final = {
    "28P01": ("refuses the password", _CHECK_LOGIN),
    "28": ("refuses the login", _CHECK_LOGIN + ", and the server's pg_hba.conf"),
    "3D000": ("does not exist", "create it first (`createdb NAME`), then " + _UPGRADE),
    "53100": ("has no disk space left", "free some space on the server; nothing was half-written"),
    "53300": ("accepts no more connections", "stop other clients, or raise max_connections on the server"),
    "53": ("is short of resources", _RETRY),
    "25006": ("is read-only", "use the primary server, not a standby, and check default_transaction_read_only"),
    "22P02": ("cannot read a stored text", _CHANGED),
    "22P05": ("cannot read a stored text", _CHANGED),
    "54001": ("cannot read a stored text", _CHANGED),
    "57P01": ("is shutting down", _RETRY),
    "57P02": ("was restarted after a crash", _RETRY),
    "57P03": ("is starting up or shutting down", _RETRY),
    "57P05": ("closed an idle session", _RETRY),
    "57014": ("took too long and the statement was cancelled", "try again, or raise the timeout"),
    "55P03": ("is locked by someone else", "try again when the other one has finished"),
    "40": ("is contended", _RETRY),
    "58": ("cannot read or write its files", "look at the server's log"),
    "XX001": ("has damaged data on its disk", _DAMAGED),
    "XX002": ("has a damaged index on its disk", f"have an administrator REINDEX it, or {_DAMAGED}"),
    "XX": ("reports an internal error", "look at the server's log"),
    "08P01": ("does not understand the connection", "connect to PostgreSQL itself, not through a pooler"),
    "08": ("broke off the connection", _RETRY),
}

#: The database is away: connection exceptions, shutdown and start-up.
AWAY: Final = ("08", "57P01", "57P02", "57P03")
#: It is away, or in another's way: too many connections, an idle session closed, serialisation failures and deadlocks.
PASSING: Final = (*AWAY, "53300", "57P05", "40001", "40P01")
#: What passes for those who have time, too: shortage of resources, cancelled statements, errors of its system, locks
#: that were not to be had, transactions that were thrown out, a server that is read-only.
LASTING: Final = (*PASSING, "53", "57", "58", "55P03", "25P03", "25P04", "25006")
#: The connection has ended, and what was asked with it may have been done or not.
ENDED: Final = ("08", "57P")

_SCHEMA: Final = frozenset({"42P01", "42703", "42883", "3F000", "42704"})
_NO_PRIVILEGE: Final = "42501"
_UNKNOWN_ROLE: Final = "22023"


def has_state(error: BaseException, states: tuple[str, ...]) -> bool:
    """Tell whether PostgreSQL reports an error with one of these SQLSTATEs, or of one of these classes."""
    return isinstance(error, asyncpg.PostgresError) and (error.sqlstate or "").startswith(states)


def passes(error: BaseException, states: tuple[str, ...] = PASSING) -> bool:
    """Tell whether an error passes by itself: PostgreSQL reports one of these ``states``, or nothing at all."""
    if isinstance(error, asyncpg.PostgresError):
        return has_state(error, states)
    return isinstance(error, (OSError, asyncpg.InterfaceError, asyncpg.InternalClientError))


def origin(error: BaseException) -> BaseException:
    """Find the driver's own error under what SQLAlchemy or Alembic made of it."""
    seen = error
    while not isinstance(seen, FOREIGN) and seen.__cause__ is not None:
        seen = seen.__cause__
    if isinstance(seen, asyncpg.ConnectionDoesNotExistError) and isinstance(seen.__cause__, asyncpg.PostgresError):
        return seen.__cause__  # what the server said before it hung up
    return seen if isinstance(seen, FOREIGN) else error


def what_to_do(state: str) -> str:
    """Return what somebody who only reads can do about an error with this SQLSTATE."""
    return _told(state)[1] if state.startswith("XX") else "try again"


def _told(state: str) -> tuple[str, str]:
    return _UNAVAILABLE.get(state) or _UNAVAILABLE.get(state[:2]) or ("refused a statement", "")


def _of_postgres(error: asyncpg.PostgresError, url: str) -> SimulationError:
    state = error.sqlstate or ""
    where = describe(url)
    said = str(error.args[0]) if error.args else type(error).__name__
    hint = getattr(error, "hint", None)
    if said.startswith("unrecognized configuration parameter"):
        return StoreUnavailableError(f"{where} cannot be used ({said}): {_ADDRESS}", sqlstate=state)
    if state in _SCHEMA or (state == _UNKNOWN_ROLE and said.startswith("role ")):
        return SchemaVersionError(f"{where} lacks what this program needs ({said}): {_UPGRADE}", sqlstate=state)
    if state == _NO_PRIVILEGE:
        todo = hint or "run `worldledger db check` to see which privileges differ"
        if said.startswith("permission denied to set role"):
            role = said.rpartition(" ")[2]
            address = parse_address(url)
            user = f'"{address.user}"' if address and address.user else "the user of the address"
            todo = f"as an administrator: GRANT {role} TO {user}"
        return StoreUnavailableError(f"{where}: {said}: {todo}", sqlstate=state)
    if holders := holders_of(error):
        said += f", {holders}"
    what, todo = _told(state)
    todo = todo or hint or ""
    return StoreUnavailableError(f"{where} {what} ({said})" + (f": {todo}" if todo else ""), sqlstate=state or None)


def explain(error: BaseException, url: str) -> SimulationError:
    """Say what an error of the database means for a user.

    Args:
        error: what asyncpg, SQLAlchemy or the operating system raised; an error of ours comes back as it is.
        url: the address that was in use; it is named without its password.

    Returns:
        A SchemaVersionError where the schema does not fit this program, else a StoreUnavailableError;
        ``details["sqlstate"]`` is PostgreSQL's code where there was one.
    """
    if isinstance(error, SimulationError):
        return error
    under = origin(error)
    if isinstance(under, asyncpg.PostgresError):
        return _of_postgres(under, url)
    if isinstance(under, OverflowError):
        what = f"{describe(url)} has a value that this program cannot read ({under})"
        return StoreUnavailableError(f"{what}; `worldledger db check` and `worldledger verify --all` name such rows")
    if isinstance(under, asyncpg.InterfaceError | asyncpg.InternalClientError):
        return StoreUnavailableError(f"{describe(url)}: {under}")
    if isinstance(under, TimeoutError):
        return StoreUnavailableError(f"{describe(url)} did not answer in time: is the server reachable and alive?")
    if isinstance(under, OSError):
        return StoreUnavailableError(
            f"{describe(url)} cannot be reached ({under.strerror or under}): "
            "is the server running there, and are host and port right?"
        )
    return StoreUnavailableError(f"{describe(url)}: unexpected {type(under).__name__}: {under}")


def check_port(url: str) -> None:
    """Raise StoreUnavailableError where an address has a port that is none."""
    if (port := wrong_port(url)) is not None:
        what = f"{describe(url)} cannot be used: its port {port[:20]} is no port: {_NO_PORT}"
        raise StoreUnavailableError(what, port=port[:20])


@contextmanager
def connecting(url: str) -> Iterator[None]:
    """Explain whatever is raised while a connection is made; an invalid value is one of the address then."""
    with explained(url):
        try:
            yield
        except (ValueError, OverflowError) as error:
            # Not the error's own text: it may quote pieces of the address, and so of the password.
            raise StoreUnavailableError(f"{describe(url)} cannot be used: {_ADDRESS}") from error


@contextmanager
def explained(url: str, *also: type[Exception]) -> Iterator[None]:
    """Explain whatever the database raises inside; ``also`` names more errors that stand for the database's."""
    try:
        yield
    except Exception as error:
        if isinstance(error, FOREIGN + also):
            raise explain(error, url) from error
        raise
