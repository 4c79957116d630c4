"""Feeding: one batch of effects, read once, folded in memory, and written in one transaction.

A batch takes what is due in some worlds for some builds. Builds at the same seq of a world share the reading. An effect
that a projection cannot digest makes only that projection set aside only that world; everything else goes on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog
from worldledger_projections.base import SCHEMA, Row
from worldledger_projections.folds import Folds, Group, Key, Poison, Target, carefully, described, fold, moves_state
from worldledger_projections.tables import Table, arrays

from worldledger.aio import until_done
from worldledger.chain import StoredEffect
from worldledger.errors import SchemaVersionError, SimulationError, UnknownRulesetError
from worldledger.protocols import Span
from worldledger.rulesets import Ruleset
from worldledger.upcasting import Upcasters
from worldledger_service.database.odd_rows import fetch_told
from worldledger_service.projecting import statements
from worldledger_service.projecting.outages import (
    FOREIGN,
    RefusedRowsError,
    brief,
    is_datas_fault,
    is_worth_waiting_for,
    transaction,
)

if TYPE_CHECKING:
    from asyncpg import Record

    from worldledger.protocols import LogReader, StateReader
    from worldledger_service.projecting.outages import Connection, Pool


# -- what folds begin with: the present rows of a world, its state, and the upcasters for its old effects


log = structlog.get_logger("worldledger.projections")

#: States that are loaded at the same time: each waits for the database several times.
_AT_ONCE: Final = 4

LoadRuleset = Callable[[str], Ruleset]


class Beginnings:
    """Loads what folds begin with."""

    def __init__(self, pool: Pool, states: StateReader, load_ruleset: LoadRuleset) -> None:
        self._pool = pool
        self._states = states
        self._load_ruleset = load_ruleset
        #: rulesets that the log of this process has named as missing
        self._told: set[str] = set()

    def upcasting(self, ruleset: str) -> Upcasters | None:
        """Return the upcasters of a world's ruleset; None if it has none or is not installed."""
        try:
            found = self._load_ruleset(ruleset).upcasting
        except UnknownRulesetError:
            return None  # effects are read as they are
        return found if found.kinds else None

    def has(self, ruleset: str) -> bool:
        """Return whether a ruleset is installed."""
        try:
            self._load_ruleset(ruleset)
        except UnknownRulesetError:
            return False
        return True

    async def load(self, targets: Sequence[Target]) -> None:
        """Load what targets begin with. A target whose world has no state is set aside with the error."""
        await self._load_states(target for target in targets if target.table.projection.needs_state)
        by_build: dict[str, list[Target]] = {}
        for target in targets:
            projection = target.table.projection
            if not (projection.needs_state or target.seq) and target.ruleset in projection.needs_beginning:
                await self._load_beginning(target)
            if projection.needs_rows and target.seq:
                by_build.setdefault(target.table.build, []).append(target)
        for together in by_build.values():
            found: dict[str, list[Row]] = {}
            worlds = [target.world_id for target in together]
            async with self._pool.acquire() as connection:
                rows = await fetch_told(connection, together[0].table.load, worlds)
            for row in rows:
                found.setdefault(row["world_id"], []).append(tuple(row))
            for target in together:
                target.rows = found.get(target.world_id, ())

    async def _load_states(self, targets: Iterable[Target]) -> None:
        left = deque(targets)
        await self._states.know({target.world_id for target in left})

        async def work() -> None:
            try:
                while left:
                    await self._load_state(left.popleft())
            finally:
                left.clear()  # after an error nothing more is begun

        for error in await asyncio.gather(*(work() for _ in range(_AT_ONCE)), return_exceptions=True):
            if error is not None:
                raise error

    async def _load_beginning(self, target: Target) -> None:
        try:
            target.fold = await self._states.fold_at(target.world_id, 0)
        except SimulationError as error:
            if is_worth_waiting_for(error):
                raise
            log.warning("a world is read without the state that it begins with", error=error.message)

    async def _load_state(self, target: Target) -> None:
        try:
            self._load_ruleset(target.ruleset)
            target.fold = await self._states.fold_at(target.world_id, target.seq)
        except SchemaVersionError:  # what is missing is no fault of the world's
            raise
        except Exception as error:
            if is_worth_waiting_for(error):
                raise
            if isinstance(error, UnknownRulesetError) and target.ruleset not in self._told:
                self._told.add(target.ruleset)
                log.warning("worlds are skipped until their kind is installed", error=error.message)
            target.reached = target.seq
            target.poison = Poison(target.seq + 1, None, described(error))


# -- writing a batch: rows, cursors and everything else of it in one transaction, under a fence -----------
#
# Exactly once: a cursor is moved in the transaction that writes the rows, and only from where the fold began. A cursor
# that another runner holds, or has moved, is left alone. The last statement checks that the leases are still held.


#: From this number of rows on, a COPY, which takes two more round trips, is faster than a statement.
_MANY: Final = 200
#: Batches without COPY after one failed: asyncpg's may hang if both sides find fault with rows.
_SHUNNED: Final = 20
#: asyncpg's COPY waits for room in the connection's buffer, for ever if the connection breaks meanwhile: so the buffer
#: has room for all. The rows of a batch are in memory anyway.
_ROOM: Final = 2**30
#: A server that waits for the rest of a COPY does not notice by itself that the network is gone.
_NOTICE: Final = """
set local tcp_keepalives_idle = 5; set local tcp_keepalives_interval = 5; set local tcp_keepalives_count = 3
"""

Pieces = list[list[tuple[Any, ...]]]


class CursorsMovedError(Exception):
    """Another runner holds, or held, the cursors of these targets: nothing was written."""

    def __init__(self, keys: set[Key]) -> None:
        super().__init__(f"{len(keys)} cursors are not where they were")
        self.keys = keys


class LeasesLostError(Exception):
    """This runner may no longer write these builds: nothing was written."""

    def __init__(self, builds: set[str]) -> None:
        super().__init__(f"no longer to be written here: {', '.join(sorted(builds))}")
        self.builds = builds


class Written:
    """The results of some targets, as the parameters of statements. Making it is pure computation.

    ``copying`` allows COPY for large numbers of rows that cannot be there yet: those of an append-only projection, and
    of worlds that have no cursor. Many forks of a world of many entities are such worlds.
    """

    def __init__(self, targets: Sequence[Target], *, copying: bool = False) -> None:
        self.targets = targets
        upserts: dict[str, list[Row]] = {}
        new: dict[str, list[Row]] = {}
        deletes: dict[str, list[Row]] = {}
        tables: dict[str, Table] = {}
        self.effects: dict[str, int] = {}
        for target in targets:
            build = target.table.build
            tables[build] = target.table
            is_new = target.fresh or target.table.projection.append_only
            (new if is_new else upserts).setdefault(build, []).extend(target.changes.upserts)
            deletes.setdefault(build, []).extend(target.changes.deletes)
            self.effects[build] = self.effects.get(build, 0) + target.reached - target.seq
        self.statements: list[tuple[str, Pieces]] = []
        self.copies: list[tuple[str, list[Row]]] = []
        for build, table in tables.items():
            self.statements.append((table.delete, list(arrays(deletes[build]))))
            rows, others = upserts.get(build, []), new.get(build, [])
            if copying and len(others) >= _MANY:
                self.copies.append((build, others))
            else:
                rows = [*rows, *others]
            self.statements.append((table.upsert, list(arrays(rows))))
        worlds = [(*target.key, target.reached, target.fresh) for target in targets]
        parked = [
            (*target.key, target.poison.global_seq, target.poison.kind, target.poison.error)
            for target in targets
            if target.poison is not None
        ]
        self.worlds = columns(worlds, 4)
        self.parked = columns(parked, 5)


class Writer:
    """Writes batches for one runner."""

    def __init__(self, pool: Pool, *, idle: float, lock: float) -> None:
        self._pool = pool
        self._begin = brief(idle=idle, lock=lock)
        self._shunning = 0

    @property
    def copying(self) -> bool:
        """Whether COPY may be used: not for some time after one failed, because it has faults of its own."""
        self._shunning = max(self._shunning - 1, 0)
        return not self._shunning

    async def write(self, written: Written, tokens: Mapping[str, int]) -> None:
        """Write it, completely or not at all. ``tokens``: each build's lease.

        Raises CursorsMovedError, LeasesLostError, or the database's errors.
        """
        async with transaction(self._pool, begin=self._begin) as connection:
            await _take_cursors(connection, written.targets)
            for statement, pieces in written.statements:
                for piece in pieces:
                    await connection.execute(statement, *piece)
            try:
                await _copy(connection, written.copies)
            except Exception:
                self._shunning = _SHUNNED
                raise
            builds = list(written.effects)
            held = await connection.fetch(
                statements.FINISH,
                builds,
                [tokens.get(build, -1) for build in builds],
                list(written.effects.values()),
                *written.worlds,
                *written.parked,
            )
            lost = set(builds) - {row["build"] for row in held}
            if lost:
                raise LeasesLostError(lost)


async def _take_cursors(connection: Connection, targets: Iterable[Target]) -> None:
    known = {target.key: target.seq for target in targets if not target.fresh}
    fresh = [(*target.key, target.reached) for target in targets if target.fresh]
    moved: set[Key] = set()
    if known:
        rows = await connection.fetch(statements.LOCK_CURSORS, *columns(list(known), 2))
        found = {(row["build"], row["world_id"]): row["global_seq"] for row in rows}
        moved.update(key for key, seq in known.items() if found.get(key) != seq)
    if fresh:
        rows = await connection.fetch(statements.NEW_CURSORS, *columns(fresh, 3))
        moved.update({(build, world_id) for build, world_id, _ in fresh}.difference(map(tuple, rows)))
    if moved:
        raise CursorsMovedError(moved)


async def _copy(connection: Connection, copies: Iterable[tuple[str, list[Row]]]) -> None:
    for build, rows in copies:
        await connection.execute(_NOTICE)
        connection._transport.set_write_buffer_limits(high=_ROOM)  # type: ignore[attr-defined]  # noqa: SLF001
        try:
            await connection.copy_records_to_table(build, schema_name=SCHEMA, records=rows)
        except (*FOREIGN, asyncio.CancelledError):
            raise
        except Exception as error:  # raised by the driver's encoders
            raise RefusedRowsError(f"{type(error).__name__}: {error}") from error


def columns(rows: Sequence[Sequence[Any]], width: int) -> list[tuple[Any, ...]]:
    """Return rows as arrays, one for each of their columns, even without rows."""
    return list(zip(*rows, strict=True)) if rows else [()] * width


# -- indigestible effects: finding the one at fault, and setting its world aside --------------------------
#
# Everything before that effect is written. The world's other projections, and the projection's other worlds, go on;
# the world that was set aside waits until it is released (`retry`).


class Isolation:
    """Feeds one target separately and carefully."""

    def __init__(self, beginnings: Beginnings, writer: Writer) -> None:
        self._beginnings = beginnings
        self._writer = writer

    async def again(self, target: Target, rows: Sequence[StoredEffect]) -> Target:
        """Fold again from the cursor, an effect at a time; the result ends before the first that fails."""
        fresh = target.anew()
        await self._beginnings.load([fresh])
        if fresh.poison is None:
            upcasting = self._beginnings.upcasting(target.ruleset)
            await asyncio.to_thread(carefully, fresh, rows, upcasting)
        elif rows:
            fresh.poison = fresh.poison._replace(kind=rows[0].kind)
        return fresh

    async def write(self, target: Target, rows: Sequence[StoredEffect], tokens: Mapping[str, int]) -> list[Target]:
        """Write a target of a batch whose rows the database refused; return what was written.

        If this target is at fault, fewer and fewer effects are tried, down to the one whose rows are refused.
        """
        if not rows:
            await self._writer.write(Written([target]), tokens)
            return [target]
        done: list[Target] = []
        most = len(rows)
        while rows:
            piece = rows[:most]
            fresh = await self.again(target, piece)
            try:
                await self._writer.write(Written([fresh]), tokens)
            except CursorsMovedError:
                break
            except Exception as error:
                if not is_datas_fault(error):
                    raise
                if most > 1:
                    most = max(1, min(most, fresh.reached - fresh.seq) // 2)
                    continue
                fresh = target.anew()
                fresh.reached, fresh.poison = target.seq, Poison.of(piece[0], error)
                await self._writer.write(Written([fresh]), tokens)
            done.append(fresh)
            if fresh.poison is not None:
                break
            rows = rows[len(piece) :]
            target = target.anew(fresh.reached)
        return done


def is_skipped(poison: Poison) -> bool:
    """Return whether a world is only skipped until its kind is installed: its effects are not at fault."""
    return poison.error.startswith(UnknownRulesetError.__name__ + ":")


def missing(span: Span, rows: Sequence[StoredEffect]) -> Poison:
    """Set the target aside because its next effect is missing, though the head, or a later effect, is past it."""
    what = f"the next effect in the log is seq {rows[0].global_seq}" if rows else "the log ends before it"
    return Poison(span.after_seq + 1, None, f"the effect is missing: {what}; run `worldledger verify`")


def contiguous(rows: list[StoredEffect], seq: int) -> list[StoredEffect]:
    """Return the rows that follow a seq without a gap."""
    if not rows or (rows[0].global_seq == seq + 1 and rows[-1].global_seq == seq + len(rows)):
        return rows
    return [row for n, row in enumerate(rows, seq + 1) if row.global_seq == n]


# -- counters for metrics: plain numbers that only rise --------------------------------------------------------


@dataclass(slots=True)
class Counters:
    """Counters of one engine, since it was made.

    - ``effects``: effects fed, counted once for each build
    - ``batches``: transactions that wrote rows; ``rows``: rows that they wrote or deleted
    - ``seconds``: seconds spent on feeding
    - ``parked``: worlds set aside; ``failures``: rounds that ended in an error, an outage included
    - ``conflicts``: times that another runner had moved a cursor or taken a lease
    - ``swaps``: builds that replaced another
    """

    effects: int = 0
    batches: int = 0
    rows: int = 0
    seconds: float = 0.0
    parked: int = 0
    failures: int = 0
    conflicts: int = 0
    swaps: int = 0


# -- choosing a batch: some worlds, in turn, so that no world waits for ever behind a large one ------------------

_FEWEST_WORLDS: Final = 32
_MOST_WORLDS: Final = 2000


@dataclass(slots=True)
class Lane:
    """Builds that are fed together, and their position in the present round through the worlds.

    ``worlds`` is the number of worlds of each build that are considered for one batch: about as many as it usually
    takes. ``builds`` are those of the last batch, ``writing`` is that batch while it is being written, and ``reading``
    is the next one while it is being read. ``progressed`` tells whether the round made progress, ``unfinished`` whether
    it has left something behind.
    """

    after: str = ""
    worlds: int = 256
    builds: tuple[str, ...] = ()
    progressed: bool = False
    unfinished: bool = False
    writing: asyncio.Task[None] | None = None
    reading: asyncio.Task[Batch] | None = None

    async def settle(self) -> None:
        """Wait until the previous batch is written; raise its error."""
        writing, self.writing = self.writing, None
        if writing is not None:
            await writing

    async def abandon(self) -> None:
        """Stop reading and writing; nothing of those batches is kept, unless one was just being committed."""
        tasks = [task for task in (self.writing, self.reading) if task is not None]
        self.writing = self.reading = None
        for task in tasks:
            task.cancel()
        await until_done(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()  # retrieved, so that asyncio does not complain

    async def begin_anew(self, builds: tuple[str, ...]) -> None:
        """Feed other builds from now on: what is being written is kept, what is being read is not."""
        await self.settle()
        await self.abandon()
        self.builds, self.after = builds, ""

    def advance(self, choice: Choice) -> None:
        """Note where the next batch begins, and how many worlds it is likely to take."""
        self.after = choice.after
        if choice.short:
            self.worlds = min(self.worlds * 2, _MOST_WORLDS)
        elif choice.worlds < self.worlds // 4:
            self.worlds = max(self.worlds // 2, _FEWEST_WORLDS)


@dataclass(slots=True)
class Choice:
    """The content of a batch.

    ``spans`` say what to read, and which targets are there. ``past`` are worlds in which nothing is due, each with the
    head up to which that holds, ``parked`` those that are set aside. ``short``: there was room for more worlds.
    """

    spans: list[tuple[Span, list[Target]]] = field(default_factory=list)
    past: list[tuple[str, str, int]] = field(default_factory=list)
    parked: list[tuple[str, str]] = field(default_factory=list)
    worlds: int = 0
    after: str = ""
    short: bool = False

    @property
    def skipped(self) -> int:
        """The number of worlds that need not be considered again."""
        return len(self.past) + len(self.parked)


def choose(due: Sequence[Record], tables: Mapping[str, Table], worlds: int, batch: int) -> Choice:
    """Take worlds from the rows of DUE until a batch is full.

    ``worlds`` is the limit for each build in the query DUE. If a build has more worlds, the others wait at its last
    one, so that builds at the same place stay together.
    """
    choice = Choice()
    until = _common_end(due, worlds)
    share = max(1, batch // 2)
    effects = 0
    here = ""
    for world_id, rows in groupby(due, key=itemgetter("world_id")):
        if until is not None and world_id > until:
            break
        if effects >= batch:
            choice.after = here
            return _capped(choice, share)
        here = world_id
        choice.worlds += 1
        effects += _take(choice, list(rows), tables, share)
    choice.after = until or ""
    choice.short = until is not None
    return _capped(choice, share if choice.worlds > 1 else batch)


def _common_end(due: Sequence[Record], worlds: int) -> str | None:
    counts: dict[str, int] = {}
    last: dict[str, str] = {}
    for row in due:
        counts[row["build"]] = counts.get(row["build"], 0) + 1
        last[row["build"]] = row["world_id"]
    return min((last[build] for build, count in counts.items() if count >= worlds), default=None)


def _take(choice: Choice, rows: Sequence[Record], tables: Mapping[str, Table], share: int) -> int:
    """Take what is due in one world; return about how many effects that is."""
    here: dict[int, tuple[int, list[Target]]] = {}
    for build, world_id, head, cursor, ruleset, parked in rows:
        table = tables[build]
        seq = cursor or 0
        if parked is not None:
            choice.parked.append((build, world_id))
        elif head <= seq or not table.reads(ruleset):
            choice.past.append((build, world_id, head))
        else:
            most, together = here.get(seq, (0, []))
            together.append(Target(table, world_id, ruleset, seq, head, fresh=cursor is None))
            here[seq] = max(most, head), together
    for seq, (head, together) in here.items():
        choice.spans.append((Span(together[0].world_id, seq, head), together))
    return sum(min(head - seq, share) for seq, (head, _) in here.items())


def _capped(choice: Choice, most: int) -> Choice:
    choice.spans = [
        (span._replace(until_seq=min(span.until_seq, span.after_seq + most)), together)
        for span, together in choice.spans
    ]
    return choice


#: The effects for each target to fold.
_Rows = dict[Key, list[StoredEffect]]


class Batch(NamedTuple):
    """What is to be folded: the content of a batch, and its effects. ``choice`` is None where nothing is due."""

    choice: Choice | None
    rows: _Rows


class Batches:
    """Feeds batches for one runner."""

    def __init__(
        self,
        pool: Pool,
        log: LogReader,
        *,
        beginnings: Beginnings,
        writer: Writer,
        folds: Folds,
        counters: Counters,
        batch: int,
    ) -> None:
        self._pool = pool
        self._log = log
        self._beginnings = beginnings
        self._isolation = Isolation(beginnings, writer)
        self._writer = writer
        self._folds = folds
        self._counters = counters
        self._batch = batch

    async def feed(self, lane: Lane, tables: Mapping[str, Table], tokens: Mapping[str, int]) -> bool:
        """Feed one batch to the builds of ``tables``; return whether more is due, and whether this one progressed.

        A batch is folded while the one before it is written and the one after it is read: while more is due, both may
        still be under way when this returns. ``tokens`` are the builds' leases. Raises LeasesLostError, or the
        database's error, of one of these three; then nothing of that batch was written, and its folds are dropped.
        """
        if lane.after == "":
            await lane.settle()  # a new round: otherwise what is being written would be due again
            lane.progressed = lane.unfinished = False
        reading, lane.reading = lane.reading, None
        choice, rows = await (reading or self._next(lane, tables))
        if choice is None:
            lane.after = ""
            await lane.settle()
            return lane.progressed
        lane.advance(choice)
        if lane.after != "":
            lane.reading = asyncio.get_running_loop().create_task(self._next(lane, tables))
        targets = [target for _, together in choice.spans for target in together]
        await self._fold(choice.spans, rows)
        given = [await self._careful(target, rows) for target in targets if target.poison or target.key in rows]
        await lane.settle()
        lane.progressed |= choice.skipped > 0
        lane.unfinished |= len(given) < len(targets) or any(target.behind for target in given)
        lane.writing = asyncio.get_running_loop().create_task(self._finish(lane, given, rows, tokens))
        if lane.after == "":
            await lane.settle()
            return lane.unfinished and lane.progressed
        return True

    async def _next(self, lane: Lane, tables: Mapping[str, Table]) -> Batch:
        """Read the batch that the lane stands before."""
        due = await self._pool.fetch(statements.DUE, list(tables), lane.after, lane.worlds)
        if not due:
            return Batch(None, {})
        choice = choose(due, tables, lane.worlds, self._batch)
        await self._throw_away(choice)
        return Batch(choice, await self._read(choice.spans))

    async def _throw_away(self, choice: Choice) -> None:
        if choice.past:
            await self._pool.execute(statements.NOT_DUE, *columns(choice.past, 3))
        if choice.parked:
            await self._pool.execute(statements.NOT_DUE_WHILE_PARKED, *columns(choice.parked, 2))

    async def _read(self, spans: Sequence[tuple[Span, list[Target]]]) -> _Rows:
        """Read the effects for the targets; a target whose next effect is missing from the log is poisoned."""
        if not spans:
            return {}
        found = await self._log.gather([span for span, _ in spans], limit=self._batch)
        # A span may have come back empty because the batch was full. The first such is read separately: if it stays
        # empty the log lacks what its head promises, which only tampering can cause.
        empty = next((n for n, rows in enumerate(found) if not rows), None)
        if empty is not None:
            found[empty] = (await self._log.gather([spans[empty][0]], limit=1))[0]
        read: _Rows = {}
        for n, ((span, together), rows) in enumerate(zip(spans, found, strict=True)):
            good = contiguous(rows, span.after_seq)
            for target in together:
                if good:
                    read[target.key] = good
                elif rows or n == empty:
                    target.reached, target.poison = target.seq, missing(span, rows)
        return read

    async def _fold(self, spans: Sequence[tuple[Span, list[Target]]], rows: _Rows) -> None:
        ready = [(together, rows[together[0].key]) for _, together in spans if together[0].key in rows]
        for together, _ in ready:
            for target in together:
                target.held = self._folds.take(target.key, target.seq)
        await self._beginnings.load([target for together, _ in ready for target in together if target.held is None])
        groups = []
        for together, effects in ready:
            upcasting = self._beginnings.upcasting(together[0].ruleset)
            sound = [target for target in together if target.poison is None]
            alone = [target for target in sound if moves_state(target.table.projection)]
            sharing = [target for target in sound if target not in alone]
            groups += [Group(effects, [target], upcasting) for target in alone]
            if sharing:
                groups.append(Group(effects, sharing, upcasting))
        await asyncio.to_thread(fold, groups)

    async def _careful(self, target: Target, rows: _Rows) -> Target:
        """Return the target, folded once more if the first attempt failed or could not begin."""
        if not target.failed and not (target.poison and target.key in rows):
            return target
        return await self._isolation.again(target, rows[target.key])

    async def _write(self, targets: list[Target], rows: _Rows, tokens: Mapping[str, int]) -> list[Target]:
        """Write targets, except for those that another runner has moved; return what was written.

        If the database refuses rows, the targets at fault are found by bisection.
        """
        while targets:
            written = await asyncio.to_thread(Written, targets, copying=self._writer.copying)
            try:
                await self._writer.write(written, tokens)
            except CursorsMovedError as moved:
                self._counters.conflicts += 1
                targets = [target for target in targets if target.key not in moved.keys]
            except Exception as error:
                if not is_datas_fault(error):
                    raise
                if len(targets) == 1:
                    return await self._isolation.write(targets[0], rows.get(targets[0].key, []), tokens)
                half = len(targets) // 2
                return [
                    *await self._write(targets[:half], rows, tokens),
                    *await self._write(targets[half:], rows, tokens),
                ]
            else:
                for target in targets:
                    if target.poison is None:
                        self._folds.put(target.key, target.keep())
                break
        return targets

    async def _finish(self, lane: Lane, targets: list[Target], rows: _Rows, tokens: Mapping[str, int]) -> None:
        written = await self._write(targets, rows, tokens)
        counters = self._counters
        if written:
            lane.progressed = True
            counters.batches += 1
        for target in written:
            counters.effects += target.reached - target.seq
            counters.rows += len(target.changes.upserts) + len(target.changes.deletes)
            counters.parked += target.poison is not None and not is_skipped(target.poison)
