"""The queue of a reader's deltas."""

from __future__ import annotations

from worldledger.aio import QueueClosedError, TimedQueue
from worldledger.collapsing import collapse
from worldledger.deltas import ObservationDelta
from worldledger.errors import SimulationError


class DeltaQueue:
    """The deltas that wait for a reader, at most ``most``: when there are more, the older half becomes one."""

    def __init__(self, most: int) -> None:
        self._most = max(most, 2)
        self._queue: TimedQueue[ObservationDelta] = TimedQueue()
        self._error: SimulationError | None = None

    def __len__(self) -> int:
        return len(self._queue)

    def put(self, delta: ObservationDelta) -> None:
        """Put the delta that follows those before it."""
        if self._queue.closed:
            return
        self._queue.put_nowait_at(0.0, delta)
        if len(self._queue) > self._most:
            self._queue.merge_oldest(len(self._queue) // 2, collapse)

    async def get(self) -> ObservationDelta:
        """Wait for the next delta. Raises QueueClosedError once it is closed, or the error that closed it."""
        try:
            return await self._queue.get()
        except QueueClosedError:
            if self._error is not None:
                raise self._error from None
            raise

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the waiting deltas. Raises as `get`."""
        try:
            return self._queue.drain_due(limit)
        except QueueClosedError:
            if self._error is not None:
                raise self._error from None
            raise

    def close(self, error: SimulationError | None = None) -> None:
        """Close it; waiting calls are woken."""
        if not self._queue.closed:
            self._error = error
            self._queue.close()
