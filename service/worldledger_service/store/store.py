"""The store: worlds, their logs, and everything that is written to them."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, BinaryIO, TypeAlias, TypeVar
from weakref import WeakValueDictionary

import asyncpg
import orjson

from worldledger.canonical import MAX_INT
from worldledger.chain import Finding
from worldledger.config import default_priority_of
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.drafts import check_draft
from worldledger.effects import EffectDraft
from worldledger.errors import (
    EffectTooLargeError,
    InvalidConfigError,
    MomentNotFoundError,
    StoreUnavailableError,
    TamperedError,
    WorldExistsError,
    WorldNotFoundError,
)
from worldledger.genesis import ForkPoint, NewWorld, check_world_name, genesis_draft
from worldledger.lru import Lru
from worldledger.moments import HEAD, Moment
from worldledger.names import namesakes, taken
from worldledger.near import meant, near
from worldledger.rulesets import Ruleset, known_rulesets, load_ruleset
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger_service.database.engine import connect_pool
from worldledger_service.database.failures import explained
from worldledger_service.database.revision import require_current, revision_state
from worldledger_service.settings import Settings
from worldledger_service.store import statements
from worldledger_service.store.authority import authority_at, look_up_authority
from worldledger_service.store.bulk import (
    BulkWriter,
    Guard,
    MovedOnError,
    WorldsAtOnce,
    bulk_transaction,
    callers_errors_as_they_are,
)
from worldledger_service.store.committer import Committer, Echoes, WorldQueue
from worldledger_service.store.cursors import AgentCursors
from worldledger_service.store.event_log import EventLog
from worldledger_service.store.forking import NewFork, TakenMeanwhileError, make_fork
from worldledger_service.store.holding import Holding
from worldledger_service.store.identity import Uuids
from worldledger_service.store.import_snapshots import ImportSnapshots
from worldledger_service.store.lineage import read_fork_point
from worldledger_service.store.outages import Outages, is_worth_retrying, retrying
from worldledger_service.store.reader import Reader, storable
from worldledger_service.store.records import SEVERAL_ROWS, Head, WorldFilter, WorldRecord
from worldledger_service.store.rerunning import Asked, RecordedTimes, Report, Rerun
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.snapshots import Progress, SnapshotRecord
from worldledger_service.store.snapshotter import Snapshotter
from worldledger_service.store.states import States
from worldledger_service.store.transfer import import_export
from worldledger_service.store.verification import verify_world

if TYPE_CHECKING:
    from worldledger.exports import CheckedExport
    from worldledger_service.database.engine import PooledConnection

#: Makes the drafts of a bulk append once the head is locked.
Prepare: TypeAlias = "Callable[[PooledConnection, Head, TimeAuthority], Awaitable[Iterable[EffectDraft]]]"


# -- long computations beside the event loop: one at a time, so that requests keep their share of the interpreter ---
#
# A thread that computes holds the interpreter for a switch interval (0.5 ms in the service, 5 ms elsewhere) at a time,
# and each of several threads does. With one of them a request that waits for the database a few times loses a few such
# intervals; with many it would lose that many times more. Work is passed in pieces of a fraction of a second, and the
# pieces of all callers take turns.

T = TypeVar("T")


class Aside:
    """A thread for computations that share nothing with the event loop while they run."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="worldledger-aside")

    async def run(self, func: Callable[[], T]) -> T:
        """Run the function when it is its turn, and return its result. A cancelled caller leaves it running."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, func)

    def close(self) -> None:
        """Accept no more work; waiting work is dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)


#: Worlds whose heads one process remembers; the least recently used idle ones are dropped first.
_REMEMBERED = 10_000


class Store:
    """One database full of worlds. Open it with `Store.open`; it is safe for any number of concurrent callers."""

    def __init__(
        self,
        pool: asyncpg.Pool,
        settings: Settings,
        url: str,
        *,
        clock: Callable[[], float],
        new_uuid: Callable[[], str],
    ) -> None:
        self._pool = pool
        self._settings = settings
        self._clock = clock
        self._new_uuid = new_uuid
        #: called when the database goes away, and when it is back
        self.outages = Outages(url, patience=settings.outage_patience)
        self._logs: Lru[str, EventLog] = Lru(_REMEMBERED)
        #: every log that is still referenced, remembered or not: a world never has two in one process
        self._held: WeakValueDictionary[str, EventLog] = WeakValueDictionary()
        self.reader = Reader(pool, settings, url, self.outages)
        #: how far agents have come
        self.cursors = AgentCursors(self.reader)
        #: states at any moment, and snapshots
        self.states = States(self.reader, settings, self.world)
        #: where views and replays are computed
        self.aside = Aside()
        #: what followers of worlds in this process need not read back
        self.echoes = Echoes()
        #: intents of worlds ordered by ticks, until a tick decides them
        self.holding = Holding(pool, settings, url, self.outages)
        self._committer = Committer(pool, settings, url, outages=self.outages, states=self.states, echoes=self.echoes)
        self._snapshotter = Snapshotter(self.states, self.log, self._sealer_of)
        self._listener: Callable[[str, int], None] | None = None
        self._committer.on_commit = self._committed

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        database_url: str,
        settings: Settings | None = None,
        *,
        clock: Callable[[], float] = time.time,
        new_uuid: Callable[[], str] | None = None,
    ) -> AsyncIterator[Store]:
        """Connect as the service's role, check that the schema is this version's, and close at the end.

        ``clock`` returns epoch seconds, ``new_uuid`` 32 hex digits. Raises StoreUnavailableError or SchemaVersionError.
        On leaving, waiting units are still written.
        """
        settings = settings or Settings()
        pool = await connect_pool(
            database_url,
            min_size=1,
            max_size=settings.pool_size,
            command_timeout=settings.command_timeout,
            cleaned=False,  # who changes a session here keeps its connection
        )
        try:
            with explained(database_url):
                async with pool.acquire() as connection:
                    require_current(await revision_state(connection))
            store = cls(pool, settings, database_url, clock=clock, new_uuid=new_uuid or Uuids())
            try:
                yield store
            finally:
                await store.close()
        finally:
            await pool.close()

    async def close(self) -> None:
        """Write the waiting units and refuse further ones."""
        await self._snapshotter.close()
        await self.holding.close()
        await self._committer.close()
        self.aside.close()
        await self.outages.watchdog.close()

    @property
    def waiting(self) -> int:
        """The number of effects that wait for their commit in this process."""
        return self._committer.waiting

    @property
    def on_commit(self) -> Callable[[str, int], None] | None:
        """The function, if any, that is called with the world and its new head_seq after each commit of this store."""
        return self._listener

    @on_commit.setter
    def on_commit(self, tell: Callable[[str, int], None] | None) -> None:
        self._listener = tell

    def _committed(self, world_id: str, head_seq: int) -> None:
        self.outages.written()
        self._snapshotter.committed(world_id, head_seq)
        if self._listener is not None:
            self._listener(world_id, head_seq)

    async def ping(self) -> None:
        """Raise StoreUnavailableError or SchemaVersionError unless the database answers and fits."""
        async with self.reader.connection() as connection:
            require_current(await revision_state(connection))

    # -- worlds --------------------------------------------------------------------------------------------

    async def create_world(self, world: NewWorld) -> WorldRecord:
        """Create a world: its genesis is global_seq 1, followed by its ruleset's opening effects.

        Raises InvalidNameError, InvalidConfigError, UnknownRulesetError, EffectTooLargeError or WorldExistsError.
        """
        return await self.import_world(world, [])

    async def ensure_world(self, world: NewWorld) -> None:
        """Create a world unless one of its name exists, whatever it is like. Raises as `create_world`."""
        try:
            await self.world(world.world_id)
        except WorldNotFoundError:
            with suppress(WorldExistsError):
                await self.create_world(world)

    async def import_world(
        self,
        world: NewWorld,
        drafts: Iterable[EffectDraft],
        progress: Callable[[int], None] | None = None,
        *,
        guard: Guard | None = None,
    ) -> WorldRecord:
        """Create a world together with its first effects, by COPY, in one transaction: completely or not at all.

        ``guard`` is called first in the transaction. Raises as it does, as `create_world`, and for the first refused
        draft (InvalidEffectError with its index).
        """
        world = world.checked()
        ruleset = load_ruleset(world.ruleset)
        world_uuid = uuid.UUID(self._new_uuid())
        # A large configuration takes a while.
        world, opening = await asyncio.to_thread(_opened, world, ruleset, world_uuid.hex, new=not drafts)
        now = max(self._clock(), 0.0)
        genesis = genesis_draft(world, world_uuid=world_uuid.hex, ruleset_version=ruleset.version, wall_time=now)
        sealer = self._sealer(world.world_id, TimeAuthority.of_genesis(genesis["payload"]), ruleset)
        first = self._first_head(sealer, genesis)
        with self._import_snapshots(world) as snapshots:
            async with self._bulk_transaction() as connection:
                if guard is not None:
                    await guard(connection, [world])
                created = await connection.fetchval(
                    statements.INSERT_WORLD,
                    world.world_id,
                    world_uuid,
                    world.ruleset,
                    ruleset.version,
                    orjson.dumps(world.config, option=orjson.OPT_SORT_KEYS).decode(),
                    world.experiment,
                    world.time_authority,
                )
                if created is None:
                    raise WorldExistsError(
                        f"a world named {world.world_id!r} is already there", world_id=world.world_id
                    )
                writer = BulkWriter(connection, sealer, first, system=True, wall_time=now, snapshots=snapshots)
                await writer.write([genesis, *opening])
                if drafts:
                    writer = BulkWriter(connection, sealer, writer.head, recorded=True, snapshots=snapshots)
                    await writer.write(drafts, progress)
        self.imported(world.world_id, writer.head.seq, every=world.snapshot_every, snapshots=snapshots)
        return await self.world(world.world_id)

    async def fork(
        self,
        world_id: str,
        moment: Moment = HEAD,
        fork: NewFork | None = None,
        *,
        verify: bool = False,
        progress: Progress | None = None,
    ) -> tuple[WorldRecord, bool]:
        """Make a world that goes on from another one's state at a moment; tell whether it was made now.

        A moment of an ancestor's makes a fork of that ancestor. The same request again finds the same fork. The head of
        the parent and the effect at the fork point are verified; with ``verify`` all of it and of its ancestors. Raises
        what `States.place_at` and `worldledger_service.store.forking.make_fork` raise.
        """
        fork = fork or NewFork()
        parent, seq = await self.states.place_at(await self.world(world_id), moment)
        if parent.world_id != world_id:
            parent = await self.world(parent.world_id)  # whole, and not up to the fork point
        holds = not verify or await self._verify_line(parent, progress, anyway=fork.anyway)
        made = None
        while made is None:
            with suppress(TakenMeanwhileError):
                made = await make_fork(
                    parent,
                    seq,
                    fork,
                    is_verified=holds,
                    reader=self.reader,
                    states=self.states,
                    connect=self._bulk_transaction,
                    new_sealer=self._sealer,
                    clock=self._clock,
                    new_uuid=self._new_uuid,
                )
        return await self.world(made.world_id), made.is_new

    async def _verify_line(self, world: WorldRecord, progress: Progress | None, *, anyway: bool) -> bool:
        """Verify a world after its ancestors; return whether they hold. Raises TamperedError unless ``anyway``."""
        await self.states.line(world)  # each of them is there
        verdict = await verify_world(self.reader, world.world_id, progress=progress)
        finding = verdict.first_finding
        if finding is not None and not anyway:
            raise finding.error()
        return finding is None

    async def rerun(
        self, world_id: str, *, until: Moment = HEAD, asked: Asked | None = None, progress: Progress | None = None
    ) -> Report:
        """Submit again in a fork what its parent got from outside after the fork point, up to a moment of the parent.

        Raises InvalidConfigError for a world that is no fork, RerunConflictError if somebody else writes to it
        meanwhile, and what `States.place_at` and `worldledger_service.store.rerunning.Rerun.run` raise.
        """
        world = await self.world(world_id)
        parent = await self.states.parent(world)
        if parent is None:
            raise InvalidConfigError(f"world {world_id!r} is no fork: there is nothing to rerun", path="$.fork_of")
        whole = await self.world(parent.world_id)
        place, last = await self.states.place_at(whole, until)
        if place.world_id != parent.world_id or last < parent.head_seq:
            what = f"that moment of {parent.world_id!r} lies before the fork point, seq {parent.head_seq}"
            raise MomentNotFoundError(what, world_id=parent.world_id, head_seq=whole.head_seq)
        ruleset = load_ruleset(world.ruleset)
        sealer = RecordedTimes(
            world_id,
            TimeAuthority(CLIENT),
            clock=self._clock,
            new_uuid=self._new_uuid,
            max_effect_bytes=self._settings.max_effect_bytes,
            ruleset=ruleset,
        )
        rerun = Rerun(self.reader, self.states, world, parent, last, asked or Asked(), sealer, self._committed)
        try:
            return await rerun.run(progress)
        finally:
            if (await self.states.rules(world_id)).order == "tick":
                await self.holding.renumber(world_id)

    async def time_authority(self, world_id: str, seq: int = MAX_INT) -> TimeAuthority:
        """Return a world's time authority after ``seq`` (by default the last effect), and whether it is silent."""
        async with self.reader.connection() as connection:
            return await authority_at(connection, world_id, seq)

    async def import_log(
        self,
        stream: BinaryIO,
        checked: CheckedExport,
        *,
        name: str,
        progress: Callable[[int], None] | None = None,
        is_prefix: bool = False,
        cut: Callable[[], object] = lambda: None,
    ) -> bool:
        """Restore a world from a checked export; see `worldledger_service.store.transfer.import_export`.

        The world's ruleset need not be installed here.
        """
        world = checked.world
        is_known = world.ruleset in known_rulesets()
        # A fork is folded from its parent's state on, which takes the database.
        beside = self._import_snapshots(world) if is_known and world.fork_of is None else nullcontext()
        with beside as snapshots:
            written = await import_export(
                self.reader,
                stream,
                checked,
                name=name,
                progress=progress,
                snapshots=snapshots,
                is_prefix=is_prefix,
                cut=cut,
            )
        if written and is_known:
            count = checked.trailer.count
            self.imported(world.world_id, count, every=world.snapshot_every, snapshots=snapshots)
        return written

    def _import_snapshots(self, world: NewWorld) -> ImportSnapshots:
        every = world.snapshot_every or self._settings.snapshot_every
        return ImportSnapshots(world.world_id, world.ruleset, every)

    def worlds_at_once(self) -> WorldsAtOnce:
        """Return the creator of many worlds at once; each is created as by `import_world`."""
        return WorldsAtOnce(
            self.reader,
            max_effect_bytes=self._settings.max_effect_bytes,
            clock=self._clock,
            new_uuid=self._new_uuid,
            written=self.imported,
        )

    def imported(
        self,
        world_id: str,
        head_seq: int,
        *,
        every: int | None = None,
        snapshots: ImportSnapshots | None = None,
    ) -> None:
        """Let the snapshots of a newly imported world be taken, in the background.

        ``every`` is the spacing in its genesis, if it has one: shorter worlds have no snapshots. ``snapshots`` are
        those that were taken beside the import.
        """
        if head_seq >= (every or self._settings.snapshot_every):
            self._snapshotter.imported(world_id, head_seq, snapshots)
        elif snapshots is not None:
            snapshots.give_up()

    @asynccontextmanager
    async def _bulk_transaction(self) -> AsyncIterator[PooledConnection]:
        with callers_errors_as_they_are():
            try:
                async with bulk_transaction(self.reader) as connection:
                    yield connection
            except StoreUnavailableError as error:
                self.outages.failed(error)
                raise
        self.outages.written()

    def _first_head(self, sealer: Sealer, genesis: EffectDraft) -> Head:
        """Return the head before the genesis, after checking that the genesis can be written."""
        start = Head(0, b"", 0.0, 0.0)
        try:
            sealer.effect(check_draft(genesis, system=True), 1, sim_time=0.0, wall_time=0.0)
        except EffectTooLargeError as error:
            raise InvalidConfigError(f"the config is too large: {error.reason}", path="$.config") from None
        return start

    async def bulk_append(
        self,
        world_id: str,
        drafts: Iterable[EffectDraft] | Prepare,
        progress: Callable[[int], None] | None = None,
        *,
        after_seq: int | None = None,
        recorded: bool = False,
        system: bool = False,
    ) -> Head:
        """Append very many effects to a world by COPY, in the order given, all or none, in bounded memory.

        The world's head is locked meanwhile: other appends to it wait. ``drafts`` may be a function that makes them
        once it is locked, of the connection, the head and the authority over time. Returns the new head. Raises
        MovedOnError if ``after_seq`` is given and is not the head. ``recorded`` and ``system``: see `check_draft`.
        """
        log = await self.log(world_id)
        await log.require_whole()
        async with self._bulk_transaction() as connection:
            before = Head.of(world_id, await connection.fetchrow(statements.LOCK_HEAD, world_id))
            if after_seq not in (None, before.seq):
                raise MovedOnError
            await look_up_authority(connection, log.sealer, before.seq)
            writer = BulkWriter(
                connection,
                log.sealer,
                before,
                system=system,
                default_priority=0 if recorded else log.default_priority,
                recorded=recorded,
            )
            if callable(drafts):
                drafts = await drafts(connection, before, log.sealer.authority)
            head = await writer.write(drafts, progress)
        if writer.recent is not None:
            log.sealer.confirm(before.seq, *writer.recent)
        elif log.sealer.recent is not None:
            log.sealer.recent.broken = True  # it lacks these
        self._committed(world_id, head.seq)
        return head

    async def snapshot(
        self, world_id: str, progress: Progress | None = None, *, seq: int | None = None
    ) -> SnapshotRecord:
        """Take a snapshot of a world at a seq that it has, or at its head, and write its digest into the log.

        If nothing has happened since the last one before, that is returned and nothing written. Raises
        WorldNotFoundError, FoldError, TamperedError or StoreUnavailableError.
        """
        taken = await self.states.snapshot(world_id, progress, seq=seq)
        if taken is None:
            (newest,) = await self.states.newest(world_id, seq)
            return newest
        await self._snapshotter.record(world_id, taken)
        (made,) = await self.states.page(world_id, after=taken.global_seq - 1, limit=1)
        return made

    async def world(self, world_id: str) -> WorldRecord:
        """Return a world with its present head.

        Raises WorldNotFoundError, and TamperedError if its head is gone or its row cannot be read.
        """
        check_world_name(world_id)
        rows = await self.reader.fetch(statements.WORLD, world_id)
        if len(rows) > 1:  # the schema's keys are lost
            raise Finding(world_id, 1, SEVERAL_ROWS).error()
        for row in rows:
            record = WorldRecord.of(row)
            if isinstance(record, Finding):
                raise record.error()
            return record
        alike = near(world_id, [row["world_id"] for row in await self.reader.fetch(statements.NAMES_AROUND, world_id)])
        more = {"near": alike} if alike else {}
        raise WorldNotFoundError(f"no world named {world_id!r}{meant(alike)}", world_id=world_id, **more)

    async def worlds_beginning(self, text: str, limit: int) -> list[str]:
        """Return the names of worlds with a prefix, by name; if a world has exactly that name, only that."""
        rows = await self.reader.fetch(statements.NAMES_FROM, text, limit) if storable(text) else []
        names = [row["world_id"] for row in rows if row["world_id"].startswith(text)]
        return names[:1] if text in names else names

    async def experiments(self) -> list[str]:
        """Return the names of experiments, the first 1,000 by name."""
        return [row["experiment"] for row in await self.reader.fetch(statements.EXPERIMENTS)]

    async def rulesets(self) -> dict[str, int]:
        """Return the rulesets that worlds have, by name, with the number of their worlds."""
        return {row["ruleset"]: row["worlds"] for row in await self.reader.fetch(statements.RULESETS)}

    async def sources(self, world: WorldRecord) -> list[str]:
        """Return the sources of a world's effects, at most 1,000. It reads the whole log of the world."""
        rows = await self.reader.fetch(statements.SOURCES_OF_WORLD, world.world_id, world.head_seq)
        return [row["source_id"] for row in rows]

    async def near_effects(self, world: WorldRecord, kind: str | None, source_id: str | None) -> list[str]:
        """Return the kinds and sources of a world that are similar to an unknown one."""
        known = []
        if kind is not None:
            known.append((kind, await self.states.units.kinds(world)))
        if source_id is not None:
            known.append((source_id, await self.sources(world)))
        return [guess for name, names in known if name not in names for guess in near(name, names)]

    async def near_experiments(self, name: str) -> list[str]:
        """Return the experiments that are similar to an unknown one."""
        known = await self.experiments()
        return [] if name in known else near(name, known)

    async def worlds(
        self, *, experiment: str | None = None, after: str = "", limit: int = 100
    ) -> list[WorldRecord | Finding]:
        """Return a page of worlds by name, those after ``after``; a finding for each whose row cannot be read."""
        if experiment is not None and not storable(experiment):
            return []
        if experiment is None:
            rows = await self.reader.fetch(statements.WORLDS, after, limit)
        else:
            rows = await self.reader.fetch(statements.EXPERIMENT_WORLDS, after, limit, experiment)
        return _records(rows)

    async def find_worlds(
        self, wanted: WorldFilter, *, order: str = "name", after: str = "", limit: int = 100
    ) -> list[WorldRecord | Finding]:
        """Return a page of the worlds that are looked for, after one of them; a finding for each that cannot be read.

        ``order``: by "name", or first those that were "created" last, were "active" last or have the most "effects".
        """
        if order == "name" and (wanted.text, wanted.ruleset, wanted.live) == (None, None, None):
            return await self.worlds(experiment=wanted.experiment, after=after, limit=limit)
        rows = await self.reader.fetch(statements.WORLDS_BY[order], *wanted.arguments(), after, limit)
        return _records(rows)

    async def world_facets(self, wanted: WorldFilter) -> dict[str, list[tuple[str | None, int]]]:
        """Return how many worlds each choice of a filter would leave: value and number of "rulesets", "experiments".

        "live" and "total" have one number each. At most 100 choices are returned, those with the most worlds.
        """
        found: dict[str, list[tuple[str | None, int]]] = {"rulesets": [], "experiments": [], "live": [], "total": []}
        for row in await self.reader.fetch(statements.WORLD_FACETS, *wanted.arguments()):
            found[row["facet"]].append((row["value"], row["worlds"]))
        return found

    async def fork_points(self, world_ids: Sequence[str]) -> dict[str, ForkPoint | Finding]:
        """Return where those of the worlds begin that are forks; a finding where that cannot be read."""
        found: dict[str, ForkPoint | Finding] = {}
        for row in await self.reader.fetch(statements.FORK_POINTS, world_ids):
            try:
                origin = read_fork_point(row["world_id"], row["fork_of"])
            except TamperedError as error:
                found[row["world_id"]] = Finding(row["world_id"], 1, error.details["what"])
            else:
                if origin is not None:
                    found[row["world_id"]] = origin
        return found

    async def every_world(
        self, *, experiment: str | None = None, unreadable: Callable[[Finding], object] | None = None
    ) -> AsyncIterator[WorldRecord]:
        """Return all worlds by name, page by page.

        ``unreadable`` is called with those whose rows cannot be read; without it the first of them raises
        TamperedError.
        """
        after = ""
        while page := await self.worlds(experiment=experiment, after=after, limit=500):
            for world in page:
                if not isinstance(world, Finding):
                    yield world
                elif unreadable is not None:
                    unreadable(world)
                else:
                    raise world.error()
            after = page[-1].world_id

    # -- logs ----------------------------------------------------------------------------------------------

    def known_log(self, world_id: str) -> EventLog | None:
        """Return the log of a remembered world, without asking the database; None for others."""
        return self._logs.get(world_id)

    async def log(self, world_id: str) -> EventLog:
        """Return a world's log, to append to.

        A world that is not remembered is looked up, and while the database is away that is retried until
        ``append_deadline``, as the append itself is. Raises WorldNotFoundError, InvalidNameError, UnknownRulesetError
        or StoreUnavailableError.
        """
        log = self._logs.use(world_id)
        if log is not None:
            return log
        async for attempt in retrying(self._settings.append_deadline, on=self._may_pass):
            with attempt, self.outages.noticed():
                record = await self.world(world_id)
                is_prefix = bool(await self.reader.fetch(statements.IS_PREFIX, world_id))
                authority = TimeAuthority(record.time_authority)  # the genesis says more, which is looked up next
                sealer = self._sealer(world_id, authority, load_ruleset(record.ruleset))
                rules = await self.states.rules(world_id)
                async with self.reader.connection() as connection:
                    head = Head.of(world_id, await connection.fetchrow(statements.HEAD, world_id))
                    await look_up_authority(connection, sealer, head.seq)
        log = self._held.get(world_id)  # another caller may have been first
        if log is None:
            queue = WorldQueue(sealer, head)
            log = EventLog(
                world_id,
                queue=queue,
                committer=self._committer,
                reader=self.reader,
                max_unit=self._settings.max_unit,
                default_priority=default_priority_of(rules.orchestrator),
                is_prefix=is_prefix,
            )
            self._held[world_id] = log
        self._logs[world_id] = log
        return log

    def _sealer_of(self, world_id: str) -> Sealer | None:
        log = self._held.get(world_id)
        return None if log is None else log.sealer

    def _may_pass(self, error: Exception) -> bool:
        return is_worth_retrying(error) and not self._pool.is_closing()

    def _sealer(
        self, world_id: str, authority: TimeAuthority, ruleset: Ruleset, clock: Callable[[], float] | None = None
    ) -> Sealer:
        return Sealer(
            world_id,
            authority,
            clock=clock or self._clock,
            new_uuid=self._new_uuid,
            max_effect_bytes=self._settings.max_effect_bytes,
            ruleset=ruleset,
        )


def _opened(world: NewWorld, ruleset: Ruleset, world_uuid: str, *, new: bool) -> tuple[NewWorld, Sequence[EffectDraft]]:
    """Return a world with its configuration in its ruleset's normal form, and its opening effects.

    In a ``new`` one, which was not recorded before, no two agents have the same name in different Unicode forms.
    """
    world = world.model_copy(update={"config": ruleset.check_config(world.config)}).checked()
    opening = ruleset.opening(world.config, world_uuid=world_uuid, checkpoint=world.checkpoint)
    registered = [draft["payload"]["agent_id"] for draft in opening if draft["kind"] == AGENT_REGISTERED_KIND]
    for name, other in namesakes(registered) if new else ():
        raise InvalidConfigError(taken(name, other), path="$.config", agent_id=other)
    return world, opening


def _records(rows: Sequence[asyncpg.Record]) -> list[WorldRecord | Finding]:
    """Return the worlds in rows, each once; a finding for each that cannot be read, or has several rows."""
    counts = Counter(row["world_id"] for row in rows)
    return [
        WorldRecord.of(row) if counts[row["world_id"]] == 1 else Finding(row["world_id"] or "", 1, SEVERAL_ROWS)
        for n, row in enumerate(rows)
        if not n or row["world_id"] != rows[n - 1]["world_id"]
    ]
