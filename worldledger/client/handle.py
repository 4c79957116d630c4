"""Handles over the wire: an agent's own interface to a world that lives in a service."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from worldledger.client.link import DeltaQueue
from worldledger.deltas import ObservationDelta, View
from worldledger.effects import SCHEMA_VERSION
from worldledger.staleness import NOT_GIVEN, Threshold

if TYPE_CHECKING:
    from worldledger.aio import CancelToken
    from worldledger.client.link import Link
    from worldledger.client.world import RemoteWorld
    from worldledger.intents import Accepted, Held


class RemoteHandle:
    """One agent (docs/reference/contracts.md, "Orchestrator and handles"). Get it from `RemoteWorld.register_agent`.

    It does what `worldledger_service.runtime.AgentHandle` does, over a WebSocket that reconnects whenever it is lost:
    no observation is missed, and an intent becomes one effect however often it had to be sent.

    ``view_seq`` is that of the last observation that was returned; ``initial_view`` is the view that the first one
    applies to. ``context_seq`` is the newest seq that the agent was handed through this handle, by an observation or a
    view: its next intent is made from that.
    """

    def __init__(self, agent_id: str, world: RemoteWorld, subscription: RemoteSubscription, initial_view: View) -> None:
        self.agent_id = agent_id
        self.world = world
        self.view_seq = subscription.view_seq
        self.context_seq = max(subscription.view_seq, initial_view.view_seq)
        self.initial_view: View | None = initial_view
        self._subscription = subscription

    async def next_observation(self) -> ObservationDelta:
        """Wait for the next observation. Asking for it acknowledges the one before.

        Raises QueueClosedError once the handle is closed, or this client has opened another one for the agent, and the
        error of a service that refuses to go on.
        """
        self.world.acknowledge(self.agent_id, self.view_seq)
        delta = await self._subscription.get()
        self.view_seq = delta["view_seq"]
        self.context_seq = max(self.context_seq, self.view_seq)
        return delta

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; missing members are filled in.

        ``agent_id`` is this agent, ``context_seq`` that of the generation of its req_id if one is under way, and this
        handle's otherwise, ``req_id`` a random one. While the service is away this call waits for it. Raises as
        `RemoteWorld.submit_intent`.
        """
        return await self.world.submit_intent(self._complete(intent))

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; missing members are filled in. See `RemoteWorld.hold_intent`."""
        return await self.world.hold_intent(self._complete(intent))

    async def cancel(self, req_id: str) -> None:
        """Cancel this agent's generation of this req_id, if there is one (reason: ``user_requested``)."""
        token = self.world.generation(self.agent_id, req_id)
        if token is not None:
            token.cancel("user_requested")
        else:
            await self.world.cancel_generation(self.agent_id, req_id)

    def issue_cancel_token(
        self,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Begin a generation from what this handle returned last; see `RemoteWorld.issue_cancel_token`."""
        if context_seq is None and self.world.generation_context(self.agent_id, req_id) is None:
            context_seq = self.context_seq
        return self.world.issue_cancel_token(
            self.agent_id, req_id, context_seq, staleness_threshold=staleness_threshold, about=about, model=model
        )

    async def view(self, at_seq: int | None = None, *, at: str | None = None) -> View:
        """Return the agent's whole view; see `RemoteWorld.view`. If it is the latest, the agent acts from it next."""
        view = await self.world.view(self.agent_id, at_seq=at_seq, at=at)
        if at_seq is None and at in {None, "head"}:
            self.context_seq = max(self.context_seq, view.view_seq)
        return view

    def get_view_seq(self) -> int:
        """Return the view_seq of the last observation that was returned."""
        return self.view_seq

    def close(self) -> None:
        """Close the handle; the agent stays registered. Closing twice is harmless."""
        self.world.acknowledge(self.agent_id, self.view_seq)
        self._subscription.close()
        self.world.forget_handle(self)

    def _complete(self, intent: Mapping[str, Any]) -> dict[str, Any]:
        req_id = intent.get("req_id")
        begun = self.world.generation_context(self.agent_id, req_id) if isinstance(req_id, str) else None
        return completed(intent, self.agent_id, self.context_seq if begun is None else begun)


def completed(intent: Mapping[str, Any], agent_id: str, context_seq: int | None) -> dict[str, Any]:
    """Fill in what an agent may leave out of its own intents."""
    return {
        "agent_id": agent_id,
        "context_seq": context_seq,
        "req_id": uuid.uuid4().hex,
        "schema_version": SCHEMA_VERSION,
        **intent,
    }


# -- subscriptions over the wire: the observations of one agent, for one reader ---------------------------


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
