"""Living in a world by messages. Source: docs/reference/contracts.md, "Facades"."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any

from worldledger.aio import CircuitBreaker, QueueClosedError
from worldledger.client.handle import completed
from worldledger.client.messages import Handler, MessageSubscription, kinds_of
from worldledger.client.protocol import Receipt, World
from worldledger.deltas import ObservedEvent
from worldledger.effects import SCHEMA_VERSION
from worldledger.intents import Accepted


class MessageFacade(AbstractAsyncContextManager["MessageFacade"]):
    """Living by messages: what agents may observe of what happens, as events of some kinds.

    A message is an effect of any kind that an agent observes as an event: ``Speak``, ``MessageEmitted``, whatever the
    world's agents agree on. None is lost and each comes once and in order, also where observations had to be collapsed
    or were too large to be sent: those events are read from the log.
    """

    def __init__(self, world: World, *, breaker: Callable[[], CircuitBreaker] = CircuitBreaker) -> None:
        self.world = world
        self._breaker = breaker
        #: the newest that each agent was handed here
        self._handed: dict[str, int] = {}
        self._subscriptions: set[MessageSubscription] = set()

    async def emit(
        self,
        message_type: str,
        payload: Mapping[str, Any],
        source_id: str,
        *,
        schema_version: str = SCHEMA_VERSION,
        req_id: str | None = None,
    ) -> Receipt:
        """Write a message into the world as its operator; an agent's own words go by `World.submit_intent`.

        Raises as `World.broadcast_event`.
        """
        return await self.world.broadcast_event(
            {
                "kind": message_type,
                "payload": dict(payload),
                "source_id": source_id,
                "schema_version": schema_version,
                "req_id": req_id,
            }
        )

    def context_seq(self, agent_id: str) -> int | None:
        """Return the global_seq of the newest message that was handed to an agent here; None before the first."""
        return self._handed.get(agent_id)

    async def submit_intent(self, agent_id: str, intent: Mapping[str, Any]) -> Accepted:
        """Submit an intent of an agent that lives by messages; what is missing is filled in.

        ``context_seq`` is that of the generation of its req_id if one is under way, and otherwise the newest message
        that was handed to the agent here: before the first it has to name one. Raises as `World.submit_intent`.
        """
        complete = completed(intent, agent_id, self._handed.get(agent_id))
        if "context_seq" not in intent and self.world.generation_context(agent_id, complete["req_id"]) is not None:
            complete["context_seq"] = None
        return await self.world.submit_intent(complete)

    def _hand(self, agent_id: str, events: Sequence[ObservedEvent]) -> None:
        if events:
            self._handed[agent_id] = max(self._handed.get(agent_id, 0), events[-1]["global_seq"])

    async def subscribe(
        self,
        agent_id: str,
        message_types: str | Collection[str] | None,
        handler: Handler,
        *,
        after_seq: int | None = None,
    ) -> MessageSubscription:
        """Have a handler called with every message of these kinds (None: all) that the agent observes from now on.

        With ``after_seq``, first with those that it observed since then. A handler is a function, or gives an
        awaitable; it is called in order, one message after the other. An error of it is logged; after some in a row it
        is left alone for a while (the facade's ``breaker`` says how many and how long). Raises UnknownAgentError.
        """
        subscription = MessageSubscription(
            self.world,
            agent_id,
            kinds_of(message_types),
            handler,
            self._breaker(),
            handed=lambda event: self._hand(agent_id, [event]),
        )
        await subscription.begin(after_seq)
        self._subscriptions = {each for each in self._subscriptions if each.active} | {subscription}
        return subscription

    async def get_messages(
        self,
        agent_id: str,
        message_types: str | Collection[str] | None = None,
        after_seq: int = 0,
        limit: int = 100,
    ) -> list[ObservedEvent]:
        """Return messages of the past that the agent could observe, ascending; at most ``limit``.

        Go on with ``after_seq`` the last one's ``global_seq``. Raises UnknownAgentError.
        """
        found: list[ObservedEvent] = []
        while len(found) < limit:
            events, after_seq = await self.world.observed_events(
                agent_id, after_seq=after_seq, kinds=kinds_of(message_types), limit=limit - len(found)
            )
            found += events
            if not events:
                break
        self._hand(agent_id, found)
        return found

    async def wait_for_message(
        self,
        agent_id: str,
        message_types: str | Collection[str] | None = None,
        timeout: float | None = None,
        *,
        after_seq: int | None = None,
    ) -> ObservedEvent:
        """Wait for the agent's next message of these kinds, at most ``timeout`` seconds, and give it.

        The next is the first to come from now on, or the first after ``after_seq``, which may be there already. Raises
        TimeoutError, UnknownAgentError, and what keeps the world from being observed any further.
        """
        found: asyncio.Future[ObservedEvent] = asyncio.get_running_loop().create_future()

        def handler(event: ObservedEvent) -> None:
            if not found.done():
                found.set_result(event)

        async with asyncio.timeout(timeout):
            subscription = await self.subscribe(agent_id, message_types, handler, after_seq=after_seq)
            try:
                either: list[asyncio.Future[Any]] = [found, subscription.ended]
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            finally:
                subscription.close()
            if found.done():
                return found.result()
            raise subscription.error or QueueClosedError

    def close(self) -> None:
        """Close every subscription. Doing it twice does no harm."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
