"""Messages: events of an agent's observations, handed to a handler one after the other, without gaps."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Final

from worldledger.aio import CircuitBreaker
from worldledger.client.problems import new_backoff
from worldledger.client.pumps import Pump
from worldledger.deltas import ObservationDelta, ObservedEvent
from worldledger.errors import CircuitBreakerOpenError, SimulationError

if TYPE_CHECKING:
    from worldledger.client.protocol import World

#: Most events that wait for a handler; the rest is read from the log when the handler has caught up.
_MOST_EVENTS: Final = 1000
_PAGE: Final = 100

Handler = Callable[[ObservedEvent], object]

log = logging.getLogger("worldledger.client")


class MessageSubscription:
    """One handler of an agent's messages. Get it from `MessageFacade.subscribe`; close it when done.

    ``position`` is the seq up to which the handler was given everything: passed as ``after_seq``, a later subscription
    continues there. ``handled``, ``failed`` and ``left_out`` count events: those handled, those on which the handler
    raised, and those that it was not given because it had failed too often in a row (its breaker was open).
    """

    def __init__(
        self,
        world: World,
        agent_id: str,
        kinds: frozenset[str] | None,
        handler: Handler,
        breaker: CircuitBreaker,
        *,
        handed: Callable[[ObservedEvent], None] | None = None,
        most: int = _MOST_EVENTS,
    ) -> None:
        self.agent_id = agent_id
        self.position = 0
        self.handled = 0
        self.failed = 0
        self.left_out = 0
        self.breaker = breaker
        #: the error that has ended it, if it was not closed
        self.error: SimulationError | None = None
        self._world = world
        self._kinds = kinds
        self._handler = handler
        #: called with each event that is about to be handed to the handler
        self._handed = handed
        self._most = most
        self._waiting: deque[ObservedEvent] = deque()
        #: whether the log has events, up to the pump's view_seq, that do not wait here
        self._behind = False
        self._over = False
        self._wake = asyncio.Event()
        self._pump: Pump | None = None
        self._task: asyncio.Task[None] | None = None
        #: done when the handler is given no more events
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def begin(self, after_seq: int | None) -> None:
        """Begin with what arrives from now on, or with what came after a seq."""
        self._pump = await Pump.join(self._world, self.agent_id, self)
        self.position = self._pump.view_seq if after_seq is None else after_seq
        self._behind = self._behind or self.position < self._pump.view_seq
        self._task = asyncio.get_running_loop().create_task(self._run(self._pump))
        self._task.add_done_callback(lambda _: self.ended.set_result(None))

    @property
    def active(self) -> bool:
        """True as long as the handler is given events."""
        return not self._over

    def close(self) -> None:
        """Stop calling the handler; a call that runs is cancelled. Closing twice is harmless."""
        self._over = True
        self._waiting.clear()
        if self._pump is not None:
            self._pump.leave(self)
        if self._task is not None and self._task is not asyncio.current_task():
            self._task.cancel()

    # -- called by the pump --------------------------------------------------------------------------------

    def take(self, delta: ObservationDelta) -> None:
        """Take the events of a delta; those that do not fit, or were left out of it, are read from the log later."""
        self._wake.set()
        if self._behind or delta.get("events_dropped"):
            self._behind = True
            return
        wanted = [event for event in delta["events"] if self._kinds is None or event["kind"] in self._kinds]
        if len(self._waiting) + len(wanted) > self._most:
            self._behind = True
        else:
            self._waiting.extend(wanted)

    def end(self, error: SimulationError | None) -> None:
        """Note that no more events arrive; waiting ones are still handled."""
        self._over = True
        self.error = error
        self._wake.set()

    # -- the handler ---------------------------------------------------------------------------------------

    async def _run(self, pump: Pump) -> None:
        while True:
            while self._waiting:
                await self._handle(self._waiting.popleft())
            if self._over:
                return
            if self._behind:
                await self._catch_up(pump)
            else:
                self._wake.clear()
                await self._wake.wait()

    async def _catch_up(self, pump: Pump) -> None:
        backoff = new_backoff()
        while self.position < pump.view_seq and not self._over:
            try:
                events, through = await self._world.observed_events(
                    self.agent_id,
                    after_seq=self.position,
                    until_seq=pump.view_seq,
                    kinds=self._kinds,
                    limit=_PAGE,
                )
            except SimulationError as error:
                log.warning("messages of %s are read again later: %s", self.agent_id, error)
                await backoff.wait()
                continue
            for event in events:
                await self._handle(event)
            self.position = max(self.position, through)
        self._behind = False  # nothing was awaited since this was checked

    async def _handle(self, event: ObservedEvent) -> None:
        if event["global_seq"] <= self.position:
            return
        self.position = event["global_seq"]
        if self._handed is not None:
            self._handed(event)
        try:
            await self.breaker.call(self._call, event)
        except CircuitBreakerOpenError:
            self.left_out += 1
        except Exception:
            self.failed += 1
            log.exception("the handler %r failed on message %d of %s", self._handler, self.position, self.agent_id)
            if self.breaker.state == "OPEN":
                log.warning("the handler %r has failed too often: it is left alone for a while", self._handler)
        else:
            self.handled += 1

    async def _call(self, event: ObservedEvent) -> None:
        result = self._handler(event)
        if inspect.isawaitable(result):
            await result


def kinds_of(message_types: str | Collection[str] | None) -> frozenset[str] | None:
    """Return the kinds that are meant: one by its name, several, or all (None)."""
    if message_types is None:
        return None
    return frozenset({message_types} if isinstance(message_types, str) else message_types)
