"""Queues with timed delivery. Source: docs/reference/contracts.md, "Timed queues".

One timer is set for the earliest item, so an item that is put later with an earlier time is not late, and waiting calls
are served in order.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, TypeVar

from worldledger.errors import QueueClosedError

T = TypeVar("T")

#: Shortest and longest sleep, in seconds. A timer may fire a little early by the queue's clock: without the shortest
#: sleep, the loop would spin until then. Some event loops cannot take an infinite sleep.
_SLEEP: Final = (0.001, 3600.0)


class TimedQueue(Generic[T]):
    """Items that become due at given times, in seconds of ``clock`` (the event loop's own unless given).

    An item is never given out before its time. Of the items that are due, the one with the earliest time comes first,
    and of those with the same time the one put first. Nothing is lost when a ``get`` is cancelled, and waiting calls
    are served in their order. The queue has no bound of its own: the producer watches its length, and can
    `merge_oldest`.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, T]] = []
        self._puts = 0
        #: futures of the waiting gets; only the first is ever woken, and it wakes the next
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def closed(self) -> bool:
        """True once it has been closed."""
        return self._closed

    @property
    def next_at(self) -> float | None:
        """The time at which the next item becomes due; None if the queue is empty."""
        return self._heap[0][0] if self._heap else None

    # -- putting -------------------------------------------------------------------------------------------

    async def put_at(self, deliver_at: float, item: T) -> None:
        """Put an item that becomes due at ``deliver_at``; never waits (see `put_nowait_at`)."""
        self.put_nowait_at(deliver_at, item)

    def put_nowait_at(self, deliver_at: float, item: T) -> None:
        """Put an item that becomes due at ``deliver_at``; a time in the past means at once.

        Raises ValueError if that is not a number, and QueueClosedError if the queue is closed.
        """
        if self._closed:
            raise QueueClosedError
        if math.isnan(deliver_at):
            raise ValueError("deliver_at is not a number")
        self._puts += 1
        heapq.heappush(self._heap, (deliver_at, self._puts, item))
        if self._waiters and self._heap[0][1] == self._puts:  # only a new first item changes who is woken when
            self._arrange()

    def merge_oldest(self, count: int, merge: Callable[[Sequence[T]], T]) -> None:
        """Replace the ``count`` next items, due or not, by the one that ``merge`` makes of them, in their order.

        The new item takes the place and the time of the last of them, so none is given out early. If ``merge`` raises,
        the queue stays as it was. Nothing happens with fewer than two items.
        """
        count = min(count, len(self._heap))
        if count < 2:
            return
        merged = [heapq.heappop(self._heap) for _ in range(count)]
        deliver_at, put, _ = merged[-1]
        try:
            merged = [(deliver_at, put, merge([item for _, _, item in merged]))]
        finally:
            for entry in merged:
                heapq.heappush(self._heap, entry)

    # -- getting -------------------------------------------------------------------------------------------

    async def get(self) -> T:
        """Wait until the next item is due, and take it. Does not yield to the loop if it is due and no call waits.

        Raises QueueClosedError if the queue is closed, now or while waiting.
        """
        if self._closed:
            raise QueueClosedError
        if not self._waiters and self._is_due():
            return heapq.heappop(self._heap)[2]
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            while True:
                self._arrange()
                await waiter
                if self._closed:
                    raise QueueClosedError
                if self._is_due():
                    # Nothing is awaited from here on, so an item that is taken is also returned.
                    return heapq.heappop(self._heap)[2]
                # The queue was drained meanwhile, or the timer was early: wait on, still as the first.
                waiter = self._waiters[0] = loop.create_future()
        finally:
            if not self._closed:
                self._waiters.remove(waiter)
                self._arrange()

    def peek_due(self) -> T | None:
        """Return the next item if it is due, without taking it."""
        return self._heap[0][2] if self._is_due() else None

    def drain_due(self, limit: int | None = None) -> list[T]:
        """Take the items that are due, at most ``limit``, in their order; never waits.

        Raises QueueClosedError if the queue is closed.
        """
        if self._closed:
            raise QueueClosedError
        now = self._now()
        taken: list[T] = []
        while self._heap and self._heap[0][0] <= now and (limit is None or len(taken) < limit):
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def close(self) -> None:
        """Close the queue: its items are dropped, waiting calls raise QueueClosedError. Closing again does nothing."""
        self._closed = True
        self._heap.clear()
        self._stop_timer()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    # -- waking --------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= self._now()

    def _arrange(self) -> None:
        """Make sure that the first waiter is woken when the first item is due."""
        if not self._waiters or not self._heap:
            self._stop_timer()
            return
        deliver_at = self._heap[0][0]
        now = self._now()
        if deliver_at <= now:
            self._stop_timer()
            if not self._waiters[0].done():
                self._waiters[0].set_result(None)
        elif self._timer is None or self._timer_at != deliver_at:
            self._stop_timer()
            loop = asyncio.get_running_loop()
            ahead = 0.0 if self._clock is None else loop.time() - now  # how far the loop's clock is ahead of ours
            shortest, longest = _SLEEP
            when = min(max(deliver_at, now + shortest), now + longest) + ahead
            self._timer = loop.call_at(when, self._on_timer)
            self._timer_at = deliver_at

    def _on_timer(self) -> None:
        self._timer = None
        self._arrange()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
