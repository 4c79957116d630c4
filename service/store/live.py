"""Live states: what a ruleset's decide looks at, kept in memory where a world is being written.

A live state lies at a seq that is known to be in the log. While a group is sealed its effects may be folded in before
they are written, so that a draft is judged by those before it in the group; if the group is then not written, the
state is of no more use and is made anew from a snapshot. Pure: no I/O.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import orjson

from worldledger.errors import SimulationError
from worldledger.folding import Fold
from worldledger.world import WorldState

if TYPE_CHECKING:
    from service.store.sealing import Group, Sealer

#: Confirmed effects that may wait to be folded in.
_MOST_BEHIND = 2000


class StateNeededError(SimulationError):
    """A draft whose check looks at the state came before the state was there; whoever settles brings it."""

    code = "state_needed"


class LiveState:
    """One world's state in this process, at a seq of its log."""

    __slots__ = ("_behind", "fold", "provisional")

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        #: whether effects are folded in that may not have been written
        self.provisional = False
        self._behind: list[str] = []

    @property
    def seq(self) -> int:
        """The seq that the state is at, or can be brought to at once."""
        return self.fold.seq + len(self._behind)

    def after(self, seq: int, texts: Sequence[str]) -> WorldState:
        """Give the state after ``texts``, which are to follow ``seq``. Raises StateNeededError if it is not here."""
        fold = self.fold
        if self._behind:
            behind, self._behind = self._behind, []
            self._fold(behind)
        if not seq <= fold.seq <= seq + len(texts):
            raise StateNeededError(f"world {fold.world_id}: the state is at seq {fold.seq}, not {seq + len(texts)}")
        if fold.seq < seq + len(texts):
            self.provisional = True
            self._fold(texts[fold.seq - seq :])
        return fold.state

    def confirm(self, seq: int, texts: Sequence[str]) -> bool:
        """Take note that ``texts`` were written after ``seq``; give False if this state is to be dropped."""
        new = texts[max(self.seq - seq, 0) :] if self.seq >= seq else None
        self.provisional = False
        if new is None or self.seq > seq + len(texts) or len(self._behind) + len(new) > _MOST_BEHIND:
            return False
        self._behind += new
        return True

    def _fold(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.fold.apply(orjson.loads(text))


class LiveStates:
    """Those sealers that have a live state, the least recently brought going first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sealers: OrderedDict[Sealer, None] = OrderedDict()

    def keep(self, sealer: Sealer, fold: Fold) -> None:
        """Give a sealer its live state, and take the oldest one's away where there are too many."""
        sealer.live = LiveState(fold)
        self._sealers[sealer] = None
        self._sealers.move_to_end(sealer)
        while len(self._sealers) > self._most:
            oldest, _ = self._sealers.popitem(last=False)
            oldest.live = None


def confirm(sealer: Sealer, group: Group) -> None:
    """Bring a sealer's live state forward by a group that was written."""
    if sealer.live is not None and not sealer.live.confirm(group.before.seq, group.texts):
        sealer.live = None
