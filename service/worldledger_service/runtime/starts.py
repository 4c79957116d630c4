"""Starts: states of one world a little behind its head, from which the views of agents that come are begun."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from worldledger.folding import Fold
    from worldledger_service.store import Store

#: Most effects by which the state that is kept is folded forward; over more, a snapshot is the shorter way.
_APART: Final = 1000
#: Seconds for which it is kept after it was used.
_KEPT_SECONDS: Final = 5.0


class Starts:
    """Returns folds. Where many agents come at once, one state is read from the database, and copied for each."""

    def __init__(self, store: Store, world_id: str) -> None:
        self._store = store
        self._world_id = world_id
        self._kept: Fold | None = None
        self._lock = asyncio.Lock()
        self._forgetting: asyncio.TimerHandle | None = None

    async def fold(self, seq: int) -> Fold:
        """Return a fold of one's own at a seq. Raises as `States.fold_at`."""
        async with self._lock:
            kept = self._kept
            if kept is not None and kept.seq > seq:
                return await self._store.states.fold_at(self._world_id, seq)
            self._kept = None  # it is of no use any more where something goes wrong
            if kept is None or seq - kept.seq > _APART:
                kept = await self._store.states.fold_at(self._world_id, seq)
            elif kept.seq < seq:
                batches = self._store.reader.batches(self._world_id, after_seq=kept.seq, until_seq=seq)
                async with aclosing(batches):
                    async for batch in batches:
                        await self._store.aside.run(partial(kept.feed, batch))
            copy = await self._store.aside.run(kept.copy)
            self._kept = kept
            self._forget_later()
            return copy

    def close(self) -> None:
        """Keep nothing."""
        self._kept = None
        if self._forgetting is not None:
            self._forgetting.cancel()

    def _forget_later(self) -> None:
        if self._forgetting is not None:
            self._forgetting.cancel()
        self._forgetting = asyncio.get_running_loop().call_later(_KEPT_SECONDS, self.close)
