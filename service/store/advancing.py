"""Folding a world's log forward, and taking the snapshots that fall due on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from service.store.ahead import ahead
from service.store.snapshots import Base, Taken, take
from worldledger.chain import StoredEffect
from worldledger.errors import TamperedError
from worldledger.folding import Fold

if TYPE_CHECKING:
    from service.store.reader import Reader

#: Told how many effects are folded, and how many there are to fold.
Progress = Callable[[int, int], None]

#: Effects that are folded at once on the event loop; more go to a thread.
_AT_ONCE = 100


async def advance(
    reader: Reader,
    base: Base,
    seq: int,
    *,
    every: int | None = None,
    keep: Callable[[Taken], Awaitable[None]] | None = None,
    progress: Progress | None = None,
) -> tuple[Fold, bytes]:
    """Fold a world's log from a base up to ``seq``; give the fold and the checksum there.

    ``keep`` is handed the snapshots that are due on the way, after ``every`` effects and where damaged ones stood.
    Raises TamperedError where effects are missing.
    """
    fold, checksum = base.fold, base.checksum
    spacing = _Spacing(base, every) if every is not None and keep is not None else None
    start = fold.seq
    if start < seq:
        async with ahead(reader.batches(fold.world_id, after_seq=start, until_seq=seq)) as batches:
            async for batch in batches:
                rest: Sequence[StoredEffect] = batch
                while rest:
                    count = len(rest) if spacing is None else spacing.next(fold.seq, rest)
                    await _feed(fold, rest[:count])
                    checksum = rest[count - 1].checksum
                    rest = rest[count:]
                    if spacing is not None and keep is not None and spacing.due(fold.seq):
                        taken = await asyncio.to_thread(take, fold, checksum)
                        if spacing.worth(fold.seq, len(taken.text)):
                            await keep(taken)
                if progress is not None:
                    progress(fold.seq - start, seq - start)
    if fold.seq != seq:
        what = f"world {fold.world_id}, seq {fold.seq + 1}: missing from the log; run `worldledger verify`"
        raise TamperedError(what, world_id=fold.world_id, global_seq=fold.seq + 1, what="missing")
    return fold, checksum


async def _feed(fold: Fold, rows: Sequence[StoredEffect]) -> None:
    if len(rows) <= _AT_ONCE:
        fold.feed(rows)
    else:
        await asyncio.to_thread(fold.feed, rows)


class _Spacing:
    """Where snapshots are due: the same places whoever folds, however the log is cut into batches.

    A snapshot is kept where at least ``every`` effects have come since the last one, and at least as many bytes of
    them as its own text has. So the snapshots of a world never take more room than its effects.
    """

    def __init__(self, base: Base, every: int) -> None:
        self._every = every
        self._last = base.fold.seq
        self._wanted = base.state_bytes
        self._bytes = 0
        self._again = sorted(base.damaged, reverse=True)

    def next(self, seq: int, rows: Sequence[StoredEffect]) -> int:
        """Tell how many of the rows after ``seq`` to fold before asking again whether a snapshot is due."""
        most = len(rows)
        if self._again and self._again[-1] <= seq + most:
            most = self._again[-1] - seq
        for count, row in enumerate(rows[:most], 1):
            self._bytes += len(row.text)
            if self._enough(seq + count):
                return count
        return most

    def due(self, seq: int) -> bool:
        """Tell whether to look at the state at this seq."""
        return self._enough(seq) or (bool(self._again) and self._again[-1] == seq)

    def worth(self, seq: int, state_bytes: int) -> bool:
        """Tell whether a state that was due is to be kept, now that its size is known."""
        again = bool(self._again) and self._again[-1] == seq
        if not again and state_bytes > self._bytes:
            # It has grown: each further look is to come after twice the bytes, or growing states cost their square.
            self._wanted = max(state_bytes, 2 * self._bytes)
            return False
        self._last, self._wanted, self._bytes = seq, state_bytes, 0
        if again:
            self._again.pop()
        return True

    def _enough(self, seq: int) -> bool:
        return seq - self._last >= self._every and self._bytes >= self._wanted
