"""Builds: listing, making, swapping and dropping them.

A build is one table of one version of a projection. Users read the view with the projection's name; CREATE OR REPLACE
VIEW changes the build behind it. Tables are never renamed: views would follow them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import asyncpg
import stamina
import structlog
from worldledger_projections.base import Projection, ProjectionRefusedError, View
from worldledger_projections.tables import Table, further_views, place

from worldledger_service.database.view_checks import THERE, view_findings
from worldledger_service.projecting import statements
from worldledger_service.projecting.outages import transaction

if TYPE_CHECKING:
    from worldledger_service.projecting.outages import Connection, Pool


# -- views: which build they read, and which of them are missing ------------------------------------------------
#
# A view may be made over the views of several projections (``View.upon``). It belongs to one of them, and exists
# whenever all of those views do: the last of them makes it. The views for users' queries are in a schema of their own;
# they are made over the projections' views, and follow them like any other.

#: The reason why a view over others cannot be made yet: one of them is missing, or is of another version.
_NOT_YET: Final = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError)

#: What somebody else has made, or taken from a table, keeps a view, or the table, as it is.
_NOT_MENDED: Final = (
    asyncpg.DependentObjectsStillExistError,
    asyncpg.InsufficientPrivilegeError,
    asyncpg.WrongObjectTypeError,
    asyncpg.UndefinedColumnError,
)

log = structlog.get_logger("worldledger.projections")


async def lacking(pool: Pool, table: Table) -> bool:
    """Return whether one of a projection's views is missing though it could be made."""
    projection = table.projection
    wanted: dict[str, list[str]] = {_place_of(view): [*map(place, view.upon)] for view in further_views(projection)}
    wanted[place(projection.name)] = []
    places = [*wanted, *(other for upon in wanted.values() for other in upon)]
    there = {row["place"] for row in await pool.fetch(THERE, places)}
    return any(view not in there and there.issuperset(upon) for view, upon in wanted.items())


async def set_views(
    connection: Connection, table: Table, projections: Iterable[Projection], live: Iterable[Table]
) -> None:
    """Make the projection's views read a build, in the transaction of the connection.

    If PostgreSQL cannot replace a view, because its columns have changed, the views are dropped and created: a reader
    sees either all of it or nothing. Views of other ``projections`` over these stay; one that had to be dropped, or
    could not be made before, is made: ``live`` are the builds that it reads.
    """
    # So that a view may name the projection's own view without the schema.
    await connection.execute("set local search_path = projections, public")
    name = table.projection.name
    own = {_place_of(view) for view in further_views(table.projection)}
    others = {_place_of(view) for projection in projections for view in further_views(projection) if name in view.upon}
    upon = [row["place"] for row in await connection.fetch(statements.VIEWS_UPON, name)]
    # A reader locks a view before the views below it: any that comes in between would have to be waited for.
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
    there = {row["place"] for row in await connection.fetch(THERE, [*others])}
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
    """Make a view over those of other projections too, if they exist."""
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


#: A long reader of a view is not waited for: queries that come meanwhile would have to wait too.
BRIEF_LOCK: Final = "begin; set local lock_timeout = 250"
#: All other holders of the lock of the table of builds keep it for milliseconds.
_DEFINING: Final = "begin; set local lock_timeout = 5000"
#: A batch locks a build's table first and the table of builds then; what defines builds does so the other way round.
#: Where the two meet, PostgreSQL ends one of them after a second, and the other gets on.
_untangled: Final = stamina.retry(
    on=asyncpg.DeadlockDetectedError, attempts=5, timeout=None, wait_initial=0.05, wait_jitter=0.1, wait_max=0.5
)
_LEASE: Final = re.compile(r"build:(.+)_([0-9]{1,18})\Z")


@dataclass(frozen=True, slots=True)
class Build:
    """A row of projection_builds, and whether its table exists."""

    name: str
    projection: str
    version: int
    status: str
    paused: bool
    scanned_to: str | None
    has_table: bool

    @property
    def lease(self) -> str:
        """The name of the lease for writing the build."""
        return f"build:{self.name}"


class SwapHeldBackError(Exception):
    """The reason why a finished build cannot replace the live one; ``lasting``: until an operator acts."""

    def __init__(self, why: str, *, lasting: bool = False) -> None:
        super().__init__(why)
        self.lasting = lasting


class Builds:
    """The builds in the database, for the projections of this program."""

    def __init__(self, pool: Pool, projections: Mapping[str, Projection]) -> None:
        self._pool = pool
        self._projections = projections

    async def all(self) -> list[Build]:
        """Return all builds."""
        return _builds(await self._pool.fetch(statements.BUILDS))

    async def make_lacking(self, builds: Iterable[Build]) -> bool:
        """Make sure that each projection has a live build, and a build of this program's version.

        ``builds`` are the existing ones. Returns whether there was anything to do. If the database has a later version
        than the program, nothing is done: a newer program is at work.
        """
        builds = list(builds)
        lacking = [projection for projection in self._projections.values() if _lacks(projection, builds)]
        for projection in lacking:
            await self._make(projection, anew=False)
        return bool(lacking)

    async def make_views(self, builds: Iterable[Build]) -> None:
        """Make missing views."""
        for build in builds:
            if build.status == "live" and build.has_table and is_of(build, self._projections):
                table = self._table(build)
                if await lacking(self._pool, table):
                    # Of a table that has lost a column no view can be made, but other projections are fed.
                    with suppress(asyncpg.UndefinedColumnError):
                        async with transaction(self._pool, begin=BRIEF_LOCK) as connection:
                            if await connection.fetch(statements.STILL_LIVE, build.name):
                                await self._set_views(connection, table)

    async def mend_views(self, builds: Iterable[Build]) -> None:
        """Make anew the views that are not what this program makes of live builds, and let tables show all their rows.

        `database.view_checks.view_findings` finds them. A table that stands in a view's place stays.
        """
        for build in builds:
            if build.status != "live" or not build.has_table or not is_of(build, self._projections):
                continue
            table = self._table(build)
            async with self._pool.acquire() as reading:
                found = await view_findings(reading, [table.projection])
            if not found:
                continue
            with suppress(*_NOT_MENDED):  # `db check` says so
                async with transaction(self._pool, begin=_DEFINING) as connection:
                    if await connection.fetch(statements.STILL_LIVE, build.name):
                        for each in (*(view for view, _, _ in table.selects()), table.place):
                            for row in await connection.fetch(statements.MENDING, each):
                                await connection.execute(row["sql"])
                        await self._set_views(connection, table)

    async def begin(self, projection: Projection) -> str:
        """Return the build that is to replace the live one: the one under way, or else a new one."""
        return await self._make(projection, anew=True)

    @_untangled
    async def _make(self, projection: Projection, *, anew: bool) -> str:
        """Make what is missing, with ``anew`` even beside a live build of its version; return the build to fill."""
        async with transaction(self._pool, begin=_DEFINING) as connection:
            await connection.execute(statements.LOCK_BUILDS)
            mine = [b for b in _builds(await connection.fetch(statements.BUILDS)) if b.projection == projection.name]
            live = next((b for b in mine if b.status == "live"), None)
            building = next((b for b in mine if b.status == "building"), None)
            newest = max((b.version for b in (live, building) if b is not None), default=0)
            if newest > projection.version:
                if anew:
                    raise _refused(projection.name, f"a newer program is at work: it has version {newest} of it")
                return ""
            if anew and live is not None and live.paused:
                raise _refused(projection.name, "it is paused: resume it first")
            if live is not None and not live.has_table:
                log.warning("the table of a live build is gone; it is made anew", build=live.name)
                await connection.execute(statements.RETIRE, live.name)
                live = None
            if building is not None and (building.version < projection.version or not building.has_table):
                await self._forget(connection, building)
                building = None
            if live is None:
                return await self._create(connection, projection, "live", paused=False)
            if building is None and (anew or live.version < projection.version):
                return await self._create(connection, projection, "building", paused=live.paused)
            return (building or live).name

    async def _create(self, connection: Connection, projection: Projection, status: str, *, paused: bool) -> str:
        names = [row["name"] for row in await connection.fetch(statements.LEASE_NAMES)]
        taken = [match for match in map(_LEASE.match, names) if match is not None and match[1] == projection.name]
        build = f"{projection.name}_{max((int(match[2]) for match in taken), default=0) + 1}"
        await connection.execute(statements.DROP_OLD_LEASES, [match[0] for match in taken])
        await connection.execute(statements.NEW_LEASES, [f"build:{build}"])
        table = Table(projection, build)
        # If the rows about a build were deleted, but not its table.
        await connection.execute(f"drop table if exists {table.place} cascade")
        for statement in table.creation():
            await connection.execute(statement)
        await connection.execute(statements.INSERT_BUILD, build, projection.name, projection.version, status, paused)
        if status == "live":
            await self._set_views(connection, table)
        log.info("a build begins", projection=projection.name, version=projection.version, build=build, status=status)
        return build

    async def swap(self, new: Build, token: int, *, accept_parked: bool = False) -> None:
        """Replace the live build by one that has caught up, in one transaction.

        Neither build is written meanwhile, and the new one is at least as far as the live one in every world. Raises
        SwapHeldBackError if that does not hold, or if the new build has parked worlds that the live one has not (unless
        those are accepted), and the errors of the database: a lock that was not available, say.
        """
        projection = self._projections[new.projection]
        rulesets = None if projection.rulesets is None else sorted(projection.rulesets)
        async with transaction(self._pool, begin=BRIEF_LOCK) as connection:
            rows = await connection.fetch(statements.LOCK_PROJECTION, new.projection)
            live = next((row["build"] for row in rows if row["status"] == "live"), None)
            mine = next((row for row in rows if row["build"] == new.name and row["status"] == "building"), None)
            if mine is None or mine["paused"] or mine["scanned_to"] is not None:
                raise SwapHeldBackError("it is not to be swapped in any more")
            if not await connection.fetch(statements.STILL_HELD, new.lease, token):
                raise SwapHeldBackError("somebody else has taken it over")
            if live is not None:
                await self._compare(connection, new.name, live, rulesets, accept_parked=accept_parked)
                await connection.execute(statements.RETIRE, live)
            await connection.execute(statements.GO_LIVE, new.name)
            await self._set_views(connection, Table(projection, new.name))
        log.info("a build has taken over", projection=new.projection, build=new.name, instead_of=live)

    @staticmethod
    async def _compare(
        connection: Connection, new: str, live: str, rulesets: list[str] | None, *, accept_parked: bool
    ) -> None:
        parked = await connection.fetchval(statements.PARKED_ONLY_HERE, new, live)
        if parked and not accept_parked:
            why = f"{parked} worlds are parked in {new} that are not in {live}: retry them, or cancel the build"
            raise SwapHeldBackError(why, lasting=True)
        behind = await connection.fetchval(statements.BEHIND, new, live, rulesets)
        if behind is not None:
            raise SwapHeldBackError(f"{new} is behind {live}, in world {behind} for one")

    @_untangled
    async def cancel(self, projection: str) -> bool:
        """Drop the build under way; return whether there was one."""
        async with transaction(self._pool, begin=_DEFINING) as connection:
            await connection.execute(statements.LOCK_BUILDS)
            builds = _builds(await connection.fetch(statements.BUILDS))
            found = [build for build in builds if build.projection == projection and build.status == "building"]
            for build in found:
                await self._forget(connection, build)
                log.info("a build is cancelled", projection=projection, build=build.name)
        return bool(found)

    async def drop(self, build: Build) -> bool:
        """Drop a retired build; return False if its table is still being read, so that it must be tried again."""
        for statement in statements.FORGET_BUILD:  # most of it here, where no lock is held
            await self._pool.execute(statement, build.name)
        with suppress(asyncpg.LockNotAvailableError):
            async with transaction(self._pool, begin=BRIEF_LOCK) as connection:
                # Before the lock that discoveries wait for: this is where a reader may have to be waited for.
                await _drop_table(connection, build)
                await connection.execute(statements.LOCK_BUILDS)
                await self._forget(connection, build)
            log.info("a retired build is dropped", build=build.name)
            return True
        return False

    @_untangled
    async def remove(self, projection: str) -> int:
        """Drop all builds of a projection with its views, and the views over them; return how many builds there were.

        Raises ProjectionRefusedError if views that are not the service's read them.
        """
        try:
            async with transaction(self._pool, begin=_DEFINING) as connection:
                await connection.execute(statements.LOCK_BUILDS)
                found = [b for b in _builds(await connection.fetch(statements.BUILDS)) if b.projection == projection]
                await drop_views(connection, projection)
                for build in found:
                    await self._forget(connection, build)
        except asyncpg.DependentObjectsStillExistError as error:
            what = f"projection {projection} cannot be dropped: {error.detail or error}"
            raise ProjectionRefusedError(what, projection=projection) from error
        log.info("a projection is dropped", projection=projection, builds=len(found))
        return len(found)

    @staticmethod
    async def _forget(connection: Connection, build: Build) -> None:
        await _drop_table(connection, build)
        for statement in statements.FORGET_BUILD:
            await connection.execute(statement, build.name)
        await connection.execute(statements.REVOKE, build.lease)
        await connection.execute(statements.DELETE_BUILD, build.name)

    def _table(self, build: Build) -> Table:
        return Table(self._projections[build.projection], build.name)

    async def _set_views(self, connection: Connection, table: Table) -> None:
        live = [build for build in _builds(await connection.fetch(statements.BUILDS)) if build.status == "live"]
        tables = [self._table(build) for build in live if build.has_table and is_of(build, self._projections)]
        await set_views(connection, table, self._projections.values(), tables)


async def _drop_table(connection: Connection, build: Build) -> None:
    if build.has_table:  # its name might not be one that the engine gives
        await connection.execute(f"drop table if exists {place(build.name)}")


def is_of(build: Build, projections: Mapping[str, Projection]) -> bool:
    """Return whether a build is of a projection of this program, in its version."""
    projection = projections.get(build.projection)
    return projection is not None and projection.version == build.version


def _lacks(projection: Projection, builds: list[Build]) -> bool:
    mine = [b for b in builds if b.projection == projection.name and b.status != "retired"]
    newest = max((b.version for b in mine), default=0)
    if newest > projection.version:
        return False
    return (
        newest < projection.version or not any(b.status == "live" for b in mine) or not all(b.has_table for b in mine)
    )


def _refused(projection: str, why: str) -> ProjectionRefusedError:
    return ProjectionRefusedError(f"projection {projection} cannot be rebuilt: {why}", projection=projection)


def _builds(rows: Iterable[asyncpg.Record]) -> list[Build]:
    return [Build(*row) for row in rows]
