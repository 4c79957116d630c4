"""Handles: an agent's own interface to the world that it lives in."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson

from worldledger.deltas import ObservationDelta
from worldledger.effects import SCHEMA_VERSION
from worldledger.errors import UnknownGenerationError
from worldledger.staleness import NOT_GIVEN, Threshold

if TYPE_CHECKING:
    from worldledger.aio import CancelToken
    from worldledger.intents import Accepted, Held
    from worldledger.observation import View
    from worldledger_service.runtime.orchestrator import Orchestrator
    from worldledger_service.runtime.subscriptions import Subscription


class AgentHandle:
    """One agent (docs/reference/contracts.md, "Orchestrator and handles"); `Orchestrator.register_agent` gives it.

    ``view_seq`` is that of the last observation that was given out; ``initial_view`` is the view that the first one
    applies to. ``context_seq`` is the newest that the agent was handed through this handle, be it an observation or a
    view: what it does next is made from that.
    """

    def __init__(self, agent_id: str, orchestrator: Orchestrator, subscription: Subscription) -> None:
        self.agent_id = agent_id
        self.orchestrator = orchestrator
        self.view_seq = subscription.view_seq
        self.context_seq = subscription.view_seq
        self.initial_view = None if subscription.view is None else subscription.view.model_copy(deep=True)
        self._subscription = subscription

    async def next_observation(self) -> ObservationDelta:
        """Wait for the next observation. Asking for it acknowledges the one before.

        Raises QueueClosedError once the handle is closed, or another one of the agent was opened.
        """
        self.orchestrator.acknowledge(self.agent_id, self.view_seq)
        delta = await self._subscription.get()
        self.view_seq = delta["view_seq"]
        self.context_seq = max(self.context_seq, self.view_seq)
        # Agents who see the same share what they are shown: a copy is the caller's own to change.
        return ObservationDelta(orjson.loads(orjson.dumps(delta)))

    async def submit_intent(self, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent; what is missing is filled in.

        ``agent_id`` is this agent, ``context_seq`` that of the generation of its req_id if one is under way, and this
        handle's otherwise, ``req_id`` a random one. Raises as `Orchestrator.submit_intent`.
        """
        return await self.orchestrator.submit_intent(self._complete(intent))

    async def hold_intent(self, intent: Mapping[str, Any]) -> Held | Accepted:
        """Hold an intent until the next tick; what is missing is filled in. See `Orchestrator.hold_intent`."""
        return await self.orchestrator.hold_intent(self._complete(intent))

    async def cancel(self, req_id: str) -> None:
        """Cancel a generation of this agent, if there is one of this req_id (reason: ``user_requested``)."""
        with suppress(UnknownGenerationError):
            await self.orchestrator.cancel_generation(self.agent_id, req_id)

    def issue_cancel_token(
        self,
        req_id: str,
        context_seq: int | None = None,
        *,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: Collection[str] | None = None,
    ) -> CancelToken:
        """Begin a generation from what this handle gave out last (`Orchestrator.issue_cancel_token`)."""
        if context_seq is None and self.orchestrator.generation_context(self.agent_id, req_id, here=True) is None:
            context_seq = self.context_seq
        return self.orchestrator.issue_cancel_token(
            self.agent_id, req_id, context_seq, staleness_threshold=staleness_threshold, about=about
        )

    async def view(self, at_seq: int | None = None, *, at: str | None = None) -> View:
        """Return the agent's whole view; see `Orchestrator.view`. The latest one is what it acts from next."""
        view = (await self.orchestrator.view(self.agent_id, at_seq=at_seq, at=at)).model_copy(deep=True)
        if at_seq is None and at in {None, "head"}:
            self.context_seq = max(self.context_seq, view.view_seq)
        return view

    def get_view_seq(self) -> int:
        """Return the view_seq of the last observation that was given out."""
        return self.view_seq

    def close(self) -> None:
        """Return the handle back; the agent stays registered. Doing it twice does no harm."""
        self.orchestrator.acknowledge(self.agent_id, self.view_seq)
        self._subscription.close()
        self.orchestrator.forget_handle(self)

    def _complete(self, intent: Mapping[str, Any]) -> dict[str, Any]:
        """Fill in what an agent may leave out of its own intents."""
        req_id = intent.get("req_id")
        begun = self.orchestrator.generation_context(self.agent_id, req_id) if isinstance(req_id, str) else None
        return {
            "agent_id": self.agent_id,
            "context_seq": self.context_seq if begun is None else begun,
            "req_id": uuid.uuid4().hex,
            "schema_version": SCHEMA_VERSION,
            **intent,
        }
