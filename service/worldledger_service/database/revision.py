"""Which version of the schema a database has, and whether this program can work with it.

Apart from ``schema.py``, so that a program that only asks does not load Alembic.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from worldledger.errors import SchemaVersionError

if TYPE_CHECKING:
    from worldledger_service.database.engine import Connection, PooledConnection

#: The revisions of the migrations, oldest first (a test compares them with the files).
REVISIONS: Final = tuple(f"{number:04}" for number in range(1, 22))

_HAS_TABLE: Final = """
select exists (select from pg_attribute
               where attrelid = to_regclass('public.alembic_version') and attname = 'version_num' and not attisdropped)
"""
_HAS_LOG: Final = "select to_regclass('public.worlds') is not null and to_regclass('public.effects') is not null"
#: The schema that has the log's tables and says that they are of a revision ($1 all of them), if it is not public.
_MOVED: Final = """
select quote_ident(n.nspname) as schema, to_regnamespace('public') is not null as has_public
from pg_catalog.pg_namespace n
where n.nspname <> 'public'
  and (select count(*) from pg_catalog.pg_class c
       where c.relnamespace = n.oid and c.relkind = 'r' and c.relowner::regrole::text = 'worldledger_owner'
         and c.relname in ('alembic_version', 'worlds', 'heads', 'effects')) = 4
order by n.oid limit 1
"""
_READ: Final = "select version_num from public.alembic_version order by version_num"


@dataclass(frozen=True)
class SchemaState:
    """The revision found in a database (None: none), the one that this program needs, and how they compare.

    ``newer`` stands for every revision that this program does not know, ``lost`` for tables without one, ``moved`` for
    tables in another schema than public; ``remedy`` is the SQL that moves them back.
    """

    current: str | None
    head: str
    status: Literal["empty", "lost", "moved", "older", "current", "newer"]
    remedy: str = ""


async def revision_state(connection: Connection | PooledConnection) -> SchemaState:
    """Read the database's revision."""
    rows = await connection.fetch(_READ) if await connection.fetchval(_HAS_TABLE) else []
    head = REVISIONS[-1]
    if not rows:
        if await connection.fetchval(_HAS_LOG):
            return SchemaState(None, head, "lost")
        moved = await connection.fetchrow(_MOVED)
        if moved is None:
            return SchemaState(None, head, "empty")
        away = "ALTER SCHEMA public RENAME TO public_before; " if moved["has_public"] else ""
        return SchemaState(None, head, "moved", f"{away}ALTER SCHEMA {moved['schema']} RENAME TO public")
    current = ", ".join(str(row["version_num"]) for row in rows)
    if current == head:
        return SchemaState(current, head, "current")
    return SchemaState(current, head, "older" if current in REVISIONS else "newer")


def require_current(state: SchemaState) -> None:
    """Raise SchemaVersionError, saying what to run, unless the schema is the one that this program needs."""
    details = {"current": state.current, "head": state.head, "status": state.status}
    if state.status == "empty":
        raise SchemaVersionError("the database has no tables yet: run `worldledger db upgrade`", **details)
    if state.status == "lost":
        made = "CREATE TABLE alembic_version (version_num varchar(32) CONSTRAINT alembic_version_pkc PRIMARY KEY)"
        raise SchemaVersionError(
            "the database has the log's tables, but its table alembic_version does not say of which revision they are; "
            f"if that was {state.head}, run as an administrator: DROP TABLE IF EXISTS alembic_version; {made}; "
            "ALTER TABLE alembic_version OWNER TO worldledger_owner; "
            f"INSERT INTO alembic_version VALUES ('{state.head}'); then run `worldledger db upgrade`",
            **details,
        )
    if state.status == "moved":
        raise SchemaVersionError(
            f"the log's tables are in another schema than public: run as an administrator: {state.remedy}", **details
        )
    if state.status == "older":
        raise SchemaVersionError(
            f"the database's schema is at revision {state.current}, this program needs {state.head}: "
            "run `worldledger db upgrade`",
            **details,
        )
    if state.status == "newer" and ", " in str(state.current):
        raise SchemaVersionError(
            f"the table alembic_version has several rows ({state.current}), one is needed: `worldledger db check` says "
            "what to do if the schema is this program's",
            **details,
        )
    if state.status == "newer":
        raise SchemaVersionError(
            f"the database's schema is at revision {state.current}, which this program does not know (it knows "
            f"{state.head} and older): install a newer worldledger, or use another database if this one "
            "belongs to another application",
            **details,
        )
