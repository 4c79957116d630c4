"""Subscriptions over the wire: the observations of one agent, for one reader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from worldledger.client.queueing import DeltaQueue
from worldledger.deltas import ObservationDelta, View

if TYPE_CHECKING:
    from worldledger.client.link import Link


class RemoteSubscription:
    """One reader's queue of an agent's deltas, over a connection of its own. Get it from `RemoteWorld.subscribe`.

    ``view_seq`` is that of the last delta that was returned (at first, where it begins); ``view`` is the view that the
    first delta applies to, if the reader did not bring one. Lost connections are replaced, and missed observations
    arrive too; an observation too large for a message arrives as the whole view. A reader that does not keep up holds
    no more than ``most`` deltas (`worldledger.collapsing`). ``fitted`` is called with each delta before it is returned,
    and may replace it by the whole view.
    """

    def __init__(
        self, agent_id: str, *, most: int, fitted: Callable[[ObservationDelta], Awaitable[ObservationDelta]]
    ) -> None:
        self.agent_id = agent_id
        self._fitted = fitted
        self.view_seq = 0
        self.view: View | None = None
        self.deltas = DeltaQueue(most)
        self._link: Link | None = None

    async def begin(self, link: Link) -> None:
        """Wait until it is known where the observations begin. Raises the service's error if it refuses."""
        self._link = link
        try:
            self.view = await link.stream.begun
        except BaseException:
            self.close()
            raise
        # What has arrived since then waits in the queue.
        self.view_seq = link.stream.began_at

    async def get(self) -> ObservationDelta:
        """Wait for the next delta and return it.

        Raises QueueClosedError once the subscription is closed, and the error of a service that refuses to go on.
        """
        delta = await self._fitted(await self.deltas.get())
        self.view_seq = delta["view_seq"]
        return delta

    def get_due(self, limit: int | None = None) -> list[ObservationDelta]:
        """Return the deltas that have arrived, without waiting. Raises as `get`."""
        due = self.deltas.get_due(limit)
        if due:
            self.view_seq = due[-1]["view_seq"]
        return due

    def close(self) -> None:
        """End the subscription; waiting calls are woken. Closing twice is harmless."""
        self.deltas.close()
        if self._link is not None:
            self._link.release()
            self._link = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aiter__(self) -> AsyncIterator[ObservationDelta]:
        while True:
            yield await self.get()
