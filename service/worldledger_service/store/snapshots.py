"""Snapshots: states kept beside the log, so that every state is near one. A cache: each can be made again.

A snapshot is taken when at least ``every`` effects have come since the last one, and at least as many bytes of effects
as its own text has; so snapshots become sparser as a state grows, and never take more space than the log. Every
snapshot is checked when it is read: its text against its digest, its place against the chain, and its digest against
the StateDigest in the log, if there is one. A snapshot that does not hold is skipped and the state folded from an older
one; on the way a valid one replaces it. It is not deleted before: another process may have replaced it already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import structlog
from pydantic import BaseModel, ConfigDict

from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState, state_digest
from worldledger_service.store import statements

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader

#: Characters of a state's text beyond which it is parsed in a thread: about 10 ms for 100 KiB.
_LARGE: Final = 64 * 1024
#: Most snapshots that are written by one statement, and bytes of their states that are enough for one.
_TOGETHER: Final = 50
_TOGETHER_BYTES: Final = 4 * 1024 * 1024

log = structlog.get_logger("worldledger.store")


class SnapshotRecord(BaseModel):
    """A snapshot as listings show it.

    ``digest_seq`` is the StateDigest effect that was written for this seq, if any; ``current`` tells whether the
    installed version of the ruleset made it: others are not used.
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
            if len(row["state"]) > _LARGE:
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
                current=(row["ruleset"], row["ruleset_version"]) == (ruleset.name, ruleset.version),
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
