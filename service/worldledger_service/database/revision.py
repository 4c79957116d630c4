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
REVISIONS: Final = tuple(f"{number:04}" for number in range(1, 20))

_HAS_TABLE: Final = "select to_regclass('public.alembic_version') is not null"
_READ: Final = "select version_num from public.alembic_version order by version_num"


@dataclass(frozen=True)
class SchemaState:
    """The revision found in a database (None: none), the one that this program needs, and how they compare.

    ``newer`` stands for every revision that this program does not know.
    """

    current: str | None
    head: str
    status: Literal["empty", "older", "current", "newer"]


async def revision_state(connection: Connection | PooledConnection) -> SchemaState:
    """Read the database's revision."""
    rows = await connection.fetch(_READ) if await connection.fetchval(_HAS_TABLE) else []
    head = REVISIONS[-1]
    if not rows:
        return SchemaState(None, head, "empty")
    current = ", ".join(row["version_num"] for row in rows)
    if current == head:
        return SchemaState(current, head, "current")
    return SchemaState(current, head, "older" if current in REVISIONS else "newer")


def require_current(state: SchemaState) -> None:
    """Raise SchemaVersionError, saying what to run, unless the schema is the one that this program needs."""
    details = {"current": state.current, "head": state.head, "status": state.status}
    if state.status == "empty":
        raise SchemaVersionError("the database has no tables yet: run `worldledger db upgrade`", **details)
    if state.status == "older":
        raise SchemaVersionError(
            f"the database's schema is at revision {state.current}, this program needs {state.head}: "
            "run `worldledger db upgrade`",
            **details,
        )
    if state.status == "newer":
        raise SchemaVersionError(
            f"the database's schema is at revision {state.current}, which this program does not know (it knows "
            f"{state.head} and older): install a newer worldledger, or use another database if this one "
            "belongs to another application",
            **details,
        )
