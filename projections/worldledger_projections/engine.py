"""The door to the engine: everything that others do with projections.

`Engine.run` feeds them until it is cancelled; any number of processes may do so. The other calls say how they stand and
what is to be done with them, and work from any process, whether a runner is at work there or elsewhere: all that they
need to know stands in the database.

What the database raises comes out as it is (asyncpg's errors, OSError); what the engine refuses is a SimulationError.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import WorldNotFoundError
from worldledger.near import meant, near
from worldledger.rulesets import load_ruleset as load_installed_ruleset
from worldledger_projections import statements
from worldledger_projections.base import Projection
from worldledger_projections.beginnings import Beginnings, LoadRuleset
from worldledger_projections.builds import Build, is_of
from worldledger_projections.checking import Checking, Refolding, Report, Whole
from worldledger_projections.counters import Counters
from worldledger_projections.errors import ProjectionNotFoundError, ProjectionRefusedError
from worldledger_projections.folds import Target
from worldledger_projections.outages import transaction
from worldledger_projections.runner import Runner, WaitedFor
from worldledger_projections.status import BuildStatus, ParkedWorld, ProjectionStatus, status_of
from worldledger_projections.tables import Table, check_definitions
from worldledger_projections.writing import columns

if TYPE_CHECKING:
    from worldledger.protocols import LogReader, StateReader
    from worldledger_projections.outages import Pool


# Making the rows of one world anew, in the live build, in one transaction.
#
# Readers see the old rows until it is done. The other worlds go on being fed; this one waits, because its cursor is
# locked.

#: A batch that has the cursor is waited for; a process that hangs with it is not.
_BEGIN = "begin; set local lock_timeout = 10000"


async def rebuild_world(
    pool: Pool,
    refolding: Refolding,
    projection: Projection,
    world_id: str,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Fold a world anew into the live build, up to its head, which is given; a world set aside goes on from there.

    Raises ProjectionFailedError for an effect that cannot be digested (then all is as it was), ProjectionRefusedError
    where the live build is of another version, and WorldNotFoundError.
    """
    async with transaction(pool, begin=_BEGIN) as connection:
        build = await connection.fetchrow(statements.LIVE_BUILD, projection.name)
        if build is None or build["version"] != projection.version or build["paused"]:
            why = "it is paused" if build is not None and build["paused"] else "its live build is of another version"
            raise ProjectionRefusedError(
                f"projection {projection.name} cannot be rebuilt for one world: {why}", projection=projection.name
            )
        table = Table(projection, build["build"])
        ruleset: str | None = await connection.fetchval(statements.RULESET, world_id)
        if ruleset is None:
            raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
        if not table.reads(ruleset):
            raise ProjectionRefusedError(
                f"projection {projection.name} does not read worlds of ruleset {ruleset}",
                projection=projection.name,
                world_id=world_id,
            )
        await connection.execute(statements.NEW_CURSORS, *columns([(table.build, world_id, 0)], 3))
        await connection.fetchval(statements.LOCK_CURSOR, table.build, world_id)
        head: int = await connection.fetchval(statements.HEAD, world_id)  # as of now, under the lock
        await connection.execute(f"delete from {table.place} where world_id = $1", world_id)
        done = 0

        def count(effects: int) -> None:
            nonlocal done
            done += effects
            if progress is not None:
                progress(done, head)

        await refolding.fill(connection, table, table.place, [Whole(world_id, ruleset, head)], count)
        target = Target(table, world_id, ruleset, 0, head, fresh=False)
        await connection.execute(statements.SET_CURSOR, *target.key, head)
        await connection.execute(statements.UNPARK, *target.key)
        await connection.execute(statements.NOT_DUE, *columns([(*target.key, head)], 3))
        # The runner may hold a fold of the rows as they were.
        await connection.execute(statements.REVOKE, f"build:{table.build}")
    return head


__all__ = ["BuildStatus", "Counters", "Engine", "ParkedWorld", "ProjectionStatus", "Report"]

#: Seconds to the first look of who waits for a projection; the pause doubles each time, up to the second number.
_LOOKS: Final = (0.002, 0.1)


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
    ) -> None:
        """Prepare; nothing is asked of the database yet. Raises ValueError for definitions that cannot be.

        Args:
            pool: connections that work as the service's role.
            log: reads effects.
            states: gives states, for projections that begin with one.
            projections: what this program feeds; others that the database knows are left alone.
            poll_interval: seconds between two looks for news.
            lease_ttl: seconds without a sign of life after which another runner takes over.
            batch: about how many effects are fed in one transaction.
            grace: seconds for which the table of a build that was replaced is kept.
            clock: seconds that never go back; where they start does not matter.
            load_ruleset: gives the ruleset of that name, or raises UnknownRulesetError.
            holder: who holds leases, for people; unique to this engine.
        """
        projections = list(projections)
        check_definitions(projections)
        self._projections = {projection.name: projection for projection in projections}
        self._pool = pool
        self._clock = clock
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

    # -- feeding -------------------------------------------------------------------------------------------

    @property
    def counters(self) -> Counters:
        """What this engine has done so far."""
        return self._runner.counters

    async def ensure(self) -> None:
        """Make the builds and views that lack. A runner does so by itself."""
        await self._builds.make_lacking(await self._builds.all())
        await self._builds.make_views(await self._builds.all())

    async def run(self) -> None:
        """Feed until cancelled. Errors do not end it: it tries again, with growing pauses."""
        await self._runner.run()

    async def run_until_caught_up(self, timeout: float | None = None) -> None:
        """Feed until nothing is due and every build that can take over has done so. Raises TimeoutError.

        Where other runners hold the leases this waits for them.
        """
        await self._runner.run_until_caught_up(timeout)

    async def waited_for(self) -> WaitedFor | None:
        """Return the first world in which something is left to do, as far as that is noted."""
        return await self._runner.waited_for()

    async def step(self) -> bool:
        """Do one round of a runner; return whether more is to be done at once."""
        return await self._runner.step()

    def wake(self) -> None:
        """Tell a running `run` of this engine that there is news, so that it need not wait for the next look."""
        self._runner.wake()

    # -- how they stand ------------------------------------------------------------------------------------

    async def status(self) -> list[ProjectionStatus]:
        """Return how each projection stands, by name."""
        builds = await self._builds.all()
        return await status_of(self._pool, self._projections, builds, self._runner.held_back)

    async def parked(self, name: str, limit: int = 100) -> list[ParkedWorld]:
        """Return the worlds that a projection has set aside, also one that only the database knows.

        Raises ProjectionNotFoundError.
        """
        if not await self._of(name):
            self._projection(name)
        return [ParkedWorld(*row) for row in await self._pool.fetch(statements.PARKED, name, limit)]

    async def wait_for(self, name: str, world_id: str, seq: int, timeout: float) -> int:
        """Wait until a projection's live build holds a world up to ``seq``; return where it is then.

        That is less than ``seq`` when the time is over, and at once where the world is set aside. A world that the
        projection does not read needs no waiting. Raises ProjectionNotFoundError or WorldNotFoundError.
        """
        projection = self._projection(name)
        deadline = self._clock() + timeout
        pause, longest = _LOOKS
        self.wake()
        while True:
            build = await self._pool.fetchval(statements.LIVE_BUILD, name)
            row = await self._pool.fetchrow(statements.REACHED, build, world_id)
            if row is None:
                raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
            if projection.rulesets is not None and row["ruleset"] not in projection.rulesets:
                return seq
            reached: int = row["global_seq"]
            left = deadline - self._clock()
            if reached >= seq or row["parked"] is not None or left <= 0:
                return reached
            await asyncio.sleep(min(pause, left))
            pause = min(pause * 2, longest)

    # -- what is to be done with them ----------------------------------------------------------------------

    async def pause(self, name: str) -> None:
        """Let no runner write a projection any more: not after this has returned. Raises ProjectionNotFoundError."""
        self._projection(name)
        await self._pool.fetch(statements.SET_PAUSED, name, True)

    async def resume(self, name: str) -> None:
        """Let a paused projection go on. Raises ProjectionNotFoundError."""
        self._projection(name)
        await self._pool.fetch(statements.SET_PAUSED, name, False)
        self.wake()

    async def retry(self, name: str, world_id: str | None = None) -> int:
        """Release the worlds that a projection has set aside, or one of them, for another attempt; return how many."""
        self._projection(name)
        builds = [build.name for build in await self._of(name)]
        released = await self._pool.fetch(statements.RELEASE_PARKED, builds, world_id)
        if released:
            await self._pool.execute(statements.DUE_AGAIN, *columns([tuple(row) for row in released], 2))
            self.wake()
        return len(released)

    async def rebuild(self, name: str, *, accept_parked: bool = False) -> str:
        """Begin a build that is to replace the live one, or go on with the one under way; return the build's name.

        Whichever runner is at work fills it, this engine's or another's, and lets it take over when it has caught up;
        `status` shows the progress. With ``accept_parked`` this engine's runner takes it over, and lets it go live even
        if worlds are parked in it that are not in the live one. Raises ProjectionNotFoundError, or
        ProjectionRefusedError where the projection is paused or a newer program is at work.
        """
        build = await self._builds.begin(self._projection(name))
        if accept_parked:
            await self._runner.accept_parked(name, build)
        self.wake()
        return build

    async def rebuild_world(self, name: str, world_id: str, progress: Callable[[int, int], None] | None = None) -> int:
        """Make one world's rows anew in the live build; return its head. See `worldledger_projections.engine`."""
        return await rebuild_world(self._pool, self._refolding, self._projection(name), world_id, progress)

    async def cancel(self, name: str) -> bool:
        """Drop the build under way; return whether there was one. A runner of a newer version begins it again.

        Raises ProjectionNotFoundError, or ProjectionRefusedError where the live build is of an older version.
        """
        projection = self._projection(name)
        for build in await self._of(name):
            if build.status == "live" and not is_of(build, self._projections):
                raise ProjectionRefusedError(
                    f"projection {name} needs the build under way: the live one has version {build.version}, this "
                    f"program version {projection.version}",
                    projection=name,
                )
        return await self._builds.cancel(name)

    async def verify(self, name: str, progress: Callable[[int, int], None] | None = None) -> Report:
        """Check a projection's live build against the log; see `worldledger_projections.checking.Checking.check`."""
        return await self._checking.check(self._projection(name), progress)

    async def drop(self, name: str, *, force: bool = False) -> int:
        """Drop a projection's builds, with their tables and views; return how many builds there were.

        A program that feeds it begins it again. Raises ProjectionNotFoundError where the database has none of that
        name, and ProjectionRefusedError for one of this program, unless ``force``, and where other views read it.
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
        """Raise ProjectionNotFoundError for a name that is of no projection of this program."""
        self._projection(name)

    async def drop_retired(self) -> int:
        """Drop the tables of builds that were replaced, without waiting; return how many are left, still being read."""
        retired = [build for build in await self._builds.all() if build.status == "retired"]
        return sum([not await self._builds.drop(build) for build in retired])

    async def _of(self, name: str) -> list[Build]:
        return [b for b in await self._builds.all() if b.projection == name and b.status != "retired"]

    def _projection(self, name: str) -> Projection:
        found = self._projections.get(name)
        if found is None:
            known: Any = sorted(self._projections)
            raise ProjectionNotFoundError(
                f"there is no projection {name!r}; there are {', '.join(known)}", projection=name, known=known
            )
        return found
