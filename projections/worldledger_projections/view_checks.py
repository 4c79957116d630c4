"""Comparing the views that people query with what this program makes.

The service's role owns them, for they follow the builds: so whoever works as that role may put others in their place,
which leave a world out, say. What a view should be is not taken from anywhere: it is made beside it, for one
transaction that is rolled back, and PostgreSQL's own texts of both are compared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg

from worldledger_projections import statements
from worldledger_projections.base import Projection
from worldledger_projections.tables import Table, further_views, place

if TYPE_CHECKING:
    from worldledger_projections.outages import Connection as Pooled

    Connection = asyncpg.Connection[asyncpg.Record] | Pooled

_MADE: Final = "pg_temp.made_by_this_program"


class ViewFinding(NamedTuple):
    """A view, or a build's table, that is not as this program makes it; ``name`` is the projection, if it has one."""

    name: str | None
    place: str
    what: str


async def view_findings(connection: Connection, projections: Iterable[Projection]) -> list[ViewFinding]:
    """Compare the views of projections, and the tables that they read; to be run as the service's role.

    Views of builds of another version than this program's cannot be compared, and are found, too.
    """
    work = connection.transaction()
    await work.start()
    try:
        await connection.execute("set local search_path = projections, public")
        found: list[ViewFinding] = []
        for projection in projections:
            found += await _of_projection(connection, projection)
        return found
    finally:
        await work.rollback()


async def planted(connection: Connection) -> list[str]:
    """Return the functions, operators and types with which a view can be made to mean something else than it says.

    A text such as ``lead(turn)`` is resolved by the types of its arguments: what stands in a schema that the view looks
    in, and matches them exactly, goes before PostgreSQL's own.
    """
    return [row["what"] for row in await connection.fetch(statements.PLANTED)]


async def strangers(connection: Connection, projections: Iterable[Projection]) -> list[str]:
    """Return the views that the service's role owns and that belong to none of these projections."""
    known = {view for projection in projections for view in _places(projection)}
    return [row["place"] for row in await connection.fetch(statements.VIEWS_OF_SERVICE) if row["place"] not in known]


def _places(projection: Projection) -> list[str]:
    return [place(projection.name), *(place(view.name, view.schema) for view in further_views(projection))]


async def _of_projection(connection: Connection, projection: Projection) -> list[ViewFinding]:
    name = projection.name
    build = await connection.fetchrow(statements.LIVE_BUILD, name)
    if build is None or build["version"] != projection.version:
        there = await connection.fetch(statements.THERE, _places(projection))
        version = "no build is live" if build is None else f"the live build has version {build['version']}"
        what = f"cannot be compared: {version}, this program makes version {projection.version}"
        return [ViewFinding(name, row["place"], what) for row in there]
    table = Table(projection, build["build"])
    found: list[ViewFinding] = []
    if not await connection.fetchval(statements.IS_PLAIN_TABLE, table.place):
        found.append(ViewFinding(name, table.place, "is no table that shows all of its rows"))
    for view, select, upon in table.selects():
        is_there = await connection.fetchval(statements.IS_VIEW, view)
        missing = {*upon} - {row["place"] for row in await connection.fetch(statements.THERE, upon)}
        if is_there is None:
            if not missing:
                found.append(ViewFinding(name, view, "is missing"))
        elif not is_there or not await _is_as_made(connection, view, select):
            mended = f"`worldledger projections rebuild {name}` makes it anew"
            found.append(ViewFinding(name, view, f"is not the view that this program makes; {mended}"))
    now = await connection.fetchrow(statements.LIVE_BUILD, name) if found else build
    # Of a build that was replaced meanwhile, the views are those of the next one.
    return found if now is not None and now["build"] == table.build else await _of_projection(connection, projection)


async def _is_as_made(connection: Connection, view: str, select: str) -> bool:
    inner = connection.transaction()
    await inner.start()
    try:
        await connection.execute(f"create temp view {_MADE.split('.')[1]} as {select}")
        return bool(await connection.fetchval(statements.SAME_VIEW, view, _MADE))
    except (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError):
        return False
    finally:
        await inner.rollback()
