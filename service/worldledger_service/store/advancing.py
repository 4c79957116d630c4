"""Folding a world's log forward, and taking the snapshots that become due on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from worldledger.chain import Position, StoredEffect, Verifier
from worldledger.errors import TamperedError
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.snapshots import Base, Taken, take

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

#: Called with the number of folded effects, and the number to fold.
Progress = Callable[[int, int], None]

#: More effects than any world has: with this spacing no snapshot is ever due.
NEVER = 2**62
#: Most effects that are folded on the event loop, and most bytes of a state that is written there; more goes to a
#: thread.
_EFFECTS_AT_ONCE = 100
_LARGE_BYTES = 64 * 1024


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
