"""Subscriptions: the observations of one agent, on their way to one reader, in order and in their time."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import orjson

from worldledger.aio import TimedQueue
from worldledger.collapsing import collapse, replacing, whole
from worldledger.observation import ObservationDelta, ObservationPolicy, View

if TYPE_CHECKING:
    from worldledger.views import Views


#: Bytes of effects whose deltas may be queued for one reader.
_MOST_BYTES: Final = 8 * 1024 * 1024


class _TooLongError(Exception):
    """A patch that deltas were put together to has too many operations."""


class _Queued(NamedTuple):
    delta: ObservationDelta
    size: int


class Subscription:
    """One reader's queue of an agent's deltas. Get it from `Orchestrator.subscribe`; close it when done.

    ``view_seq`` is that of the last delta that was returned (at first, where it begins); ``view`` is the view that the
    first delta applies to, if the reader did not bring one.

    A reader that does not keep up holds no more than ``most`` deltas: then the older half is merged into one, which
    says how many it stands for (``collapsed``) and how many of their events it leaves out (``events_dropped``). If its
    patch would have more than ``max_patch_ops`` operations, the whole queue becomes one delta that replaces the view.
    """

    def __init__(
        self,
        agent_id: str,
        view_seq: int,
        view: View | None,
        *,
        most: int,
        max_patch_ops: int | None = None,
        source: Callable[[], Views],
        on_close: Callable[[Subscription], None],
    ) -> None:
        self.agent_id = agent_id
        self.view_seq = view_seq
        self.view = view
        #: gives the views that the deltas come from, the agent's being as the one that is put last leaves it
        self.source = source
        self._most = max(most, 2)
        self._max_patch_ops = sys.maxsize if max_patch_ops is None else max_patch_ops
        self._on_close = on_close
        self._last_at = 0.0
        self._queue: TimedQueue[_Queued] = TimedQueue()
        #: bytes of the effects whose deltas are queued, or of what they have collapsed into
        self.size = 0

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, delta: ObservationDelta, deliver_at: float, size: int = 0) -> None:
        """Queue a delta that follows those before it, for a time of the event loop's clock, but never before them.

        ``size`` is that of the effect that made it, in bytes.
        """
        self._last_at = deliver_at = max(deliver_at, self._last_at)
        self._queue.put_nowait_at(deliver_at, _Queued(delta, size))
        self.size += size
        if len(self._queue) > self._most or (self.size > _MOST_BYTES and len(self._queue) > 1):
            self._collapse()

    def _collapse(self) -> None:
        count = max(len(self._queue) // 2, 2) if self.size <= _MOST_BYTES else len(self._queue)
        try:
            policy = self.source().policy(self.agent_id)
            if type(policy).calculate_observation_delta is ObservationPolicy.calculate_observation_delta:
                try:
                    self._queue.merge_oldest(count, self._merge)
                except _TooLongError:
                    self._queue.merge_oldest(len(self._queue), self._replace)
                return
        except ValueError:
            pass
        # The policy makes patches of its own, which need not be such as can be put together.
        self._queue.merge_oldest(len(self._queue), self._anew)

    def _merge(self, queued: Sequence[_Queued]) -> _Queued:
        delta = collapse([each.delta for each in queued])
        if len(delta.patches) > self._max_patch_ops:
            raise _TooLongError
        return self._instead(queued, delta)

    def _replace(self, queued: Sequence[_Queued]) -> _Queued:
        """Replace the queue by one delta with all its events, and the view after it instead of patches."""
        view = self.source().view(self.agent_id)
        patch = replacing(view.visible_entities, view.visible_relationships)
        return self._instead(queued, ObservationDelta(collapse([each.delta for each in queued]), patches=patch))

    def _anew(self, queued: Sequence[_Queued]) -> _Queued:
        last = queued[-1].delta["view_seq"]
        view = self.source().view(self.agent_id).model_copy(update={"view_seq": last})
        return self._instead(queued, whole(view, stands_for=sum(each.delta.get("collapsed", 1) for each in queued)))

    def _instead(self, queued: Sequence[_Queued], delta: ObservationDelta) -> _Queued:
        size = len(orjson.dumps(delta))
        self.size += size - sum(each.size for each in queued)
        return _Queued(delta, size)

    def clear(self) -> None:
        """Drop what is queued, before anybody has read."""
        self._queue = TimedQueue()
        self.size = 0
        self._last_at = 0.0

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and give it. Raises QueueClosedError once the subscription is closed."""
        delta, size = await self._queue.get()
        self.size -= size
        self.view_seq = delta["view_seq"]
        return delta

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the deltas whose time has come, without waiting. Raises QueueClosedError once it is closed."""
        drained = self._queue.drain_due(limit)
        self.size -= sum(each.size for each in drained)
        due = [each.delta for each in drained]
        if due:
            self.view_seq = due[-1]["view_seq"]
        return due

    def close(self) -> None:
        """Close it; a waiting reader is told. Closing twice does no harm."""
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
