"""Subscriptions: the observations of one agent, on their way to one reader, in order and in their time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from worldledger.aio import TimedQueue
from worldledger.collapsing import collapse, whole
from worldledger.observation import ObservationDelta, ObservationPolicy, View

if TYPE_CHECKING:
    from worldledger.views import Views


class Subscription:
    """One reader's queue of an agent's deltas. Get it from `Orchestrator.subscribe`; close it when done.

    ``view_seq`` is that of the last delta that was given out (at first, where it begins); ``view`` is the view that
    the first delta applies to, where the reader did not bring one.

    A reader that does not keep up holds no more than ``most`` deltas: then the older half becomes one, which says how
    many it stands for (``collapsed``) and how many of their events it leaves out (``events_dropped``).
    """

    def __init__(
        self,
        agent_id: str,
        view_seq: int,
        view: View | None,
        *,
        most: int,
        source: Callable[[], Views],
        on_close: Callable[[Subscription], None],
    ) -> None:
        self.agent_id = agent_id
        self.view_seq = view_seq
        self.view = view
        #: gives the views that the deltas come from, the agent's being as the one that is put last leaves it
        self.source = source
        self._most = max(most, 2)
        self._on_close = on_close
        self._last_at = 0.0
        self._queue: TimedQueue[ObservationDelta] = TimedQueue()

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, delta: ObservationDelta, deliver_at: float) -> None:
        """Queue a delta that follows those before it, for a time of the event loop's clock, but never before them."""
        self._last_at = deliver_at = max(deliver_at, self._last_at)
        self._queue.put_nowait_at(deliver_at, delta)
        if len(self._queue) > self._most:
            self._collapse()

    def _collapse(self) -> None:
        count = max(len(self._queue) // 2, 2)
        try:
            policy = self.source().policy(self.agent_id)
            if type(policy).calculate_observation_delta is ObservationPolicy.calculate_observation_delta:
                self._queue.merge_oldest(count, collapse)
                return
        except ValueError:
            pass
        # The policy makes patches of its own, which need not be such as can be put together.
        self._queue.merge_oldest(len(self._queue), self._anew)

    def _anew(self, deltas: Sequence[ObservationDelta]) -> ObservationDelta:
        view = self.source().view(self.agent_id).model_copy(update={"view_seq": deltas[-1]["view_seq"]})
        return whole(view, stands_for=sum(delta.get("collapsed", 1) for delta in deltas))

    def clear(self) -> None:
        """Drop what is queued, before anybody has read."""
        self._queue = TimedQueue()
        self._last_at = 0.0

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and give it. Raises QueueClosedError once the subscription is closed."""
        delta = await self._queue.get()
        self.view_seq = delta["view_seq"]
        return delta

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Give the deltas whose time has come, without waiting. Raises QueueClosedError once it is closed."""
        due = self._queue.drain_due(limit)
        if due:
            self.view_seq = due[-1]["view_seq"]
        return due

    def close(self) -> None:
        """Let it go; who waits is told. Doing it twice does no harm."""
        self._queue.close()
        self._on_close(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[ObservationDelta]:
        while True:
            yield await self.get()
