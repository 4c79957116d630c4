"""Snapshots: states kept beside the log, so that every state is near one. A cache: each can be made again.

A snapshot is taken when at least ``every`` effects have come since the last one, and at least as many bytes of effects
as its own text has; so snapshots become sparser as a state grows, and never take more space than the log. Every
snapshot is checked when it is read: its text against its digest, its place against the chain, and its digest against
the StateDigest in the log, if there is one. A snapshot that does not hold is skipped and the state folded from an older
one; on the way a valid one replaces it. It is not deleted before: another process may have replaced it already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import structlog
from pydantic import BaseModel, ConfigDict

from worldledger.chain import Position, StoredEffect, Verifier
from worldledger.errors import SimulationError, TamperedError
from worldledger.folding import Fold
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState, state_digest
from worldledger_service.store import statements
from worldledger_service.store.prefetch import prefetch

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader


#: Bytes of a state's text beyond which it is read and written in a thread: about 10 ms for 100 KiB.
_LARGE_BYTES: Final = 64 * 1024
#: Most snapshots that are written by one statement, and bytes of their states that are enough for one.
_TOGETHER: Final = 50
_TOGETHER_BYTES: Final = 4 * 1024 * 1024

log = structlog.get_logger("worldledger.store")


class SnapshotRecord(BaseModel):
    """A snapshot as listings show it.

    ``digest_seq`` is the StateDigest effect that was written for this seq, if any; ``current`` tells whether the
    installed version of the ruleset made it, at a place that the log has: others are not used.
    """

    model_config = ConfigDict(frozen=True)

    world_id: str
    global_seq: int
    checksum: str
    ruleset: str
    ruleset_version: int
    state_digest: str
    state_bytes: int
    created_at: datetime
    digest_seq: int | None
    current: bool


class Taken(NamedTuple):
    """A new snapshot: the seq, the chain's checksum there, the state's text and its digest (hex)."""

    global_seq: int
    checksum: bytes
    text: bytes
    digest: str


class Base(NamedTuple):
    """The start of folding: a fold, the checksum at its seq (empty at 0), and the bytes of its state's text.

    ``damaged`` are the seqs of snapshots that were skipped because they do not hold.
    """

    fold: Fold
    checksum: bytes
    state_bytes: int
    damaged: frozenset[int] = frozenset()


#: The fold of a world before its first effect, read by a reader.
Beginning: TypeAlias = Callable[[str, Ruleset, "Reader"], Awaitable[Fold]]


class Snapshots:
    """Reads and writes the snapshots of all worlds. ``beginning`` is how a world without one begins."""

    def __init__(self, reader: Reader, beginning: Beginning, *, most: int) -> None:
        self._reader = reader
        self._beginning = beginning
        #: the most snapshots of one world
        self.most = most

    async def before(self, world_id: str, seq: int, ruleset: Ruleset, reader: Reader | None = None) -> Base:
        """Return the newest snapshot at or before ``seq`` that holds, or the beginning."""
        damaged: set[int] = set()
        last = seq
        reader = reader or self._reader
        while True:
            rows = await reader.fetch(statements.SNAPSHOT_BEFORE, world_id, last, ruleset.version)
            if not rows:
                return Base(await self._beginning(world_id, ruleset, reader), b"", 0, frozenset(damaged))
            row = rows[0]
            if len(row["state"]) > _LARGE_BYTES:
                state = await asyncio.to_thread(_read, row, ruleset)
            else:
                state = _read(row, ruleset)
            if isinstance(state, WorldState):
                fold = Fold(world_id, ruleset, state, row["global_seq"])
                return Base(fold, row["checksum"], len(row["state"].encode()), frozenset(damaged))
            log.warning("snapshot passed over", world_id=world_id, global_seq=row["global_seq"], why=state)
            damaged.add(row["global_seq"])
            last = row["global_seq"] - 1

    async def places(self, world_id: str, ruleset: Ruleset, first: int, last: int) -> list[tuple[int, int]]:
        """Return where there are snapshots from ``first`` to ``last``, and the one before: seq and bytes, ascending."""
        rows = await self._reader.fetch(statements.SNAPSHOT_PLACES, world_id, ruleset.version, first, last)
        return [(row["global_seq"], row["state_bytes"]) for row in rows]

    async def at(self, world_id: str, ruleset: Ruleset, seqs: Sequence[int]) -> list[Base]:
        """Return the snapshots at some seqs, ascending; those that do not hold are left out."""
        rows = await self._reader.fetch(statements.SNAPSHOTS_AT, world_id, [*seqs], ruleset.version)
        states = await asyncio.to_thread(lambda: [_read(row, ruleset) for row in rows])
        found = []
        for row, state in zip(rows, states, strict=True):
            if isinstance(state, WorldState):
                fold = Fold(world_id, ruleset, state, row["global_seq"])
                found.append(Base(fold, row["checksum"], len(row["state"].encode())))
            else:
                log.warning("snapshot passed over", world_id=world_id, global_seq=row["global_seq"], why=state)
        return found

    async def any_after(self, world_id: str, seq: int, ruleset: Ruleset) -> bool:
        """Return whether there is a snapshot of the ruleset's version after ``seq``."""
        return bool(await self._reader.fetch(statements.SNAPSHOT_AFTER, world_id, seq, ruleset.version))

    async def write(self, world_id: str, ruleset: Ruleset, *taken: Taken) -> None:
        """Keep snapshots of different seqs, and thin out older ones. Raises StoreUnavailableError."""
        await self._reader.fetch(statements.WRITE_SNAPSHOTS, *columns(world_id, ruleset, *taken))
        while await self._reader.fetch(statements.THIN_SNAPSHOTS, world_id, self.most):
            pass  # if several have come at once, once is not enough

    async def page(self, world_id: str, ruleset: Ruleset, *, after: int = 0, limit: int = 100) -> list[SnapshotRecord]:
        """Return a page of a world's snapshots, ascending."""
        rows = await self._reader.fetch(statements.SNAPSHOTS, world_id, after, limit)
        return [
            SnapshotRecord(
                world_id=world_id,
                global_seq=row["global_seq"],
                checksum=row["checksum"].hex(),
                ruleset=row["ruleset"],
                ruleset_version=row["ruleset_version"],
                state_digest=row["state_digest"].hex(),
                state_bytes=row["state_bytes"],
                created_at=row["created_at"],
                digest_seq=row["digest_seq"],
                current=(row["ruleset"], row["ruleset_version"], row["checksum"])
                == (ruleset.name, ruleset.version, row["chained"]),
            )
            for row in rows
        ]


class Gathering:
    """Snapshots of one world that become due one after another; a statement writes several.

    They are lost if the process ends before they are written, as any cache may be.
    """

    def __init__(self, snapshots: Snapshots, world_id: str, ruleset: Ruleset) -> None:
        self._snapshots = snapshots
        self._world_id = world_id
        self._ruleset = ruleset
        self._taken: list[Taken] = []

    async def keep(self, taken: Taken) -> None:
        """Keep a snapshot, and write the collected ones if they are enough."""
        self._taken.append(taken)
        if len(self._taken) >= _TOGETHER or sum(len(each.text) for each in self._taken) >= _TOGETHER_BYTES:
            await self.write()

    async def write(self) -> None:
        """Write the collected snapshots; if that fails they are dropped."""
        taken, self._taken = self._taken, []
        if taken:
            await quietly(self._snapshots.write(self._world_id, self._ruleset, *taken), self._world_id)


def columns(world_id: str, ruleset: Ruleset, *taken: Taken) -> tuple[Any, ...]:
    """Return the parameters of `statements.WRITE_SNAPSHOTS` for snapshots of a world."""
    return (
        world_id,
        ruleset.name,
        ruleset.version,
        [each.global_seq for each in taken],
        [each.checksum for each in taken],
        [bytes.fromhex(each.digest) for each in taken],
        [each.text.decode() for each in taken],
        [len(each.text) for each in taken],
    )


def take(fold: Fold, checksum: bytes) -> Taken:
    """Take a snapshot of a fold at the effect with this checksum. Pure."""
    text = fold.state.text()
    return Taken(fold.seq, checksum, text, state_digest(text))


def _read(row: asyncpg.Record, ruleset: Ruleset) -> WorldState | str:
    """Return the state in a row, or the reason why it is not trusted."""
    text = row["state"].encode()
    digest = sha256(text).digest()
    if row["ruleset"] != ruleset.name:
        return f"it is of ruleset {row['ruleset']}, the world of {ruleset.name}"
    if digest != row["state_digest"]:
        return "its state is not the one that was digested"
    if row["checksum"] != row["chained"]:
        return "the log has another checksum there"
    if row["logged"] is not None and row["logged"] != digest.hex():
        return "the state digest in the log is another one"
    try:
        state = WorldState.from_text(text)
    except ValueError as error:
        return str(error)
    if state.metadata.get("last_effect_seq") != row["global_seq"]:
        return "its state is of another seq"
    return state


async def quietly(work: object, world_id: str) -> None:
    """Await the writing of snapshots; if it fails the state is still available."""
    try:
        await work  # type: ignore[misc]
    except SimulationError as error:
        log.warning("snapshot not written", world_id=world_id, error=error.message)


# -- folding a world's log forward, and taking the snapshots that become due on the way -------------------

#: Called with the number of folded effects, and the number to fold.
Progress = Callable[[int, int], None]

#: More effects than any world has: with this spacing no snapshot is ever due.
NEVER = 2**62
#: Most effects that are folded on the event loop; more go to a thread.
_EFFECTS_AT_ONCE = 100

Keep = Callable[[Taken], Awaitable[None]]


class Forward:
    """A world's state that is folded forward: the fold, the chain's checksum there, and where snapshots are due.

    ``size`` is about the size of the state, and never too small: the bytes of its last known text, and of the effects
    since.
    """

    def __init__(self, base: Base, every: int) -> None:
        self.fold = base.fold
        self.checksum = base.checksum
        self.size = base.state_bytes
        self._spacing = _Spacing(base, every)

    @property
    def last(self) -> int:
        """The seq of the last snapshot; 0 if there is none."""
        return self._spacing.last

    def feed(self, rows: Sequence[StoredEffect]) -> Iterator[Taken]:
        """Fold the rows that follow, and yield the snapshots that are due among them; the caller must exhaust this."""
        while rows:
            count, size = self._spacing.next(self.fold.seq, rows)
            self.fold.feed(rows[:count])
            self.checksum = rows[count - 1].checksum
            self.size += size
            rows = rows[count:]
            if self._spacing.due(self.fold.seq):
                taken = take(self.fold, self.checksum)
                self.size = len(taken.text)
                if self._spacing.worth(self.fold.seq, len(taken.text)):
                    yield taken

    async def take(self, rows: Sequence[StoredEffect], keep: Keep, verifier: Verifier | None = None) -> None:
        """Do the same as `feed`, mostly in a thread; ``keep`` is called with the snapshots.

        If the chain is checked by a ``verifier``, raises TamperedError for rows that do not hold.
        """

        def work() -> list[Taken]:
            if verifier is not None and not verifier.feed_chain(rows):
                assert verifier.finding is not None  # noqa: S101 - it says why
                raise verifier.finding.error()
            return list(self.feed(rows))

        is_little = self.size <= _LARGE_BYTES or self._spacing.far(self.fold.seq + len(rows))
        for taken in work() if is_little and len(rows) <= _EFFECTS_AT_ONCE else await asyncio.to_thread(work):
            await keep(taken)


async def advance(
    reader: Reader,
    base: Base,
    seq: int,
    *,
    every: int = NEVER,
    keep: Keep | None = None,
    progress: Progress | None = None,
    check: bool = True,
) -> Forward:
    """Fold a world's log from a base up to ``seq``; return the state there.

    ``keep`` is called with the snapshots that are due on the way, after ``every`` effects and in place of damaged ones.
    The chain is checked from the base on, if its checksum is known and unless ``check`` is false. Raises TamperedError
    if it does not hold.
    """
    forward = Forward(base if keep is not None else base._replace(damaged=frozenset()), every)
    fold = forward.fold
    start = fold.seq
    known = check and (base.checksum or not start)
    verifier = Verifier(fold.world_id, start=Position(start, base.checksum)) if known else None
    if start < seq:
        async with prefetch(reader.batches(fold.world_id, after_seq=start, until_seq=seq)) as batches:
            async for batch in batches:
                await forward.take(batch, keep or _let_go, verifier)
                if progress is not None:
                    progress(fold.seq - start, seq - start)
    if fold.seq != seq:
        what = f"world {fold.world_id}, seq {fold.seq + 1}: missing from the log; run `worldledger verify`"
        raise TamperedError(what, world_id=fold.world_id, global_seq=fold.seq + 1, what="missing")
    return forward


async def _let_go(_: Taken) -> None:
    """Drop the snapshots."""


class _Spacing:
    """Decides where snapshots are due: at the same places for every caller, however the log is cut into batches.

    A snapshot is kept if at least ``every`` effects have come since the last one, and at least as many bytes of them as
    its own text has. So the snapshots of a world never take more space than its effects.
    """

    def __init__(self, base: Base, every: int) -> None:
        self._every = every
        self.last = base.fold.seq
        self._wanted = base.state_bytes
        self._bytes = 0
        self._again = sorted(base.damaged, reverse=True)

    def next(self, seq: int, rows: Sequence[StoredEffect]) -> tuple[int, int]:
        """Return how many of the rows after ``seq`` to fold before asking again whether one is due, and their bytes."""
        most, before = len(rows), self._bytes
        if self._again and self._again[-1] <= seq + most:
            most = self._again[-1] - seq
        early = min(max(self.last + self._every - seq - 1, 0), most)  # none of these is far enough from the last one
        self._bytes += sum([len(row.text) for row in rows[:early]])
        for count, row in enumerate(rows[early:most], early + 1):
            self._bytes += len(row.text)
            if self._enough(seq + count):
                return count, self._bytes - before
        return most, self._bytes - before

    def far(self, seq: int) -> bool:
        """Return whether no snapshot is due up to this seq, whatever the bytes of the effects."""
        return seq - self.last < self._every and not (self._again and self._again[-1] <= seq)

    def due(self, seq: int) -> bool:
        """Return whether to check the size of the state at this seq."""
        return self._enough(seq) or (bool(self._again) and self._again[-1] == seq)

    def worth(self, seq: int, state_bytes: int) -> bool:
        """Return whether a state that was due is to be kept, now that its size is known."""
        again = bool(self._again) and self._again[-1] == seq
        if not again and state_bytes > self._bytes:
            # It has grown: the next check is after twice the bytes, because growing states would otherwise cost their
            # square.
            self._wanted = max(state_bytes, 2 * self._bytes)
            return False
        self.last, self._wanted, self._bytes = seq, state_bytes, 0
        if again:
            self._again.pop()
        return True

    def _enough(self, seq: int) -> bool:
        return seq - self.last >= self._every and self._bytes >= self._wanted
