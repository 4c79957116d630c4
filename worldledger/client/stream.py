"""The observations that come over one link: in order, each once, with what was left out made up for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from worldledger.client.pauses import Pauses
from worldledger.client.queueing import DeltaQueue
from worldledger.collapsing import whole
from worldledger.deltas import ObservationDelta, View
from worldledger.errors import RecoveryAction, SimulationError

#: Most observations that are kept while a view is fetched; if more come, a later view is fetched instead.
_MOST_HELD: Final = 1000
#: Recoveries of errors after which a view is asked for again.
_PASSING: Final = frozenset({RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY, RecoveryAction.DEFER})


class Missing(NamedTuple):
    """An observation that was too large to be sent: it leads to the agent's view at ``view_seq``."""

    view_seq: int


_Item: TypeAlias = ObservationDelta | Missing


class Stream:
    """One agent's observations, from a view on.

    ``view_seq`` is that of the last one that was put into ``receive`` (None before the first view has come): a
    connection that was lost is followed by one that goes on from there. Without a receiver, only ``view_seq`` moves.
    ``view_at`` fetches the agent's view at a seq; ``failed`` is told if that cannot be done.
    """

    def __init__(
        self,
        view_seq: int | None,
        *,
        view_at: Callable[[int], Awaitable[View]],
        receive: DeltaQueue | None,
        failed: Callable[[SimulationError], None],
    ) -> None:
        self.view_seq = view_seq
        self.receive = receive
        #: done once it is known where the observations begin: the view there, or None where the reader brought one
        self.begun: asyncio.Future[View | None] = asyncio.get_running_loop().create_future()
        self.begun.add_done_callback(_retrieve)
        #: the view_seq there
        self.began_at = 0
        self._view_at = view_at
        self._failed = failed
        self._fetching: asyncio.Task[None] | None = None
        self._held: deque[_Item] = deque()

    def greeted(self, view_seq: int) -> None:
        """Take note of where the service begins."""
        if self.view_seq is not None:
            self.view_seq = max(self.view_seq, view_seq)
            self._begin(None)

    def first(self, value: dict[str, Any]) -> None:
        """Take the view that the service begins with."""
        if not self.begun.done():
            view = View.model_validate(value)
            self.view_seq = view.view_seq
            self._begin(view)

    def take(self, item: _Item) -> None:
        """Take the next observation."""
        if self._fetching is not None:
            self._hold(item)
        elif isinstance(item, Missing):
            if self.receive is None:
                self.view_seq = item.view_seq
                self._begin(None)
            else:
                self._fetching = asyncio.get_running_loop().create_task(self._fetch(item))
        else:
            self._give(item)

    def cut(self) -> None:
        """Forget what is under way: the connection is lost, and the next one begins at ``view_seq``."""
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
        self._held.clear()

    def end(self, error: SimulationError) -> None:
        """Take note that nothing comes any more."""
        self.cut()
        if self.receive is not None:
            self.receive.close(error)
        if not self.begun.done():
            self.begun.set_exception(error)

    def _begin(self, view: View | None) -> None:
        if not self.begun.done():
            self.began_at = self.view_seq or 0
            self.begun.set_result(view)

    def _give(self, delta: ObservationDelta) -> None:
        if self.view_seq is not None and delta["view_seq"] <= self.view_seq:
            return
        self.view_seq = delta["view_seq"]
        if self.receive is not None:
            self.receive.put(delta)

    def _hold(self, item: _Item) -> None:
        seq = item.view_seq if isinstance(item, Missing) else item["view_seq"]
        if isinstance(item, Missing) or len(self._held) >= _MOST_HELD:
            self._held.clear()  # the view at the item's seq has it all
            item = Missing(seq)
        self._held.append(item)

    async def _fetch(self, missing: Missing) -> None:
        pauses = Pauses()
        while True:
            try:
                view = await self._view_at(missing.view_seq)
            except SimulationError as error:
                if error.recovery not in _PASSING:
                    self._fetching = None
                    self._failed(error)
                    return
                await asyncio.sleep(pauses.next())
                continue
            if self.view_seq is None:
                self.view_seq = view.view_seq
                self._begin(view)
            else:
                # Which events are missing is not known, nor how many: no more than there were effects.
                self._give(whole(view, stands_for=max(view.view_seq - self.view_seq, 1)))
            while self._held:
                item = self._held.popleft()
                if isinstance(item, Missing):
                    missing = item
                    break
                self._give(item)
            else:
                self._fetching = None
                return


def _retrieve(future: asyncio.Future[View | None]) -> None:
    """Look at the error, so that asyncio does not complain where nobody waits for the beginning."""
    if not future.cancelled():
        future.exception()
