"""States at any moment: the newest snapshot that holds, and the log from there on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from worldledger.chain import Finding
from worldledger.errors import MomentNotFoundError, SimulationError, UnknownRulesetError
from worldledger.folding import Fold
from worldledger.genesis import ForkPoint, Order
from worldledger.lru import Lru
from worldledger.moments import HEAD, STEP, Moment
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.world import WorldState
from worldledger_service.store import statements
from worldledger_service.store.import_snapshots import Backlogs
from worldledger_service.store.lineage import check_parent, read_fork_point
from worldledger_service.store.moments import NoUnit, Units, no_unit
from worldledger_service.store.reader import storable
from worldledger_service.store.sealing import LiveStates
from worldledger_service.store.snapshots import (
    NEVER,
    Base,
    Forward,
    Gathering,
    Keep,
    Progress,
    SnapshotRecord,
    Snapshots,
    Taken,
    advance,
    take,
)

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.settings import Settings
    from worldledger_service.store.import_snapshots import ImportSnapshots
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord
    from worldledger_service.store.sealing import Sealer

_HALF_A_MICROSECOND = 0.5e-6
#: Worlds whose ruleset one process remembers.
_REMEMBERED = 10_000
#: States that forks begin with that one process remembers, and most bytes of one.
_FORK_POINTS = 8
_FORK_POINT_BYTES = 2**18


class StateAt(NamedTuple):
    """A world's state at a seq.

    ``checksum`` (hex) is the chain's there; ``text`` is the state in the profile ``state/1``, and ``state_digest`` its
    SHA-256 (hex).
    """

    world_id: str
    global_seq: int
    checksum: str
    ruleset: str
    ruleset_version: int
    state_digest: str
    state: WorldState
    text: bytes


class Rules(NamedTuple):
    """How a world is folded and served: its ruleset, and after how many effects a snapshot is due.

    ``orchestrator`` is the configuration for its agents in its genesis (a JSON value), if there is one, and ``order``
    says when their intents become effects (`worldledger.genesis.NewWorld`). ``fork_of`` is where a fork begins.
    """

    ruleset: Ruleset
    every: int
    orchestrator: Any = None
    order: Order = "arrival"
    fork_of: ForkPoint | None = None


class States:
    """Reads states of all worlds. It is the StateReader of projections."""

    def __init__(self, reader: Reader, settings: Settings, world: Callable[[str], Awaitable[WorldRecord]]) -> None:
        self._reader = reader
        self._world = world
        self._every = settings.snapshot_every
        self._rules: Lru[str, Rules] = Lru(_REMEMBERED)
        #: states of parents, by the checksum there and the ruleset's version: many forks may begin with one of them
        self._fork_points: Lru[tuple[str, int], WorldState] = Lru(_FORK_POINTS)
        #: the imported worlds whose snapshots are being taken; set if that is over, or waits for something
        self._imported: dict[str, asyncio.Event] = {}
        self.backlogs = Backlogs(reader.bulk)
        self.snapshots = Snapshots(reader, self.beginning, most=settings.snapshots_kept)
        self.units = Units(reader)
        self._live = LiveStates(settings.live_states, settings.live_state_bytes)

    # -- moments -------------------------------------------------------------------------------------------

    async def seq_at(
        self,
        world: WorldRecord,
        *,
        seq: int | None = None,
        sim_time: float | None = None,
        wall_time: float | None = None,
    ) -> int:
        """Return the seq of a moment: a seq, or the last effect at or before a time; the head by default.

        The fields are those of `worldledger.moments.Moment`. ``wall_time`` is in epoch seconds; times that users copy
        are rounded to the microsecond, so it means that microsecond. Raises MomentNotFoundError for a seq that the
        world does not have, and for a time before its first effect.
        """
        head = world.head_seq
        if seq is not None:
            if not 1 <= seq <= head:
                raise MomentNotFoundError(
                    f"world {world.world_id!r} has no seq {seq}; its head is {head}",
                    world_id=world.world_id,
                    global_seq=seq,
                    head_seq=head,
                )
            return seq
        if sim_time is None and wall_time is None:
            return head
        by_sim_time = sim_time is not None
        statement = statements.SEQ_AT_SIM_TIME if by_sim_time else statements.SEQ_AT_WALL_TIME
        when = sim_time if wall_time is None else wall_time + _HALF_A_MICROSECOND
        for row in await self._reader.fetch(statement, world.world_id, head, when):
            if row["low"]:
                found: int = row["low"]
                return found
        what = "sim_time" if by_sim_time else "wall_time"
        raise MomentNotFoundError(
            f"world {world.world_id!r} has no effect at or before {what} {sim_time if by_sim_time else wall_time}",
            world_id=world.world_id,
            head_seq=head,
            **{what: sim_time if by_sim_time else wall_time},
        )

    async def place_at(self, world: WorldRecord, moment: Moment) -> tuple[WorldRecord, int]:
        """Return the place of a moment in a world's history: in its own log, or in an ancestor's up to the fork point.

        The record of an ancestor has the fork point as its head. Raises MomentNotFoundError as `seq_at` does, for the
        world itself if no ancestor has the moment either, for a parent that a world does not have, and for a seq of an
        ancestor after the fork point.
        """
        named = await self._named(world, moment)
        if named is not world and moment.seq is not None and not 1 <= moment.seq <= named.head_seq:
            raise _not_shared(world, named, moment.seq)
        with _up_to_the_fork_point(is_named=named is not world):
            return await self._place(named, moment._replace(parents=0))

    async def _place(self, world: WorldRecord, moment: Moment) -> tuple[WorldRecord, int]:
        if moment == HEAD or moment.seq is not None:
            return world, await self.seq_at(world, seq=moment.seq)
        if moment.unit is not None:
            return (await self._unit_in_history(world, *moment.unit))[1]
        line = world
        while True:
            try:
                return line, await self.seq_at(line, sim_time=moment.sim_time, wall_time=moment.wall_time)
            except MomentNotFoundError:
                older = await self.parent(line)
                if older is None:
                    raise
                line = older

    async def first_of_unit(self, world: WorldRecord, moment: Moment) -> tuple[WorldRecord, int]:
        """Return the place of the first effect of the unit that a moment names. Raises as `place_at`."""
        assert moment.unit is not None  # noqa: S101 - other moments are one effect
        named = await self._named(world, moment)
        with _up_to_the_fork_point(is_named=named is not world):
            return (await self._unit_in_history(named, *moment.unit))[0]

    async def _named(self, world: WorldRecord, moment: Moment) -> WorldRecord:
        """Return the world in whose history a moment is looked for: the ancestor that it names."""
        for _ in range(moment.parents):
            older = await self.parent(world)
            if older is None:
                raise MomentNotFoundError(
                    f"world {world.world_id!r} is no fork: it has no parent", world_id=world.world_id
                )
            world = older
        return world

    async def _unit_in_history(
        self, world: WorldRecord, name: str, number: int
    ) -> tuple[tuple[WorldRecord, int], tuple[WorldRecord, int]]:
        """Return the places of a unit's first and last effect. What is under way at a fork point ends in the fork."""
        line = await self.line(world)
        if name == STEP and STEP not in load_ruleset(world.ruleset).units:
            before = 0
            for record in line[:-1]:
                count = await self.units.steps(record)
                if number <= before + count:
                    at = await self.units.at(record, name, number - before)
                    return (record, at.first_seq), (record, at.last_seq)
                before += count
            found = await self.units.find(world, name, number - before)
            if isinstance(found, NoUnit):
                raise no_unit(world, name, number, before + await self.units.steps(world))
            return (world, found.first_seq), (world, found.last_seq)
        last: int | str | None = None
        for index in range(len(line) - 1, -1, -1):
            found = await self.units.find(line[index], name, number, is_oldest=index == 0)
            if isinstance(found, NoUnit):
                last = found.last if last is None else last
                continue
            record, last_seq = line[index], found.last_seq
            for younger in line[index + 1 :]:  # it goes on in the fork
                if last_seq < record.head_seq:
                    break
                record, last_seq = younger, await self.units.first_end(younger, name)
            return await self._begun(line[: index + 1], name, number, found.first_seq), (record, last_seq)
        raise no_unit(world, name, number, last)

    async def _begun(
        self, line: Sequence[WorldRecord], name: str, number: int, first_seq: int
    ) -> tuple[WorldRecord, int]:
        """Return where a unit that the youngest of these logs has begins: a move of both sides perhaps in a parent."""
        begun = line[-1], first_seq
        if isinstance(load_ruleset(line[-1].ruleset).units[name].number, str):
            return begun
        for older in reversed(line[:-1]):
            found = await self.units.find(older, name, number, is_oldest=False)
            if not isinstance(found, NoUnit):
                begun = older, found.first_seq
            if isinstance(found, NoUnit) and found.last is not None:
                break
        return begun

    async def parent(self, world: WorldRecord) -> WorldRecord | None:
        """Return a fork's parent, with the fork point as its head; None for a world that is no fork.

        Raises ParentMissingError if it is not here, TamperedError if it was rewritten since.
        """
        fork_of = await self._fork_point(world.world_id)
        if fork_of is None:
            return None
        wall_time = await check_parent(self._reader, world.world_id, fork_of)
        record = await self._world(fork_of.world_id)
        return record.model_copy(
            update={"head_seq": fork_of.global_seq, "head_checksum": fork_of.checksum, **wall_time}
        )

    async def _fork_point(self, world_id: str) -> ForkPoint | None:
        """Return where a world parts from its parent, also if its ruleset is not installed; None for no fork."""
        try:
            return (await self.rules(world_id)).fork_of
        except UnknownRulesetError:
            (row,) = await self._reader.fetch(statements.WORLD_RULES, [world_id])
            return read_fork_point(world_id, row["fork_of"])

    async def line(self, world: WorldRecord) -> list[WorldRecord]:
        """Return a world after its ancestors, the oldest first, each with the next one's fork point as its head.

        Raises as `parent`.
        """
        line = [world]
        while (older := await self.parent(line[0])) is not None:
            line.insert(0, older)
        return line

    # -- states --------------------------------------------------------------------------------------------

    async def state_at(self, world_id: str, seq: int, progress: Progress | None = None) -> StateAt:
        """Return the state at a seq that the world has. Raises as `fold_at`."""
        reached = await self._reach(world_id, seq, progress)
        taken = await asyncio.to_thread(take, reached.fold, reached.checksum)
        return StateAt(
            world_id,
            seq,
            reached.checksum.hex(),
            reached.fold.ruleset.name,
            reached.fold.ruleset.version,
            taken.digest,
            reached.fold.state,
            taken.text,
        )

    async def fold_at(self, world_id: str, global_seq: int) -> Fold:
        """Return an independent fold at a seq that the world has (0: before its first effect).

        Snapshots that are due on the way are written. Raises WorldNotFoundError, MomentNotFoundError, FoldError,
        TamperedError, UnknownRulesetError or StoreUnavailableError.
        """
        if global_seq == 0:
            return await self.beginning(world_id, (await self.rules(world_id)).ruleset)
        return (await self._reach(world_id, global_seq)).fold

    async def beginning(self, world_id: str, ruleset: Ruleset, reader: Reader | None = None) -> Fold:
        """Return an independent fold before a world's first effect: that of a fork has its parent's state.

        Raises ParentMissingError if the parent is not here, TamperedError if it was rewritten since or does not verify
        (unless the fork was made anyway), and what `fold_at` raises.
        """
        fork_of = (await self.rules(world_id)).fork_of
        if fork_of is None:
            return Fold(world_id, ruleset)
        reader = reader or self._reader
        await check_parent(reader, world_id, fork_of)
        key = fork_of.checksum, ruleset.version
        known = self._fork_points.use(key)
        if known is not None:
            return Fold(world_id, ruleset, known.copy_deep())
        base = await self.snapshots.before(fork_of.world_id, fork_of.global_seq, ruleset, reader)
        reached = await advance(reader, base, fork_of.global_seq, check=not fork_of.unverified)
        state = reached.fold.state
        if reached.size <= _FORK_POINT_BYTES:
            self._fork_points[key] = state.copy_deep()
        return Fold(world_id, ruleset, state)

    async def base_at(self, world_id: str, global_seq: int, *, check: bool = True) -> Base:
        """Return an independent fold at a seq and the chain's checksum there, to continue from. Raises as `fold_at`.

        Without ``check`` a chain that does not hold is folded as it stands, and no snapshots are written.
        """
        if check:
            reached = await self._reach(world_id, global_seq)
        else:
            base = await self.snapshots.before(world_id, global_seq, (await self.rules(world_id)).ruleset)
            reached = await advance(self._reader, base, global_seq, check=False)
        return Base(reached.fold, reached.checksum, 0)

    async def _reach(
        self, world_id: str, seq: int, progress: Progress | None = None, base: Base | None = None
    ) -> Forward:
        rules = await self.rules(world_id)
        if base is None:
            if (under_way := self._imported.get(world_id)) is not None:
                self.backlogs.want(world_id)
                await under_way.wait()  # rather than fold the same at the same time
            base = await self.snapshots.before(world_id, seq, rules.ruleset)

        # Gaps before the newest snapshot are left by thinning; reading must not fill them.
        every = rules.every
        if seq - base.fold.seq >= every and await self.snapshots.any_after(world_id, base.fold.seq, rules.ruleset):
            every = NEVER
        gathering = Gathering(self.snapshots, world_id, rules.ruleset)
        try:
            return await advance(self._reader, base, seq, every=every, keep=gathering.keep, progress=progress)
        finally:
            await gathering.write()

    async def rules(self, world_id: str) -> Rules:
        """Return how a world is folded. Raises WorldNotFoundError, InvalidNameError or UnknownRulesetError."""
        found = self._rules.use(world_id)
        if found is not None:
            return found
        rows = await self._reader.fetch(statements.WORLD_RULES, [world_id]) if storable(world_id) else []
        if not rows:
            await self._world(world_id)  # says that there is no such world
            rows = await self._reader.fetch(statements.WORLD_RULES, [world_id])
        return self._read_rules(rows[0])

    async def know(self, world_ids: Iterable[str]) -> None:
        """Read at once how worlds are folded, as far as that can be read; see `worldledger.protocols.StateReader`."""
        unknown = [world_id for world_id in world_ids if world_id not in self._rules]
        for row in await self._reader.fetch(statements.WORLD_RULES, unknown) if unknown else []:
            with suppress(SimulationError):  # it is raised where the world is folded
                self._read_rules(row)

    def _read_rules(self, row: asyncpg.Record) -> Rules:
        world_id = row["world_id"]
        asked = row["snapshot_every"] or ""
        every = int(asked) if asked.isdecimal() and 0 < len(asked) < 10 else self._every
        try:
            orchestrator = None if row["orchestrator"] is None else orjson.loads(row["orchestrator"])
        except ValueError:
            raise Finding(world_id, 1, "$.payload.orchestrator cannot be read").error() from None
        order: Order = "tick" if row["order"] == "tick" else "arrival"
        fork_of = read_fork_point(world_id, row["fork_of"])
        found = Rules(load_ruleset(row["ruleset"]), max(every, 2), orchestrator, order, fork_of)
        self._rules[world_id] = found
        return found

    # -- snapshots -----------------------------------------------------------------------------------------

    async def snapshot(
        self, world_id: str, progress: Progress | None = None, *, seq: int | None = None
    ) -> Taken | None:
        """Take a snapshot at a seq that the world has, or at its head; the caller writes its digest into the log.

        Returns None if there is one of that state already: only its own digest has been written since.
        """
        seq = (await self._world(world_id)).head_seq if seq is None else seq
        rules = await self.rules(world_id)
        base = await self.snapshots.before(world_id, seq, rules.ruleset)
        if base.fold.seq and await self._reader.fetch(statements.ONLY_A_DIGEST_SINCE, world_id, base.fold.seq, seq):
            return None
        if base.fold.seq == seq and (await self.page(world_id, after=seq - 1, limit=1))[0].digest_seq is not None:
            return None
        reached = await self._reach(world_id, seq, progress, base)
        taken = await asyncio.to_thread(take, reached.fold, reached.checksum)
        await self.snapshots.write(world_id, rules.ruleset, taken)
        return taken

    async def forward(self, world_id: str, until: int, keep: Keep) -> Forward:
        """Fold a world up to a seq, to continue from there; ``keep`` is called with the snapshots that are due."""
        rules = await self.rules(world_id)
        base = await self.snapshots.before(world_id, until, rules.ruleset)
        return await advance(self._reader, base, until, every=rules.every, keep=keep)

    async def keep(self, world_id: str, snapshots: ImportSnapshots) -> int:
        """Write the snapshots that were taken beside the import of a world; return the newest one's seq, 0 if none."""
        newest = 0
        with self._under_way(world_id):
            gathering = Gathering(self.snapshots, world_id, (await self.rules(world_id)).ruleset)
            with self.backlogs.one(snapshots):
                found = await snapshots.finish(self.snapshots.most)
            for taken in found:
                await gathering.keep(taken)
                newest = taken.global_seq
            await gathering.write()
        return newest

    async def after_import(self, world_id: str, head_seq: int, newest: int = 0) -> None:
        """Take the snapshots of an imported world after its ``newest``, when nothing is being imported."""
        rules = await self.rules(world_id)
        if head_seq - newest < rules.every:
            return
        gathering = Gathering(self.snapshots, world_id, rules.ruleset)

        async def keep(taken: Taken) -> None:
            if self._reader.bulk.under_way:
                under_way.set()
                await self._reader.bulk.idle()
            await gathering.keep(taken)

        await self._reader.bulk.idle()
        base = await self.snapshots.before(world_id, head_seq, rules.ruleset)
        with self._under_way(world_id) as under_way:
            try:
                await advance(self._reader, base, head_seq, every=rules.every, keep=keep)
            finally:
                await gathering.write()

    @contextmanager
    def _under_way(self, world_id: str) -> Iterator[asyncio.Event]:
        """Make calls for a state wait until the end of the block, or until the event is set."""
        under_way = self._imported[world_id] = asyncio.Event()
        try:
            yield under_way
        finally:
            del self._imported[world_id]
            under_way.set()

    async def page(self, world_id: str, *, after: int = 0, limit: int = 100) -> list[SnapshotRecord]:
        """Return a page of a world's snapshots, ascending. Raises as `rules`."""
        return await self.snapshots.page(world_id, (await self.rules(world_id)).ruleset, after=after, limit=limit)

    async def places(self, world_id: str, first: int, last: int) -> list[tuple[int, int]]:
        """Return where states are kept from ``first`` to ``last``, and the last before: seq and bytes, ascending."""
        return await self.snapshots.places(world_id, (await self.rules(world_id)).ruleset, first, last)

    async def kept(self, world_id: str, seqs: Sequence[int]) -> list[Base]:
        """Return the states that are kept at some seqs, ascending; those that do not hold are left out."""
        return await self.snapshots.at(world_id, (await self.rules(world_id)).ruleset, seqs)

    async def newest(self, world_id: str, seq: int | None = None) -> list[SnapshotRecord]:
        """Return the newest snapshot of a world up to a seq, or its head, if there is one."""
        seq = (await self._world(world_id)).head_seq if seq is None else seq
        base = await self.snapshots.before(world_id, seq, (await self.rules(world_id)).ruleset)
        return await self.page(world_id, after=base.fold.seq - 1, limit=1) if base.fold.seq else []

    # -- live states ---------------------------------------------------------------------------------------

    async def warm(self, sealer: Sealer) -> None:
        """Load a live state near the head, so that little is left to be done under the head's lock."""
        if sealer.live is None or sealer.live.provisional:
            world = await self._world(sealer.world_id)
            reached = await self._reach(sealer.world_id, world.head_seq)
            self._live.keep(sealer, reached.fold, reached.size)

    async def bring(self, sealer: Sealer, seq: int, connection: PooledConnection) -> None:
        """Move a sealer's live state to the head, whose lock is held on this connection.

        Raises TamperedError or FoldError if there is no state, and the database's errors.
        """
        world_id = sealer.world_id
        reader = self._reader.on(connection)
        live = sealer.live
        if live is None or live.provisional or live.seq > seq:
            base = await self.snapshots.before(world_id, seq, sealer.ruleset, reader)
            reached = await advance(reader, base, seq)
            self._live.keep(sealer, reached.fold, reached.size)
        elif live.seq < seq:
            live.after(live.seq, ())
            live.grow((await advance(reader, Base(live.fold, b"", 0), seq)).size)


def _not_shared(world: WorldRecord, older: WorldRecord, seq: int) -> MomentNotFoundError:
    """Make the error for a seq of an ancestor that is not in the world's history."""
    name, last = older.world_id, older.head_seq
    advice = f"for later ones ask {name!r} itself" if seq > last else "the first is 1"
    what = f"seq {seq} of {name!r} is not in the history of {world.world_id!r}"
    return MomentNotFoundError(
        f"{what}: they share its effects up to seq {last}, the fork point; {advice}",
        world_id=name,
        global_seq=seq,
        fork_point=last,
    )


@contextmanager
def _up_to_the_fork_point(*, is_named: bool) -> Iterator[None]:
    """Say in the error about a named ancestor that only its effects up to the fork point were looked at."""
    try:
        yield
    except MomentNotFoundError as error:
        if not is_named:
            raise
        details = {("fork_point" if name == "head_seq" else name): value for name, value in error.details.items()}
        raise MomentNotFoundError(f"up to the fork point, {error.message}", **details) from None
