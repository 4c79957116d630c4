"""The interface of the engine: everything that other modules do with projections.

`Engine.run` feeds them until it is cancelled; any number of processes may do so. The other calls report on them and
control them, and work from any process, whether a runner is at work there or elsewhere: everything that they need to
know is in the database.

The engine's refusals are SimulationErrors. The database's errors are raised as they are (asyncpg's errors, OSError),
unless the engine is told to explain them, as `Engine.open` does.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from worldledger_projections.base import (
    ANALYTICS,
    InvalidProjectionError,
    Projection,
    ProjectionNotFoundError,
    ProjectionRefusedError,
    find,
)
from worldledger_projections.registry import known
from worldledger_projections.tables import check_definitions, further_views

from worldledger.aio import Backoff
from worldledger.errors import WorldNotFoundError
from worldledger.near import meant, near
from worldledger.rulesets import load_ruleset as load_installed_ruleset
from worldledger_service.database.analytics.views import VIEWS
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.failures import explained
from worldledger_service.database.view_checks import LIVE_BUILD
from worldledger_service.projecting import statements
from worldledger_service.projecting.batch import Beginnings, Counters, LoadRuleset, columns
from worldledger_service.projecting.builds import Build, is_of
from worldledger_service.projecting.checking import Checking, Refolding, Report, rebuild_world
from worldledger_service.projecting.runner import Runner, WaitedFor
from worldledger_service.projecting.status import BuildStatus, MissingKind, ParkedWorld, ProjectionStatus, status_of
from worldledger_service.store.outages import is_worth_retrying

if TYPE_CHECKING:
    from worldledger.protocols import LogReader, StateReader
    from worldledger_service.projecting.outages import Pool
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store


__all__ = ["BuildStatus", "Counters", "Engine", "ParkedWorld", "ProjectionStatus", "Report"]

P = ParamSpec("P")
T = TypeVar("T")

#: Called with the number of effects done, and the total.
Progress = Callable[[int, int], None]

#: Enough for a runner and its heartbeat, for queries, and for two checks or rebuilds at the same time.
_CONNECTIONS: Final = 8
APPLICATION_NAME: Final = "worldledger projections"
#: Seconds until a call that waits for a projection checks first; the pause doubles each time, up to the second number.
_LOOK_SECONDS: Final = (0.002, 0.1)

#: A call of an engine.
_Call = Callable[Concatenate["Engine", P], Coroutine[Any, Any, T]]


def _doing(call: _Call[P, T]) -> _Call[P, T]:
    """Raise the database's errors in a call as the engine was told to explain them."""

    @wraps(call)
    async def wrapped(self: Engine, /, *args: P.args, **more: P.kwargs) -> T:
        with self._explain():
            return await call(self, *args, **more)

    return wrapped


def _asking(call: _Call[P, T]) -> _Call[P, T]:
    """Like `_doing`; repeat once if a pooled connection turned out to be dead: reading twice is harmless."""

    @wraps(call)
    async def wrapped(self: Engine, /, *args: P.args, **more: P.kwargs) -> T:
        with self._explain():
            try:
                return await call(self, *args, **more)
            except Exception as error:
                if self._explain is nullcontext or not is_worth_retrying(error):
                    raise
            return await call(self, *args, **more)

    return wrapped


def projections_of(settings: Settings) -> Mapping[str, Projection]:
    """Return all projections by name, those of the settings included.

    Raises InvalidProjectionError for one that cannot be used.
    """
    projections = known(settings.own_projections)
    ours = {view.name for view in VIEWS}
    for each in projections.values():
        for name in (view.name for view in further_views(each) if view.schema == ANALYTICS):
            if name in ours:
                what = f"projection {each.name}: there is a view analytics.{name} already; choose another name"
                raise InvalidProjectionError(what, projection=each.name)
    return projections


class Engine:
    """The projections of one program on one database."""

    def __init__(
        self,
        pool: Pool,
        log: LogReader,
        states: StateReader,
        projections: Iterable[Projection],
        *,
        poll_interval: float = 0.1,
        lease_ttl: float = 5.0,
        batch: int = 5000,
        grace: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        load_ruleset: LoadRuleset = load_installed_ruleset,
        holder: str | None = None,
        explain: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Prepare; the database is not used yet. Raises ValueError for invalid definitions.

        Args:
            pool: connections that work as the service's role.
            log: reads effects.
            states: gives states, for projections that begin with one.
            projections: what this program feeds; others that the database knows are left alone.
            poll_interval: seconds between two checks for news.
            lease_ttl: seconds without a sign of life after which another runner takes over.
            batch: about how many effects are fed in one transaction.
            grace: seconds for which the table of a build that was replaced is kept.
            clock: seconds that never go back; where they start does not matter.
            load_ruleset: gives the ruleset of that name, or raises UnknownRulesetError.
            holder: who holds leases, for people; unique to this engine.
            explain: a context manager around the use of the database that raises its errors as others.
        """
        projections = list(projections)
        check_definitions(projections)
        self._projections = {projection.name: projection for projection in projections}
        self._pool = pool
        self._clock = clock
        self._explain = explain
        beginnings = Beginnings(pool, states, load_ruleset)
        refolding = Refolding(log, beginnings)
        self._refolding = refolding
        self._checking = Checking(pool, refolding)
        self._runner = Runner(
            pool,
            log,
            self._projections,
            beginnings,
            holder=holder or f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}",
            poll_interval=poll_interval,
            lease_ttl=lease_ttl,
            batch=batch,
            grace=grace,
            clock=clock,
        )
        self._builds = self._runner.builds

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        store: Store,
        database_url: str,
        settings: Settings,
        *,
        only: Iterable[Projection] | None = None,
        holder: str | None = None,
    ) -> AsyncIterator[Engine]:
        """Connect, and close at the end: an engine on connections of its own, with explained errors.

        ``only`` are its projections, by default all. It works whether or not they are being fed
        (`worldledger_service.projecting.process` does that). Calls that report or control raise StoreUnavailableError
        or SchemaVersionError, those that feed raise the database's errors. Opening raises these two, too, and
        InvalidProjectionError as `projections_of` does.
        """
        if only is None:
            only = projections_of(settings).values()
        pool = await connect_pool(
            database_url,
            max_size=_CONNECTIONS,
            command_timeout=settings.command_timeout,
            application_name=APPLICATION_NAME,
            cleaned=False,  # settings here are those of a transaction
        )
        try:
            yield cls(
                pool,
                store.reader,
                store.states,
                only,
                poll_interval=settings.poll_interval,
                lease_ttl=settings.projection_lease_ttl,
                holder=holder,
                explain=partial(explained, database_url),
            )
        finally:
            await pool.close()

    # -- feeding -------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """The counters of this engine."""
        return self._runner.counters

    @_doing
    async def ensure(self, *, mended: bool = False) -> None:
        """Make the missing builds and views. A runner does so by itself.

        With ``mended``, views that are not as this program makes them are made anew.
        """
        await self._builds.make_lacking(await self._builds.all())
        await self._builds.make_views(await self._builds.all())
        if mended:
            await self._builds.mend_views(await self._builds.all())

    async def run(self) -> None:
        """Feed until cancelled. Errors do not end it: it retries, with growing pauses."""
        await self._runner.run()

    async def run_until_caught_up(self, timeout: float | None = None) -> None:
        """Feed until nothing is due and every build that can take over has done so. Raises TimeoutError.

        If other runners hold the leases, this waits for them.
        """
        await self._runner.run_until_caught_up(timeout)

    @_doing
    async def waited_for(self) -> WaitedFor | None:
        """Return the first world in which something is left to do, as far as that is noted."""
        return await self._runner.waited_for()

    async def step(self) -> bool:
        """Do one round of a runner; return whether more is to be done at once."""
        return await self._runner.step()

    def wake(self) -> None:
        """Tell a running `run` of this engine that there is news, so that it does not wait for the next check."""
        self._runner.wake()

    # -- reports -------------------------------------------------------------------------------------------

    @_asking
    async def status(self) -> list[ProjectionStatus]:
        """Return the status of each projection, by name."""
        builds = await self._builds.all()
        return await status_of(self._pool, self._projections, builds, self._runner.held_back)

    @_asking
    async def parked(self, name: str, limit: int = 100) -> list[ParkedWorld]:
        """Return the worlds that a projection has set aside; it may be one that only the database knows.

        Raises ProjectionNotFoundError.
        """
        if not await self._of(name):
            find(self._projections, name)
        return [ParkedWorld(*row) for row in await self._pool.fetch(statements.PARKED, name, limit)]

    @_asking
    async def missing_kinds(self) -> list[MissingKind]:
        """Return the rulesets that are not installed and whose worlds are skipped therefore."""
        return [MissingKind(*row) for row in await self._pool.fetch(statements.SKIPPED)]

    @_asking
    async def wait_for(self, name: str, world_id: str, seq: int, timeout: float) -> int:
        """Wait until a projection's live build holds a world up to ``seq``; return where it is then.

        That is less than ``seq`` when the time is over, and at once if the world is set aside. A world that the
        projection does not read is not waited for. Raises ProjectionNotFoundError or WorldNotFoundError.
        """
        projection = find(self._projections, name)
        deadline = self._clock() + timeout
        backoff = Backoff(*_LOOK_SECONDS)
        self.wake()
        while True:
            build = await self._pool.fetchval(LIVE_BUILD, name)
            row = await self._pool.fetchrow(statements.REACHED, build, world_id)
            if row is None:
                raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
            if projection.rulesets is not None and row["ruleset"] not in projection.rulesets:
                return seq
            reached: int = row["global_seq"]
            left = deadline - self._clock()
            if reached >= seq or row["parked"] is not None or left <= 0:
                return reached
            await asyncio.sleep(min(backoff.next(), left))

    # -- control -------------------------------------------------------------------------------------------

    @_doing
    async def pause(self, name: str) -> None:
        """Pause a projection: once this has returned, no runner writes it. Raises ProjectionNotFoundError."""
        find(self._projections, name)
        await self._pool.fetch(statements.SET_PAUSED, name, True)

    @_doing
    async def resume(self, name: str) -> None:
        """Resume a paused projection. Raises ProjectionNotFoundError."""
        find(self._projections, name)
        await self._pool.fetch(statements.SET_PAUSED, name, False)
        self.wake()

    @_doing
    async def retry(self, name: str, world_id: str | None = None) -> int:
        """Release the worlds that a projection has set aside, or one of them, for another attempt; return how many."""
        find(self._projections, name)
        builds = [build.name for build in await self._of(name)]
        released = await self._pool.fetch(statements.RELEASE_PARKED, builds, world_id)
        if released:
            await self._pool.execute(statements.DUE_AGAIN, *columns([tuple(row) for row in released], 2))
            self.wake()
        return len(released)

    @_doing
    async def rebuild(self, name: str, *, accept_parked: bool = False) -> str:
        """Begin a build that is to replace the live one, or continue the one under way; return the build's name.

        Any runner, this engine's or another's, fills it, and swaps it in when it has caught up; `status` shows the
        progress. With ``accept_parked`` this engine's runner takes it over, and lets it go live even if it has parked
        worlds that the live one has not. Raises ProjectionNotFoundError, or ProjectionRefusedError if the projection is
        paused or a newer program is at work.
        """
        build = await self._builds.begin(find(self._projections, name))
        if accept_parked:
            await self._runner.accept_parked(name, build)
        self.wake()
        return build

    @_doing
    async def rebuild_world(self, name: str, world_id: str, progress: Progress | None = None) -> int:
        """Rebuild one world's rows in the live build; return its head. See `checking.rebuild_world`."""
        return await rebuild_world(self._pool, self._refolding, find(self._projections, name), world_id, progress)

    @_doing
    async def cancel(self, name: str) -> bool:
        """Drop the build under way; return whether there was one. A runner of a newer version begins it again.

        Raises ProjectionNotFoundError, or ProjectionRefusedError if the live build is of an older version.
        """
        projection = find(self._projections, name)
        for build in await self._of(name):
            if build.status == "live" and not is_of(build, self._projections):
                raise ProjectionRefusedError(
                    f"projection {name} needs the build under way: the live one has version {build.version}, this "
                    f"program version {projection.version}",
                    projection=name,
                )
        return await self._builds.cancel(name)

    @_doing
    async def verify(self, name: str, progress: Progress | None = None) -> Report:
        """Check a projection's live build against the log; see `Checking.check`."""
        return await self._checking.check(find(self._projections, name), progress)

    @_doing
    async def drop(self, name: str, *, force: bool = False) -> int:
        """Drop a projection's builds, with their tables and views; return how many builds there were.

        A program that feeds it begins it again. Raises ProjectionNotFoundError if the database has none of that name,
        and ProjectionRefusedError for one of this program, unless ``force``, and if other views read it.
        """
        known: Any = sorted({build.projection for build in await self._builds.all()})
        if name not in known:
            raise ProjectionNotFoundError(
                f"the database has no projection {name!r}{meant(near(name, known))}", projection=name, known=known
            )
        if name in self._projections and not force:
            what = f"this program has the projection {name} and would make it again: --force drops it all the same"
            raise ProjectionRefusedError(what, projection=name)
        return await self._builds.remove(name)

    def check(self, name: str) -> None:
        """Raise ProjectionNotFoundError for a name that is not a projection of this program."""
        find(self._projections, name)

    @_doing
    async def drop_retired(self) -> int:
        """Drop the tables of replaced builds, without waiting; return how many are left because they are still read."""
        retired = [build for build in await self._builds.all() if build.status == "retired"]
        return sum([not await self._builds.drop(build) for build in retired])

    async def _of(self, name: str) -> list[Build]:
        return [b for b in await self._builds.all() if b.projection == name and b.status != "retired"]
