"""Naming the sessions whose locks were waited for in vain (SQLSTATE 55P03).

PostgreSQL says of such a lock only that it was not to be had. By then the wait is over, so `pg_blocking_pids` knows
nothing any more: what is asked is who holds locks on tables and views of this project, in a transaction that is
older than the shortest wait. What they are is added to the error as a note (`BaseException.add_note`).
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import asyncpg

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record] | PoolConnectionProxy[asyncpg.Record]

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


async def lock_holders(connection: Connection) -> str | None:
    """Say which sessions hold locks in this database, longest first, and how each is ended; None if there are none."""
    rows = await connection.fetch(_HOLDERS, _MOST)
    return "held by " + "; by ".join(map(_holder, rows)) if rows else None


async def name_holders(error: BaseException, connection: Connection) -> None:
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
