"""Two ways to act in a `World`, here or in a service: step by step, and by messages."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Protocol

from worldledger.aio import CancelToken, CircuitBreaker, QueueClosedError
from worldledger.client.link import DeltaQueue
from worldledger.client.protocol import Observations, Receipt, World, fitted
from worldledger.client.transport import new_backoff
from worldledger.client.world import completed
from worldledger.deltas import DELTA_VERSION, ObservationDelta, ObservedEvent, View, collapse
from worldledger.effects import SCHEMA_VERSION, Effect
from worldledger.errors import CircuitBreakerOpenError, RecoveryAction, SimulationError, UnknownGenerationError
from worldledger.intents import Accepted
from worldledger.staleness import NOT_GIVEN, stale_by

# -- pumps: one subscription for each agent, shared by everything in this process that reads its observations


class Reader(Protocol):
    """What a pump feeds. Neither method may wait or raise."""

    def take(self, delta: ObservationDelta) -> None:
        """Take the next delta."""
        ...

    def end(self, error: SimulationError | None) -> None:
        """Note that no more deltas arrive: the world was closed, or (``error``) refuses to go on."""
        ...


class Pump:
    """Reads one agent's observations in a world for as long as it has readers. Get it from `Pump.join`.

    ``view_seq`` is that of the last delta that its readers were given.
    """

    def __init__(self, world: World, agent_id: str) -> None:
        self.world = world
        self.agent_id = agent_id
        self.view_seq = 0
        self._readers: dict[Reader, None] = {}
        self._joining = 0
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun.add_done_callback(_retrieve)
        self._task = asyncio.get_running_loop().create_task(self._run())

    @staticmethod
    async def join(world: World, agent_id: str, reader: Reader) -> Pump:
        """Feed a reader from here on, by the pump of its agent; `view_seq` is the seq after which its deltas begin.

        Raises UnknownAgentError, and any other error that prevents observing the agent.
        """
        pump = _PUMPS.get((id(world), agent_id))
        if pump is None:
            pump = _PUMPS[id(world), agent_id] = Pump(world, agent_id)
        pump._joining += 1
        try:
            await asyncio.shield(pump._begun)
            pump._readers[reader] = None
        finally:
            pump._joining -= 1
            pump._end_if_unused()
        return pump

    def leave(self, reader: Reader) -> None:
        """Stop feeding a reader. Leaving twice is harmless."""
        self._readers.pop(reader, None)
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if not self._readers and not self._joining:
            self._forget()
            self._task.cancel()

    def _forget(self) -> None:
        key = (id(self.world), self.agent_id)
        if _PUMPS.get(key) is self:
            del _PUMPS[key]

    async def _run(self) -> None:
        try:
            observations = await self.world.subscribe(self.agent_id)
        except Exception as error:  # noqa: BLE001 - raised where readers join
            self._forget()
            self._begun.set_exception(error)
            return
        except BaseException:
            self._forget()
            self._begun.cancel()
            raise
        try:
            self.view_seq = observations.view_seq
            self._begun.set_result(None)
            await self._feed(observations)
        finally:
            self._forget()
            observations.close()

    async def _feed(self, observations: Observations) -> None:
        ending: SimulationError | None = None
        try:
            while True:
                delta = await observations.get()
                self.view_seq = delta["view_seq"]
                for reader in list(self._readers):
                    reader.take(delta)
        except QueueClosedError:
            pass
        except SimulationError as error:
            ending = error
        self._forget()
        for reader in list(self._readers):
            reader.end(ending)


#: The running pumps, by the identity of their world, which they keep alive.
_PUMPS: Final[dict[tuple[int, str], Pump]] = {}


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()


# -- messages: events of an agent's observations, handed to a handler one after the other, without gaps


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


# -- step by step, as in reinforcement learning (docs/reference/contracts.md, "Facades") ----------------------------


class StepCancelledError(SimulationError):
    """A step was cancelled; details: ``agent_id``, ``req_id``, ``reason``.

    Its intent may have been accepted: the same req_id again would tell.
    """

    code = "step_cancelled"
    recovery = RecoveryAction.REGENERATE

    def __init__(self, agent_id: str, req_id: str, reason: str) -> None:
        what = f"the step {req_id!r} of {agent_id!r} was cancelled: {reason}"
        super().__init__(what, agent_id=agent_id, req_id=req_id, reason=reason)
        self.agent_id = agent_id
        self.req_id = req_id
        self.reason = reason


class _Seen:
    """One agent's deltas on their way to observe() and step()."""

    def __init__(self, most: int) -> None:
        self.deltas = DeltaQueue(most)
        self.view_seq = 0
        #: the view_seq of the newest delta that was handed out
        self.context_seq = 0
        self.digest: str | None = None
        self.pump: Pump | None = None
        self._error: SimulationError | None = None
        self._waiting: dict[asyncio.Future[None], int] = {}

    def take(self, delta: ObservationDelta) -> None:
        self.deltas.put(delta)
        for future, seq in self._waiting.items():
            if delta["view_seq"] >= seq and not future.done():
                future.set_result(None)

    def end(self, error: SimulationError | None) -> None:
        self.deltas.close(error)
        for future in self._waiting:
            if not future.done():
                future.set_exception(error or QueueClosedError())

    async def until(self, seq: int) -> list[ObservationDelta]:
        """Wait for the delta that has an effect, and take it with those before it."""
        if self.pump is not None and self.pump.view_seq < seq:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[future] = seq
            try:
                await future
            finally:
                del self._waiting[future]
        await asyncio.sleep(0)  # a waiting observe() was there first, and may have been woken just now
        taken: list[ObservationDelta] = []
        while (not taken or taken[-1]["view_seq"] < seq) and (due := self.deltas.get_due(1)):
            taken += due
        return taken

    def give(self, delta: ObservationDelta) -> ObservationDelta:
        self.view_seq = delta["view_seq"]
        self.context_seq = max(self.context_seq, self.view_seq)
        self.digest = delta["context_digest"]
        return delta


class RLFacade(AbstractAsyncContextManager["RLFacade"]):
    """Acts step by step: observe, submit an intent, get its outcome.

    The deltas that `observe` and `step` return for an agent are consecutive, beginning after `view`: applying them
    (`worldledger.deltas.apply_delta`) gives the agent's view. If they are not fetched for long, they collapse.
    """

    def __init__(self, world: World, *, max_queued: int = 1000) -> None:
        self.world = world
        self._max_queued = max_queued
        self._seen: dict[str, asyncio.Task[_Seen]] = {}
        self._steps: dict[str, dict[str, CancelToken]] = {}

    async def view(self, agent_id: str) -> View:
        """Return the agent's whole view, as of the deltas returned so far. Raises UnknownAgentError."""
        seen = await self._begin(agent_id)
        view = await self.world.view(agent_id, at_seq=seen.view_seq)
        seen.context_seq = max(seen.context_seq, view.view_seq)
        return view

    async def observe(self, agent_id: str) -> ObservationDelta:
        """Wait for the agent's next observation. Asking for it acknowledges the one before.

        Raises UnknownAgentError, and QueueClosedError once the facade or the world is closed.
        """
        seen = await self._begin(agent_id)
        self.world.acknowledge(agent_id, seen.view_seq)
        return seen.give(await fitted(self.world, agent_id, await seen.deltas.get()))

    async def step(self, agent_id: str, intent: Mapping[str, Any]) -> tuple[Effect, ObservationDelta]:
        """Submit an intent; return its effect, and one delta from the last returned view to the one with the effect.

        ``context_seq`` is the newest view_seq that was returned unless the intent says otherwise; ``req_id`` is random.
        The step is a generation of that req_id, which `cancel_agent_step` and any other process may cancel. Raises as
        `World.submit_intent`, and StepCancelledError.
        """
        seen = await self._begin(agent_id)
        self.world.acknowledge(agent_id, seen.view_seq)
        complete = completed(intent, agent_id, seen.context_seq)
        req_id: str = complete["req_id"]
        token = self.world.issue_cancel_token(
            agent_id,
            req_id,
            complete["context_seq"],
            staleness_threshold=complete.get("staleness_threshold", NOT_GIVEN),
            about=complete.get("about"),
        )
        steps = self._steps.setdefault(agent_id, {})
        steps[req_id] = token
        work = asyncio.get_running_loop().create_task(self._step(seen, complete, token))

        def stop() -> None:
            # The world decides whether a stale step is too late, when it judges the intent.
            if stale_by(token.reason) is None:
                work.cancel()

        token.add_callback(stop)
        try:
            return await work
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if token.cancelled and current is not None and not current.cancelling():
                raise StepCancelledError(agent_id, req_id, token.reason or "cancelled") from None
            raise
        finally:
            token.remove_callback(stop)
            if steps.get(req_id) is token:
                del steps[req_id]
            if not steps:
                self._steps.pop(agent_id, None)

    async def cancel_agent_step(self, agent_id: str, req_id: str | None = None) -> bool:
        """Cancel the agent's steps under way, or the one of a req_id, wherever it runs; return whether there was one.

        A cancelled step raises StepCancelledError.
        """
        steps = self._steps.get(agent_id, {})
        tokens = [token for name, token in list(steps.items()) if req_id in {None, name}]
        for token in tokens:
            token.cancel("user_requested")
        if tokens or req_id is None:
            return bool(tokens)
        known = self.world.generation(agent_id, req_id)
        if known is not None and known.cancelled:
            return False
        try:
            await self.world.cancel_generation(agent_id, req_id)
        except UnknownGenerationError:
            return False
        return True

    def close(self) -> None:
        """Stop observing. Doing it twice is harmless."""
        for task in self._seen.values():
            task.add_done_callback(_leave)
        self._seen.clear()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _step(
        self, seen: _Seen, intent: Mapping[str, Any], token: CancelToken
    ) -> tuple[Effect, ObservationDelta]:
        try:
            accepted = await self.world.submit_intent(intent)
        except SimulationError as error:
            token.cancel(f"refused: {error.code}")
            raise
        except asyncio.CancelledError:
            token.cancel("step_abandoned")
            raise
        if accepted.replayed:
            await self.world.finish_generation(token.agent_id, token.req_id)
        (entry,) = await self.world.event_log.get_entries_since(accepted.global_seq - 1, limit=1)
        deltas = await seen.until(accepted.global_seq)
        if deltas:
            return entry.effect, seen.give(await fitted(self.world, token.agent_id, collapse(deltas)))
        # observe() has returned it already: the view is up to date.
        if seen.digest is None:
            seen.digest = (await self.world.view(token.agent_id, at_seq=seen.view_seq)).context_digest
        nothing = ObservationDelta(
            view_seq=seen.view_seq,
            patches=[],
            context_digest=seen.digest,
            schema_version=DELTA_VERSION,
            events=[],
        )
        return entry.effect, nothing

    async def _begin(self, agent_id: str) -> _Seen:
        task = self._seen.get(agent_id)
        if task is None:
            task = self._seen[agent_id] = asyncio.get_running_loop().create_task(self._start(agent_id))
            task.add_done_callback(lambda done: self._begun(agent_id, done))
        return await asyncio.shield(task)

    def _begun(self, agent_id: str, task: asyncio.Task[_Seen]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._seen.get(agent_id) is task:
            del self._seen[agent_id]  # the next call tries again

    async def _start(self, agent_id: str) -> _Seen:
        seen = _Seen(self._max_queued)
        seen.pump = await Pump.join(self.world, agent_id, seen)
        seen.view_seq = seen.context_seq = seen.pump.view_seq
        return seen


def _leave(task: asyncio.Task[_Seen]) -> None:
    if not task.cancelled() and task.exception() is None:
        seen = task.result()
        if seen.pump is not None:
            seen.pump.leave(seen)
        seen.end(None)


# -- by messages (docs/reference/contracts.md, "Facades") -----------------------------------------------------------


class MessageFacade(AbstractAsyncContextManager["MessageFacade"]):
    """Acts by messages: the events of some kinds that agents observe.

    A message is an effect of any kind that an agent observes as an event: ``Speak``, ``MessageEmitted``, or any other
    that the world's agents agree on. Each arrives exactly once and in order, even if observations had to be collapsed
    or were too large to be sent: those events are read from the log.
    """

    def __init__(self, world: World, *, breaker: Callable[[], CircuitBreaker] = CircuitBreaker) -> None:
        self.world = world
        self._breaker = breaker
        #: the global_seq of the newest message that each agent was handed here
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
        """Write a message into the world as its operator; an agent's own messages go through `World.submit_intent`.

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
        """Submit an intent of an agent that acts by messages; missing members are filled in.

        ``context_seq`` is that of the generation of its req_id if one is under way, and otherwise the newest message
        that was handed to the agent here: before the first one the intent has to name it. Raises as
        `World.submit_intent`.
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
        """Call a handler with every message of these kinds (None: all) that the agent observes from now on.

        With ``after_seq``, first with those that it observed since then. A handler is a function, or returns an
        awaitable; it is called in order, one message after the other. Its errors are logged; after some in a row it is
        not called for a while (the facade's ``breaker`` says how many and how long). Raises UnknownAgentError.
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

        Continue with ``after_seq`` set to the last one's ``global_seq``. Raises UnknownAgentError.
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
        """Wait for the agent's next message of these kinds, at most ``timeout`` seconds, and return it.

        The next is the first to arrive from now on, or the first after ``after_seq``, which may exist already. Raises
        TimeoutError, UnknownAgentError, and the error that ends the observation of the world.
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
        """Close every subscription. Doing it twice is harmless."""
        for subscription in self._subscriptions:
            subscription.close()
        self._subscriptions.clear()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


__all__ = ["MessageFacade", "RLFacade", "StepCancelledError"]
