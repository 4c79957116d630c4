"""Live states: the states that rulesets decide by, kept in memory while a world is being written.

A live state is at a seq that is known to be in the log. While a group is sealed its effects may be folded in before
they are written, so that a draft is judged after those before it in the group; if the group is then not written, the
state is discarded and made again from a snapshot. Pure: no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import orjson

from worldledger.chain import StoredEffect
from worldledger.folding import Fold
from worldledger.world import WorldState

if TYPE_CHECKING:
    from worldledger_service.store.sealing import Group, Sealer

#: Most confirmed effects that wait to be folded in.
_MOST_EFFECTS_BEHIND = 2000
#: Live states are counted this many times while they grow by their limit.
_COUNTINGS = 64
#: Most bytes of effects that are kept for the next snapshot of a world.
MOST_RECENT_BYTES = 8 * 1024 * 1024


class StateNeededError(Exception):
    """A check needs the state, which is not in memory; settling loads it."""


class LiveState:
    """One world's state in this process, at a seq of its log."""

    __slots__ = ("_behind", "_grown", "_judged", "fold", "provisional", "size")

    def __init__(self, fold: Fold, size: int, grown: Callable[[int], None]) -> None:
        self.fold = fold
        #: bytes, as `worldledger_service.store.snapshots.Forward` counts them
        self.size = size
        self._grown = grown
        #: whether effects are folded in that may not have been written
        self.provisional = False
        self._behind: list[str] = []
        #: bytes of effects that are folded in before they are written
        self._judged = 0

    @property
    def seq(self) -> int:
        """The seq that the state is at, or can be moved to at once."""
        return self.fold.seq + len(self._behind)

    def after(self, seq: int, texts: Sequence[str]) -> WorldState:
        """Return the state after ``texts``, which are to follow ``seq``. Raises StateNeededError if it is not here."""
        fold = self.fold
        if self._behind:
            behind, self._behind = self._behind, []
            self._fold(behind)
        if not seq <= fold.seq <= seq + len(texts):
            raise StateNeededError(f"world {fold.world_id}: the state is at seq {fold.seq}, not {seq + len(texts)}")
        if fold.seq < seq + len(texts):
            self.provisional = True
            texts = texts[fold.seq - seq :]
            self._judged += sum(map(len, texts))
            self._fold(texts)
        return fold.state

    def confirm(self, seq: int, texts: Sequence[str]) -> bool:
        """Note that ``texts`` were written after ``seq``; return False if this state must be dropped."""
        new = texts[max(self.seq - seq, 0) :] if self.seq >= seq else None
        self.provisional = False
        if new is None or self.seq > seq + len(texts) or len(self._behind) + len(new) > _MOST_EFFECTS_BEHIND:
            return False
        self._behind += new
        self.grow(self._judged + sum(map(len, new)))
        self._judged = 0
        return True

    def grow(self, size: int) -> None:
        """Note that effects of this many bytes are folded in, or will be."""
        self.size += size
        self._grown(size)

    def _fold(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.fold.apply(orjson.loads(text))


class LiveStates:
    """The sealers with a live state; the least recently loaded are dropped first: limits of number and bytes.

    Only an upper bound of a state's size is known, because effects replace others in it. So a state that was written to
    for long counts for more than its size; then it is dropped first, and loaded again from its snapshot and the effects
    since.
    """

    def __init__(self, most: int, most_bytes: int) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._sealers: OrderedDict[Sealer, None] = OrderedDict()
        #: bytes since they were counted
        self._more = 0

    def keep(self, sealer: Sealer, fold: Fold, size: int) -> None:
        """Keep a sealer's live state, and drop the oldest ones if there are too many."""
        sealer.live = LiveState(fold, size, self._grown)
        self._sealers[sealer] = None
        self._sealers.move_to_end(sealer)
        while len(self._sealers) > self._most:
            self._let_go()
        self._grown(size)

    def _grown(self, size: int) -> None:
        self._more += size
        if self._more * _COUNTINGS >= self._most_bytes:
            self._more = 0
            there = sum(sealer.live.size for sealer in self._sealers if sealer.live is not None)
            while there > self._most_bytes and len(self._sealers) > 1:
                there -= self._let_go()

    def _let_go(self) -> int:
        """Drop the oldest state; return its size."""
        oldest, _ = self._sealers.popitem(last=False)
        live, oldest.live = oldest.live, None
        return 0 if live is None else live.size


class Recent:
    """The recent effects of this process in a world, for its next snapshot, so that they need not be read again.

    It is valid as long as no other process writes to the world and not too much is collected; then it is ``broken``.
    """

    __slots__ = ("_bytes", "_checksums", "_texts", "broken", "seq")

    def __init__(self, seq: int) -> None:
        #: the seq of the last effect that is here, or that is not needed
        self.seq = seq
        self.broken = False
        self._texts: list[str] = []
        self._checksums: list[bytes] = []
        self._bytes = 0

    def add(self, seq: int, texts: Sequence[str], checksums: Sequence[bytes]) -> None:
        """Add effects that were written after ``seq``."""
        self._bytes += sum(map(len, texts))
        if seq != self.seq or self._bytes > MOST_RECENT_BYTES:
            self.broken = True
            self._texts, self._checksums = [], []
        if not self.broken:
            self._texts += texts
            self._checksums += checksums
            self.seq += len(texts)

    def take(self) -> Callable[[], list[StoredEffect]]:
        """Drain the buffer; return a function that makes rows of it, with the columns that the fold reads."""
        texts, checksums, first = self._texts, self._checksums, self.seq - len(self._texts) + 1
        self._texts, self._checksums, self._bytes = [], [], 0
        return lambda: [
            StoredEffect(seq, text.encode(), checksum, "", "", 0.0)
            for seq, (text, checksum) in enumerate(zip(texts, checksums, strict=True), first)
        ]


def confirm(sealer: Sealer, seq: int, texts: Sequence[str], checksums: Sequence[bytes]) -> None:
    """Report to the followers of a world in this process that ``texts`` were written after ``seq``."""
    if sealer.live is not None and not sealer.live.confirm(seq, texts):
        sealer.live = None
    if sealer.recent is not None:
        sealer.recent.add(seq, texts, checksums)


def confirm_group(sealer: Sealer, group: Group) -> None:
    """Report a written group to them."""
    if group.authority is not None:
        sealer.authority = group.authority
    if sealer.live is not None or sealer.recent is not None:
        confirm(sealer, group.before.seq, group.texts, group.checksums)
