"""The views of the schema: which build they read, and which of them lack.

A view may be made upon the views of several projections (``View.upon``). It belongs to one of them, and is there
whenever all of those views are: whichever comes last makes it. What people ask stands in a schema of its own, made
upon the projections' views, and follows them like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import asyncpg
import structlog

from worldledger_projections import statements
from worldledger_projections.base import Projection, View
from worldledger_projections.tables import Table, further_views, place

if TYPE_CHECKING:
    from worldledger_projections.outages import Connection, Pool

#: What is said of a view upon others that cannot be made yet: one of them is not there, or is of another version.
_NOT_YET: Final = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)

log = structlog.get_logger("worldledger.projections")


async def lacking(pool: Pool, table: Table) -> bool:
    """Tell whether one of a projection's views is not there though it could be."""
    projection = table.projection
    wanted: dict[str, list[str]] = {_place_of(view): [*map(place, view.upon)] for view in further_views(projection)}
    wanted[place(projection.name)] = []
    places = [*wanted, *(other for upon in wanted.values() for other in upon)]
    there = {row["place"] for row in await pool.fetch(statements.THERE, places)}
    return any(view not in there and there.issuperset(upon) for view, upon in wanted.items())


async def set_views(
    connection: Connection, table: Table, projections: Iterable[Projection], live: Iterable[Table]
) -> None:
    """Let the projection's views read a build, in the transaction of the connection.

    Where PostgreSQL cannot replace a view, because its columns are others than before, the views are dropped and
    created: a reader sees either all of it or nothing. What other ``projections`` have made upon these views stays;
    where it had to be dropped, or could not be made before, it is made: ``live`` are the builds that it reads.
    """
    # So that a view may name the projection's own view without the schema.
    await connection.execute("set local search_path = projections, public")
    name = table.projection.name
    own = {_place_of(view) for view in further_views(table.projection)}
    others = {_place_of(view) for projection in projections for view in further_views(projection) if name in view.upon}
    upon = [row["place"] for row in await connection.fetch(statements.VIEWS_UPON, name)]
    # Who reads a view locks it, and then the views that it is made from: whoever came in between would be waited for.
    for view in upon:
        await connection.execute(f"alter view {view} reset (security_barrier)")
    await connection.execute("savepoint views")
    try:
        await _make_views(connection, table)
    except asyncpg.InvalidTableDefinitionError:
        await connection.execute("rollback to savepoint views")
        await _drop_views(connection, [*upon, place(name)])
        await _make_views(connection, table)
    else:
        await _drop_views(connection, [view for view in upon if view not in own | others])
    there = {row["place"] for row in await connection.fetch(statements.THERE, [*others])}
    for other in live:
        for further in further_views(other.projection):
            if _place_of(further) in others - own - there:
                await _make_shared(connection, other, further)
    await connection.execute("release savepoint views; set local search_path = default")


async def drop_views(connection: Connection, name: str) -> None:
    """Drop a projection's views, and those that are made from them."""
    upon = [row["place"] for row in await connection.fetch(statements.VIEWS_UPON, name)]
    await _drop_views(connection, [*upon, place(name)])


async def _make_views(connection: Connection, table: Table) -> None:
    for statement in table.views():
        await connection.execute(statement)
    for view in further_views(table.projection):
        if view.upon:
            await _make_shared(connection, table, view)


async def _make_shared(connection: Connection, table: Table, view: View) -> None:
    """Make a view that is made upon those of other projections too, if they are there."""
    await connection.execute("savepoint shared")
    try:
        for statement in table.view(view):
            await connection.execute(statement)
    except _NOT_YET as error:
        await connection.execute("rollback to savepoint shared")
        log.info("a view cannot be made yet", view=view.name, error=str(error))
    await connection.execute("release savepoint shared")


async def _drop_views(connection: Connection, views: Iterable[str]) -> None:
    found = [*views]
    if found:
        await connection.execute(f"drop view if exists {', '.join(found)}")


def _place_of(view: View) -> str:
    return place(view.name, view.schema)
