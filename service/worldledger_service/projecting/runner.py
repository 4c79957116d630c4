"""The runner: finds what is due and feeds it, until it is stopped. Errors do not end it.

Any number of runners may work on one database. Each build is fed by the runner that holds its lease; the others stand
by and take over. News goes first to the live builds, then to those that are being filled, so that a rebuild does not
delay the live ones: a build is fed together with the live ones once it has caught up.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from math import inf
from typing import TYPE_CHECKING, Final, NamedTuple

import asyncpg
import structlog
from worldledger_projections.base import Projection
from worldledger_projections.folds import Folds
from worldledger_projections.tables import Table

from worldledger.aio import Backoff
from worldledger_service.database.failures import holders_of
from worldledger_service.projecting import statements
from worldledger_service.projecting.batch import Batches, Beginnings, Counters, Lane, LeasesLostError, Writer, columns
from worldledger_service.projecting.builds import Build, Builds, SwapHeldBackError, is_of
from worldledger_service.projecting.outages import FOREIGN, brief, is_worth_waiting_for, transaction

if TYPE_CHECKING:
    from worldledger.protocols import LogReader
    from worldledger_service.projecting.outages import Pool


# -- leases: which runner writes which build; no clock is shared, and none is trusted for writing -----------------
#
# A holder increases the ``beats`` of its lease. A contender remembers token and beats as it saw them; when they have
# not changed for ``ttl`` seconds of its own monotonic clock it takes the lease by a compare-and-set, and the token
# rises. A writer checks inside the writing transaction that the token is still its own, so a holder that was only slow,
# or stopped, cannot write once it was replaced: that is the fence, and it relies on no clock.


class Leases:
    """The leases of one runner."""

    def __init__(self, pool: Pool, holder: str, ttl: float, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._holder = holder
        self._ttl = ttl
        self._clock = clock
        #: name -> token
        self.held: dict[str, int] = {}
        #: how many leases another runner took from this one
        self.lost = 0
        self._seen: dict[str, tuple[int, int, float]] = {}
        self._looked = -ttl

    async def acquire(self, names: Iterable[str]) -> list[str]:
        """Try for those that are not held, now and then; return those that were acquired."""
        wanted = [name for name in names if name not in self.held]
        now = self._clock()
        if not wanted or (self._seen.keys() >= set(wanted) and now < self._looked + self._ttl / 4):
            return []
        self._looked = now
        rows = await self._pool.fetch(statements.LEASES, wanted)
        if len(rows) < len(wanted):
            await self._pool.execute(statements.NEW_LEASES, wanted)
            rows = await self._pool.fetch(statements.LEASES, wanted)
        free = []
        for name, holder, token, beats in rows:
            before = self._seen.get(name)
            if before is None or before[:2] != (token, beats):
                before = self._seen[name] = (token, beats, now)
            if holder in {None, self._holder} or now - before[2] >= self._ttl:
                free.append((name, token, beats))
        if not free:
            return []
        taken = await self._pool.fetch(statements.ACQUIRE, *zip(*free, strict=True), self._holder)
        self.held.update((row["name"], row["token"]) for row in taken)
        return [row["name"] for row in taken]

    async def seize(self, name: str) -> None:
        """Take a lease from its present holder."""
        await self._pool.execute(statements.NEW_LEASES, [name])
        self.held[name] = await self._pool.fetchval(statements.SEIZE, name, self._holder)

    def drop(self, names: Iterable[str]) -> None:
        """Drop leases that turned out to be another runner's."""
        for name in names:
            if self.held.pop(name, None) is not None:
                self.lost += 1
            self._seen.pop(name, None)

    async def beat(self) -> None:
        """Increase the beats of this runner's leases, and find out which it no longer holds."""
        held = dict(self.held)
        if not held:
            return
        rows = await self._pool.fetch(statements.BEAT, list(held), list(held.values()))
        kept = {row["name"] for row in rows}
        self.drop(name for name, token in held.items() if name not in kept and self.held.get(name) == token)

    async def release(self, names: Iterable[str]) -> None:
        """Give leases back."""
        tokens = {name: self.held.pop(name) for name in list(names) if name in self.held}
        for name in tokens:
            self._seen.pop(name, None)
        if tokens:
            await self._pool.execute(statements.RELEASE, list(tokens), list(tokens.values()))


# -- discovery: the worlds that have news, and, for a new build, every world once ---------------------------------
#
# A runner that polls looks at the worlds that have moved, by an index that holds no others: 100,000 idle worlds cost it
# nothing. Findings are written for every build (projection_pending) in the statement that notes the move, so that no
# news is lost if a runner dies, and each build takes its time.

#: Most worlds in one check; their heads are locked for its time.
WORLDS_AT_ONCE: Final = 1000
#: Pages of the first pass at a time, so that the worlds with news need not wait for its end.
_PAGES: Final = 5


class Discovery:
    """Finds what is due, for one runner."""

    def __init__(self, pool: Pool, log: LogReader, *, idle: float) -> None:
        self._pool = pool
        self._log = log
        self._begin = brief(idle=idle, lock=1.0)
        self._after = ""

    async def news(self, tables: Iterable[Table]) -> bool:
        """Note the worlds that have moved; return whether there may be more."""
        after = self._after
        async with transaction(self._pool, begin=self._begin) as connection:
            found = await connection.fetch(statements.DISCOVER, after, WORLDS_AT_ONCE, *reading(tables))
        count, last = found[0]
        self._after = last if count == WORLDS_AT_ONCE else ""  # so that no world has to wait behind busier ones
        return self._after != after

    async def scan(self, table: Table, build: Build) -> bool:
        """Continue a build's first pass over all worlds; return whether it is not at its end."""
        rulesets = table.projection.rulesets
        position = build.scanned_to
        if position == "":
            names = None if rulesets is None else sorted(rulesets)
            await self._pool.execute(statements.COUNT_TOTAL, build.name, names)
        for _ in range(_PAGES):
            if position is None:
                break
            page = await self._log.world_heads(after=position, limit=WORLDS_AT_ONCE)
            worlds = [world for world in page if table.reads(world.ruleset)]
            after = page[-1].world_id if len(page) == WORLDS_AT_ONCE else None
            await self._pool.execute(
                statements.SCAN,
                build.name,
                position,
                after,
                [world.world_id for world in worlds],
                [world.head_seq for world in worlds],
            )
            position = after
        return position is not None


def reading(tables: Iterable[Table]) -> tuple[list[str], list[str], list[str]]:
    """Return which worlds builds read, for statements: the builds that do not read all, and their rulesets in pairs."""
    choosy = [table for table in tables if table.projection.rulesets is not None]
    pairs = [(table.build, ruleset) for table in choosy for ruleset in sorted(table.projection.rulesets or ())]
    return [table.build for table in choosy], [build for build, _ in pairs], [ruleset for _, ruleset in pairs]


# -- quarantine: builds that are skipped for a while, because they alone have a fault, such as an altered table ---

#: Seconds of the first quarantine; they double with each failure, up to the second number.
_QUARANTINE_SECONDS: Final = (1.0, 60.0)

log = structlog.get_logger("worldledger.projections")


class Quarantine:
    """The builds in quarantine: until when, and why."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, Backoff]] = {}
        #: the error, by build
        self.why: dict[str, str] = {}

    def has(self, build: str) -> bool:
        """Return whether a build is in quarantine now."""
        return build in self._until and self._clock() < self._until[build][0]

    def add(self, build: str, error: Exception) -> None:
        """Put a build into quarantine."""
        _, backoff = self._until.get(build) or (0.0, Backoff(*_QUARANTINE_SECONDS))
        self._until[build] = self._clock() + backoff.next(), backoff
        why = f"{type(error).__name__}: {error}"
        if self.why.get(build) != why:
            log.error("a build cannot be written; the others go on", build=build, error=why, exc_info=error)
        self.why[build] = why

    def release(self, build: str) -> None:
        """Note that a build works again."""
        if self._until.pop(build, None) is not None:
            del self.why[build]
            log.warning("a build is written again", build=build)


# -- pauses: between two checks for news, and after errors --------------------------------------------------------

#: Most seconds for which more news is gathered, when there is some.
_GATHER_SECONDS: Final = 0.02
#: Seconds to wait after the first failure; they double with each, up to the second number.
_BACKOFF: Final = (0.05, 5.0)


class Pace:
    """The pauses of one runner, and its reports of failures: once for each, and once when they are over."""

    def __init__(self, poll_interval: float) -> None:
        self._poll_interval = poll_interval
        self._gather_seconds = min(poll_interval / 5, _GATHER_SECONDS)
        self._woken = asyncio.Event()
        self._failing: str | None = None
        self._backoff = Backoff(*_BACKOFF, spread=(0.5, 1.5))
        #: how many rounds have failed in a row
        self.failures = 0

    def wake(self) -> None:
        """Make the next check soon."""
        self._woken.set()

    async def rest(self, *, brief: bool) -> None:
        """Wait for the next check, or for being woken; news from just after that is included.

        ``brief``: more news is expected, and the wait is short.
        """
        if not brief:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval):
                    await self._woken.wait()
        if brief or self._woken.is_set():
            await asyncio.sleep(self._gather_seconds)
            self._woken.clear()

    async def after(self, error: Exception) -> None:
        """Wait after a round that failed, longer each time."""
        what = "outage" if is_worth_waiting_for(error) else f"{type(error).__name__}: {error}"
        if what != self._failing:
            self._failing = what
            if what == "outage":
                log.warning("projections wait for the database", error=str(error) or type(error).__name__)
            else:
                log.error("projections cannot be fed; trying again", error=what, exc_info=error)
        self.failures += 1
        await self._backoff.wait()

    def went_well(self) -> None:
        """Note that a round did not fail."""
        if self._failing is not None:
            log.warning("projections are fed again", failures=self.failures)
        self._failing, self.failures = None, 0
        self._backoff.reset()


# -- swaps: letting a finished build take over --------------------------------------------------------------------
#
# It may only do so when it is as far as the live one in every world, so the runner of the live one has to stand still
# for that moment. If that is another runner, its lease is taken from it, and the new build gets what the other wrote
# last; then the swap finds them equal. If the swap is held back the other gets its lease again.

#: Seconds until a swap that was held back is tried again; they double each time, up to the second number.
_SWAP_PAUSE_SECONDS: Final = (0.2, 10.0)
#: Seconds for which a live build may be without its runner for the sake of a swap.
_SEIZURE_SECONDS: Final = 5.0


class Swapping:
    """The swaps that one runner attempts."""

    def __init__(
        self, pool: Pool, builds: Builds, leases: Leases, counters: Counters, clock: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._builds = builds
        self._leases = leases
        self._counters = counters
        self._clock = clock
        self._waiting: dict[str, tuple[float, Backoff]] = {}
        #: builds that are reported as waiting for a lock
        self._told: set[str] = set()
        #: projections whose builds may take over with parked worlds
        self.accept_parked: set[str] = set()
        #: leases of live builds that were taken from another runner for the sake of a swap, and when
        self.seized: dict[str, float] = {}
        #: why a swap is held back until an operator acts, by build
        self.held_back: dict[str, str] = {}

    async def attempt(self, new: Build, builds: Sequence[Build], folds: Folds) -> bool:
        """Try to swap in a build that has caught up; return whether another round is to be done at once."""
        until, _ = self._waiting.get(new.name) or (-inf, None)
        if self._clock() < until:
            return False
        live = next((b for b in builds if b.projection == new.projection and b.status == "live"), None)
        if (
            live is not None
            and live.lease not in self._leases.held
            and (
                new.projection in self.accept_parked
                or not await self._pool.fetchval(statements.PARKED_ONLY_HERE, new.name, live.name)
            )
        ):
            await self._leases.seize(live.lease)
            folds.forget(live.name)
            self.seized[live.lease] = self._clock()
            return True
        try:
            await self._builds.swap(
                new, self._leases.held.get(new.lease, -1), accept_parked=new.projection in self.accept_parked
            )
        except SwapHeldBackError as why:
            await self._hold_back(new, live, str(why), lasting=why.lasting)
            return False
        except asyncpg.LockNotAvailableError as error:
            held = f"a lock on its views is not to be had, {holders_of(error) or 'for others come and go'}"
            if new.name in self._waiting and new.name not in self._told:
                self._told.add(new.name)
                log.warning("a finished build waits for a lock", build=new.name, why=held)
            await self._hold_back(new, live, held)
            return False
        except (asyncpg.DependentObjectsStillExistError, asyncpg.WrongObjectTypeError) as error:
            await self._hold_back(new, live, f"{error} ({error.detail or error.hint})", lasting=True)
            return False
        self._counters.swaps += 1
        self._forget(new.name)
        return True

    def keep(self, builds: Sequence[Build], held: Sequence[Build]) -> None:
        """Release what was held for builds that this runner no longer fills, or that cannot keep up."""
        filling = {build.projection for build in held if build.status == "building"}
        for_them = {build.lease for build in builds if build.status == "live" and build.projection in filling}
        since = self._clock() - _SEIZURE_SECONDS
        self.seized = {lease: when for lease, when in self.seized.items() if lease in for_them and when > since}
        for build in self._waiting.keys() - {build.name for build in held}:
            self._forget(build)

    async def _hold_back(self, new: Build, live: Build | None, why: str, *, lasting: bool = False) -> None:
        if lasting and self.held_back.get(new.name) != why:
            log.warning("a finished build cannot take over yet", build=new.name, why=why)
        if lasting:
            self.held_back[new.name] = why
        _, backoff = self._waiting.get(new.name) or (0.0, Backoff(*_SWAP_PAUSE_SECONDS))
        self._waiting[new.name] = self._clock() + backoff.next(), backoff
        if live is not None and live.lease in self.seized:
            del self.seized[live.lease]
            await self._leases.release([live.lease])

    def _forget(self, build: str) -> None:
        self._waiting.pop(build, None)
        self._told.discard(build)
        self.held_back.pop(build, None)


# -- the runner itself -------------------------------------------------------------------------------------------

#: Seconds between two checks of rare faults: missing views, builds that are to be dropped.
_HOUSEKEEPING_SECONDS: Final = 2.0
#: Seconds for giving the leases back at the end.
_END_SECONDS: Final = 2.0


class WaitedFor(NamedTuple):
    """A world that a projection has not read to its head, and the holder of the lease (None: none)."""

    projection: str
    world_id: str
    global_seq: int
    head_seq: int
    holder: str | None


class Runner:
    """Feeds the projections of one program."""

    def __init__(
        self,
        pool: Pool,
        reader: LogReader,
        projections: Mapping[str, Projection],
        beginnings: Beginnings,
        *,
        holder: str,
        poll_interval: float,
        lease_ttl: float,
        batch: int,
        grace: float,
        clock: Callable[[], float],
    ) -> None:
        self.counters = Counters()
        self._pool = pool
        self._projections = projections
        self._grace = grace
        self._clock = clock
        self._beat_interval = lease_ttl / 3
        self.builds = Builds(pool, projections)
        self._beginnings = beginnings
        #: whether skipped worlds whose kind is installed by now were made due again
        self._took_up = False
        self._leases = Leases(pool, holder, lease_ttl, clock)
        self._folds = Folds()
        # A runner that hangs in a transaction, with its locks, is disconnected about when its lease is given to
        # another.
        self._idle = idle = max(lease_ttl, 1.0)
        self._discovery = Discovery(pool, reader, idle=idle)
        self._batches = Batches(
            pool,
            reader,
            beginnings=beginnings,
            writer=Writer(pool, idle=idle, lock=idle),
            folds=self._folds,
            counters=self.counters,
            batch=batch,
        )
        self._swapping = Swapping(pool, self.builds, self._leases, self.counters, clock)
        self._live = Lane()
        self._filling = Lane()
        self._quarantine = Quarantine(clock)
        self._caught_up: set[str] = set()
        self._tables: dict[str, Table] = {}
        self._retired: dict[str, float] = {}
        self._housekept: float | None = None
        self._pace = Pace(poll_interval)
        self._rested_at = 0

    @property
    def held_back(self) -> dict[str, str]:
        """Why builds are not written, or do not take over, until an operator acts; as far as this runner knows."""
        return {**self._swapping.held_back, **self._quarantine.why}

    async def accept_parked(self, projection: str, build: str) -> None:
        """Let this runner take over a build, and let it go live with parked worlds."""
        self._swapping.accept_parked.add(projection)
        await self._leases.seize(f"build:{build}")

    def wake(self) -> None:
        """Check for news soon: something was appended."""
        self._pace.wake()

    async def run(self) -> None:
        """Run until cancelled; then give the leases back."""
        async with self._alive():
            while True:
                if not await self._try(self.step):
                    await self._rest()

    async def run_until_caught_up(self, timeout: float | None = None) -> None:
        """Run until nothing is left to do for this program's builds, by any runner. Raises TimeoutError."""
        async with asyncio.timeout(timeout), self._alive():
            while True:
                if await self._try(self.step) or self._pace.failures:
                    continue
                if not await self._try(self._left_to_do) and not self._pace.failures:
                    return
                await self._rest()

    async def step(self) -> bool:
        """Do one round: discover news, feed a batch, and what else is due. Return whether more is due at once."""
        if not self._took_up:
            await self._take_up()
            self._took_up = True
        builds = await self._look()
        feedable = [build for build in builds if build.status != "retired" and not build.paused and self._mine(build)]
        await self._hold([build.lease for build in feedable])
        held = [b for b in feedable if b.lease in self._leases.held and not self._quarantine.has(b.name)]
        self._swapping.keep(builds, held)
        if not held:
            return False
        tables = [self._table(build) for build in builds if build.status != "retired" and self._mine(build)]
        more = await self._discovery.news(tables)
        for build in held:
            if build.scanned_to is not None:
                more |= await self._discovery.scan(self._table(build), build)
        self._caught_up &= {build.name for build in held if build.status == "live"}
        live = [build for build in held if build.name in self._caught_up]
        filling = [build for build in held if build.name not in self._caught_up]
        began = self._clock()
        more |= await self._feed(self._live, live)
        unfinished = await self._feed(self._filling, filling)
        self.counters.seconds += self._clock() - began
        if not unfinished:
            self._caught_up.update(b.name for b in filling if b.status == "live" and b.scanned_to is None)
        if not unfinished and not more:
            for build in filling:
                if build.status == "building" and build.scanned_to is None:
                    unfinished |= await self._swapping.attempt(build, builds, self._folds)
        return more or unfinished

    # -- a round -------------------------------------------------------------------------------------------

    async def _look(self) -> list[Build]:
        """Return the builds, after making the missing ones."""
        builds = await self.builds.all()
        changed = await self.builds.make_lacking(builds)
        now = self._clock()
        if self._housekept is None or now >= self._housekept + _HOUSEKEEPING_SECONDS:
            await self.builds.make_views(builds)
            await self._drop_retired(builds, now)
            self._housekept = now
        if changed:
            builds = await self.builds.all()
        self._tables = {name: table for name, table in self._tables.items() if any(b.name == name for b in builds)}
        return builds

    async def _take_up(self) -> None:
        """Make skipped worlds due again whose kind is installed by now."""
        missing = await self._pool.fetch(statements.SKIPPED)
        installed = [row["ruleset"] for row in missing if self._beginnings.has(row["ruleset"])]
        if installed:
            async with transaction(self._pool, begin=brief(idle=self._idle, lock=self._idle)) as connection:
                released = await connection.fetch(statements.RELEASE_SKIPPED, installed)
                await connection.execute(statements.DUE_AGAIN, *columns([tuple(row) for row in released], 2))

    async def _drop_retired(self, builds: Sequence[Build], now: float) -> None:
        retired = [build for build in builds if build.status == "retired"]
        self._retired = {build.name: self._retired.get(build.name, now) for build in retired}
        for build in retired:
            if now - self._retired[build.name] >= self._grace:
                await self.builds.drop(build)

    async def _hold(self, wanted: Sequence[str]) -> None:
        await self._leases.release(self._leases.held.keys() - set(wanted) - self._swapping.seized.keys())
        for name in await self._leases.acquire(wanted):
            self._folds.forget(name.removeprefix("build:"))

    async def _feed(self, lane: Lane, builds: Sequence[Build]) -> bool:
        tables = {build.name: self._table(build) for build in builds}
        tokens = {build.name: self._leases.held.get(build.lease, -1) for build in builds}
        try:
            if lane.builds != tuple(tables):  # a build may come from the other lane
                await self._live.settle()
                await self._filling.settle()
                await lane.begin_anew(tuple(tables))
            more = await self._batches.feed(lane, tables, tokens) if builds else False
        except LeasesLostError as lost:
            self.counters.conflicts += 1
            self._leases.drop(f"build:{build}" for build in lost.builds)
            return True
        except Exception as error:
            if is_worth_waiting_for(error):
                raise
            await self._single_out(tables, tokens, error)
            return False
        for build in builds:
            self._quarantine.release(build.name)
        return more

    async def _single_out(self, tables: Mapping[str, Table], tokens: Mapping[str, int], error: Exception) -> None:
        """Feed each build separately, once; one that fails is put into quarantine, so that the others can go on."""
        self.counters.failures += 1
        if len(tables) == 1:
            self._quarantine.add(next(iter(tables)), error)
            return
        for name, table in tables.items():
            lane = Lane()
            try:
                await self._batches.feed(lane, {name: table}, tokens)
                await lane.settle()
            except LeasesLostError as lost:
                self._leases.drop(f"build:{build}" for build in lost.builds)
            except Exception as alone:
                if is_worth_waiting_for(alone):
                    raise
                self._quarantine.add(name, alone)
            finally:
                await lane.abandon()

    def _mine(self, build: Build) -> bool:
        return build.has_table and is_of(build, self._projections)

    def _table(self, build: Build) -> Table:
        table = self._tables.get(build.name)
        if table is None:
            table = self._tables[build.name] = Table(self._projections[build.projection], build.name)
        return table

    async def _left_to_do(self) -> bool:
        builds = [build.name for build in await self.builds.all() if self._mine(build)]
        kept_back = self._swapping.held_back
        return bool(await self._pool.fetchval(statements.LEFT_TO_DO, builds, list(kept_back)))

    async def waited_for(self) -> WaitedFor | None:
        """Return the first world in which something is left to do, as far as that is noted."""
        builds = [build.name for build in await self.builds.all() if self._mine(build)]
        row = await self._pool.fetchrow(statements.WAITED_FOR, builds)
        return None if row is None else WaitedFor(*row)

    # -- going on ------------------------------------------------------------------------------------------

    async def _try(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Do some work; after an error wait, longer each time, and return False."""
        try:
            more = await work()
        except Exception as error:  # noqa: BLE001 - a runner goes on whatever happens, and tells of it
            self.counters.failures += 1
            await self._pace.after(error)
            return False
        self._pace.went_well()
        return more

    async def _rest(self) -> None:
        effects, self._rested_at = self.counters.effects - self._rested_at, self.counters.effects
        await self._pace.rest(brief=effects > 0)

    @asynccontextmanager
    async def _alive(self) -> AsyncIterator[None]:
        """Let the leases beat meanwhile, and give them back at the end."""
        beating = asyncio.get_running_loop().create_task(self._beat())
        try:
            yield
        finally:
            beating.cancel()
            await self._live.abandon()
            await self._filling.abandon()
            with suppress(TimeoutError, *FOREIGN):
                async with asyncio.timeout(_END_SECONDS):
                    await self._leases.release(list(self._leases.held))

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._beat_interval)
            with suppress(*FOREIGN):  # an outage: the rounds report it
                await self._leases.beat()
