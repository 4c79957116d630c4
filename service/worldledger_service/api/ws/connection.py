"""One open socket, from its first message to its close: what its client sends, and what it is sent."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import structlog
from starlette.types import Receive, Send

from worldledger.aio import QueueClosedError, first_of
from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD, json_name, read_word
from worldledger.errors import InvalidEffectError, InvalidIntentError, MomentNotFoundError, SimulationError
from worldledger.intents import Accepted, Held
from worldledger.moments import UnreadableMomentError, parse_moment
from worldledger.staleness import NOT_GIVEN, Threshold, check_about, check_threshold
from worldledger.time_authority import WALL, TimeAuthority
from worldledger_service.api.agents_of_worlds import PATIENCE, delta_of, view_of
from worldledger_service.api.intents import accepted_of, check_list, check_ordered, count_refusal, results_of
from worldledger_service.api.problems import InternalError, InvalidMessageError, enclosed_problem
from worldledger_service.api.routing import segment
from worldledger_service.api.ws.messages import (
    SUBPROTOCOL,
    Message,
    MessageId,
    UnreadableError,
    read,
    write,
    write_problem,
    write_results,
)
from worldledger_service.store.holding import TickReceipt

if TYPE_CHECKING:
    from worldledger.aio import CancelToken
    from worldledger.observation import ObservationDelta, View
    from worldledger.time_authority import Silence
    from worldledger_service.api.context import Services
    from worldledger_service.runtime import Orchestrator, Subscription
    from worldledger_service.store import Receipt


# -- messages to the client of a socket, one frame for each -----------------------------------------------


class Outgoing:
    """Sends to one agent's client. Each call waits until the client has taken the messages before.

    A client that has left is sent nothing more; the reading task notices that. ``context_seq`` is the newest that the
    client was sent here, as an observation or the latest view.
    """

    def __init__(self, send: Send, world_id: str, agent_id: str, instance: str) -> None:
        self.agent_id = agent_id
        self.instance = instance
        self.context_seq = 0
        self._send = send
        self._world_id = world_id

    async def accept(self) -> None:
        """Open the socket."""
        await self._send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL, "headers": []})

    async def close(self, code: int, reason: str) -> None:
        """Close the socket (codes: RFC 6455, section 7.4)."""
        try:
            await self._send({"type": "websocket.close", "code": code, "reason": reason})
        except OSError:
            return

    async def text(self, text: str) -> None:
        """Send a message that is written already."""
        try:
            await self._send({"type": "websocket.send", "text": text})
        except OSError:
            return

    async def tell(self, kind: str, message_id: MessageId = None, /, **body: Any) -> None:
        """Send a message that is short."""
        await self.text(_short(kind, message_id, **body))

    async def problem(self, kind: str, message_id: MessageId, error: SimulationError, /, **body: Any) -> None:
        """Send a message that tells of an error."""
        await self.text(write_problem(kind, message_id, enclosed_problem(error, self.instance), **body))

    def hand_out(self, view_seq: int) -> None:
        """Note a view_seq that the client is sent; it never decreases."""
        self.context_seq = max(self.context_seq, view_seq)

    async def view(self, view: View, message_id: MessageId = None, *, latest: bool = True) -> None:
        """Send a view, the agent's ``latest`` or one of the past, or where to read it."""
        if latest:
            self.hand_out(view.view_seq)
        text = write("view", message_id, view=view_of(view))
        await self.text(text or self._resync(message_id, view.view_seq, view.context_digest))

    async def observation(self, delta: ObservationDelta) -> None:
        """Send an observation, or where to read the view after it."""
        self.hand_out(delta["view_seq"])
        text = write("observation", delta=delta_of(delta))
        await self.text(text or self._resync(None, delta["view_seq"], delta["context_digest"]))

    def _resync(self, message_id: MessageId, view_seq: int, context_digest: str) -> str:
        place = f"/v1/worlds/{self._world_id}/agents/{segment(self.agent_id)}/view?at_seq={view_seq}"
        return _short("resync", message_id, view_seq=view_seq, context_digest=context_digest, url=place)


def _short(kind: str, message_id: MessageId, /, **body: Any) -> str:
    text = write(kind, message_id, **body)
    assert text is not None  # noqa: S101 - whatever stands in it has a limit of its own
    return text


# -- handling the messages of a client --------------------------------------------------------------------


#: Intents of one socket that are under way at once; beyond, nothing more is read.
IN_FLIGHT: Final = 256
#: Generations of one socket whose end is reported; a client that ends them elsewhere has no more of them.
_MOST_WATCHED: Final = 1000

log = structlog.get_logger("worldledger.api")


class Taker:
    """Takes the messages of one socket, in their order.

    Nothing waits for what becomes of an intent: each has a task of its own that answers it, up to IN_FLIGHT at once.
    """

    def __init__(self, found: Services, world: Orchestrator, out: Outgoing) -> None:
        self._found = found
        self._metrics = found.metrics
        self._world = world
        self._out = out
        self._agent_id = out.agent_id
        self._in_flight = 0
        self._room = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: an adapter that this socket has spoken for, with the last that was accepted: a tick, or its taking over
        self.heard: TimeAuthority | None = None
        self._heard_seq = 0
        #: those that wait for a tick
        self._held: set[asyncio.Task[None]] = set()
        #: tokens of generations that were begun on this socket, and what they call when they are cancelled
        self._tokens: dict[str, tuple[CancelToken, Callable[[], None]]] = {}
        self._handlers: Mapping[str, Callable[[Message], Awaitable[None]]] = {
            "intent": self._intent,
            "intents": self._intents,
            "ack": self._ack,
            "generation": self._generation,
            "cancel": self._cancel,
            "finished": self._finished,
            "tick": self._tick,
            "authority": self._take_over,
            "close_tick": self._close_tick,
            "view": self._view,
            "ping": self._ping,
        }

    async def take(self, message: Message) -> None:
        """Handle one message. Raises UnreadableError for values that its type cannot have, and SimulationError."""
        await self._handlers[message.type](message)

    async def settle(self, timeout: float | None = None) -> None:
        """Wait until everything that was taken has been answered."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=timeout)

    def let_go(self) -> None:
        """Leave the generations that were begun here to themselves."""
        for token, callback in self._tokens.values():
            token.remove_callback(callback)
        self._tokens.clear()
        for task in self._held:
            task.cancel()

    async def _begin(self, weight: int, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside reading on, once there is room for it; a list of intents weighs as much as they do."""
        weight = min(weight, IN_FLIGHT)
        try:
            while self._in_flight + weight > IN_FLIGHT:
                self._room.clear()
                await self._room.wait()
        except asyncio.CancelledError:
            work.close()
            raise
        self._in_flight += weight

        def done(task: asyncio.Task[None]) -> None:
            self._in_flight -= weight
            self._room.set()

        self.start(work).add_done_callback(done)

    def start(self, work: Coroutine[Any, Any, None], *, held: bool = False) -> asyncio.Task[None]:
        """Do something beside reading on, whatever else is under way.

        What is ``held`` waits for a tick: when the socket ends, its answer is not waited for.
        """
        task = asyncio.get_running_loop().create_task(work)
        tasks = self._held if held else self._tasks
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            log.error("a message could not be answered", path=self._out.instance, exc_info=task.exception())

    # -- intents -------------------------------------------------------------------------------------------

    async def _intent(self, message: Message) -> None:
        await self._begin(1, self._submit(message.id, self._in_context(message.body["intent"])))

    async def _submit(self, message_id: MessageId, intent: Any, held: Held | None = None) -> None:
        """Submit an intent and tell what became of it; of one that is ``held``, what its tick has decided.

        Until then nothing of it counts as under way: what closes the tick may come over this very socket.
        """
        try:
            if held is not None:
                accepted: Held | Accepted = await self._world.decision(held)
            elif self._world.holds_intents:
                accepted = await self._world.hold_intent(self._own(intent))
            else:
                accepted = await self._world.submit_intent(self._own(intent))
        except SimulationError as error:
            await self._reject(message_id, error, intent)
        except Exception:
            log.exception("unforeseen error", path=self._out.instance)
            await self._reject(message_id, InternalError("see the traceback"), intent)
        else:
            if isinstance(accepted, Held):
                self._tokens.pop(accepted.req_id, None)
                await self._out.tell("held", message_id, **accepted._asdict())
                self.start(self._submit(message_id, intent, accepted), held=True)
                return
            self._metrics.intents_accepted(1)
            self._tokens.pop(accepted.req_id, None)
            await self._out.tell("accepted", message_id, **accepted_of(self._agent_id, accepted))

    async def _intents(self, message: Message) -> None:
        try:
            intents, atomic = check_list(message.body, self._found.settings.max_unit, ("ordered", "type", "id"))
            ordered = check_ordered(message.body)
        except InvalidIntentError as error:
            raise _unreadable(message, error.reason, error.path) from None
        placed = [self._in_context(intent) for intent in intents]
        await self._begin(len(intents), self._submit_all(message.id, placed, atomic=atomic, ordered=ordered))

    async def _submit_all(self, message_id: MessageId, intents: list[Any], *, atomic: bool, ordered: bool) -> None:
        try:
            refused: dict[int, SimulationError] = {}
            for index, intent in enumerate(intents):
                try:
                    self._own(intent)
                except InvalidIntentError as error:
                    if atomic:
                        raise error.at(index) from None
                    refused[index] = error
            own = [intent for index, intent in enumerate(intents) if index not in refused]
            if self._world.holds_intents:
                answers = await self._world.hold_intents(own, atomic=atomic, ordered=ordered)
                held = [each for each in answers if isinstance(each, Held)]
                if held:
                    told = {"agent_id": self._agent_id, "req_id": None, "tick": held[0].tick, "count": len(held)}
                    await self._out.tell("held", message_id, **told)
                    self.start(self._decide_all(message_id, intents, refused, answers, atomic=atomic), held=True)
                    return
            else:
                answers = [*await self._world.submit_intents(own, atomic=atomic)]
        except SimulationError as error:
            await self._reject(message_id, error)
        except Exception:
            log.exception("unforeseen error", path=self._out.instance)
            await self._reject(message_id, InternalError("see the traceback"))
        else:
            await self._decide_all(message_id, intents, refused, answers, atomic=atomic)

    async def _decide_all(
        self,
        message_id: MessageId,
        intents: list[Any],
        refused: Mapping[int, SimulationError],
        answers: Sequence[Held | Accepted | SimulationError],
        *,
        atomic: bool,
    ) -> None:
        """Send the outcome of each intent of a list, once the tick has decided the held ones."""
        try:
            if any(isinstance(each, Held) for each in answers):
                answers = await self._world.decisions(answers, atomic=atomic)
        except SimulationError as error:
            await self._reject(message_id, error)
        except Exception:
            log.exception("unforeseen error", path=self._out.instance)
            await self._reject(message_id, InternalError("see the traceback"))
        else:
            decided = iter(answers)
            results = [refused.get(index) or next(decided) for index in range(len(intents))]
            for result in results:
                if isinstance(result, Accepted):
                    self._tokens.pop(result.req_id, None)
            told = results_of(intents, results, self._found, self._world, self._out.instance)
            for text in write_results(message_id, told):
                await self._out.text(text)

    def _in_context(self, intent: Any) -> Any:
        """Return an intent with what it was made from, unless it says so itself.

        That is the context of the generation that it ends, if one is under way, and this session's otherwise.
        """
        if not isinstance(intent, dict) or "context_seq" in intent:
            return intent
        req_id = intent.get("req_id")
        begun = self._world.generation_context(self._agent_id, req_id) if isinstance(req_id, str) else None
        return {**intent, "context_seq": self._out.context_seq if begun is None else begun}

    def _own(self, intent: Any) -> Any:
        """Return an intent with the agent's id filled in; raise InvalidIntentError if it is another's."""
        if isinstance(intent, dict) and intent.setdefault("agent_id", self._agent_id) != self._agent_id:
            what = f"this is the socket of {self._agent_id!r}; it takes no other agent's intents"
            raise InvalidIntentError(what, "$.agent_id")
        return intent

    async def _reject(self, message_id: MessageId, error: SimulationError, intent: Any = None) -> None:
        count_refusal(self._found, self._world, error)
        req_id = intent.get("req_id") if isinstance(intent, dict) else None
        if not isinstance(req_id, str) or len(req_id) > MAX_WORD:
            req_id = None
        await self._out.problem("rejected", message_id, error, req_id=req_id)

    # -- generations ---------------------------------------------------------------------------------------

    async def _generation(self, message: Message) -> None:
        req_id = _req_id(message)
        try:
            context_seq = _check_context_seq(message.body.get("context_seq"))
            threshold, about, model = _check_stated(message.body)
        except InvalidEffectError as error:
            raise _unreadable(message, error.reason, error.path) from None
        if context_seq is not None:
            await self._world.reached(context_seq, PATIENCE)
        elif self._world.generation_context(self._agent_id, req_id, here=True) is None:
            context_seq = self._out.context_seq
        token = self._world.issue_cancel_token(
            self._agent_id, req_id, context_seq, staleness_threshold=threshold, about=about, model=model
        )
        await self._out.tell("generation", message.id, req_id=req_id, context_seq=token.context_seq)
        watched = self._tokens.get(req_id)
        if watched is not None and watched[0] is token:
            return

        def cancelled() -> None:
            self._tokens.pop(req_id, None)
            self.start(self._out.tell("cancelled", req_id=req_id, reason=token.reason, **token.details))

        if len(self._tokens) >= _MOST_WATCHED:
            self._unwatch(next(iter(self._tokens)))
        self._tokens[req_id] = (token, cancelled)
        token.add_callback(cancelled)

    async def _cancel(self, message: Message) -> None:
        req_id = _req_id(message)
        self._unwatch(req_id)
        await self._world.cancel_generation(self._agent_id, req_id)
        token = self._world.generation(self._agent_id, req_id)
        reason = "user_requested" if token is None else token.reason
        await self._out.tell("cancelled", message.id, req_id=req_id, reason=reason)

    async def _finished(self, message: Message) -> None:
        req_id = _req_id(message)
        self._unwatch(req_id)
        await self._world.finish_generation(self._agent_id, req_id)

    def _unwatch(self, req_id: str) -> None:
        watched = self._tokens.pop(req_id, None)
        if watched is not None:
            watched[0].remove_callback(watched[1])

    # -- everything else -----------------------------------------------------------------------------------

    async def _ack(self, message: Message) -> None:
        view_seq = message.body["view_seq"]
        if type(view_seq) is not int or not 0 <= view_seq <= MAX_INT:
            raise _unreadable(message, "view_seq is that of an observation", "$.view_seq")
        self._world.acknowledge(self._agent_id, view_seq)

    async def _tick(self, message: Message) -> None:
        try:
            adapter, sim_time = _check_tick(message.body)
        except InvalidEffectError as error:
            raise _unreadable(message, error.reason, error.path) from None
        await self._begin(1, self._move_time(message.id, adapter, lambda: self._world.tick(adapter, sim_time)))

    async def _close_tick(self, message: Message) -> None:
        source = message.body["source"]
        if type(source) is not str:
            raise _unreadable(message, "source is a name", "$.source")
        await self._begin(1, self._move_time(message.id, source, lambda: self._world.close_tick(source)))

    async def _move_time(
        self, message_id: MessageId, adapter: str, tick: Callable[[], Awaitable[Receipt | TickReceipt]]
    ) -> None:
        try:
            receipt = await tick()
        except SimulationError as error:
            await self._out.problem("rejected", message_id, error, req_id=None)
        else:
            self._hear(TimeAuthority(adapter, last_tick_seq=receipt.global_seq), receipt.global_seq)
            await self._accept(message_id, receipt)

    async def _accept(self, message_id: MessageId, receipt: Receipt | TickReceipt) -> None:
        told = {"global_seq": receipt.global_seq, "uuid": receipt.uuid, "replayed": receipt.replayed}
        if isinstance(receipt, TickReceipt):
            told |= {"tick": receipt.tick, "accepted": receipt.accepted, "refused": receipt.refused}
        await self._out.tell("accepted", message_id, agent_id=self._agent_id, req_id=None, **told)

    async def _take_over(self, message: Message) -> None:
        authority, zero = message.body["authority"], message.body.get("zero")
        if type(authority) is not str:
            raise _unreadable(message, f"authority is a name, not {json_name(authority)}", "$.authority")
        await self._begin(1, self._set_authority(message.id, authority, zero))

    async def _set_authority(self, message_id: MessageId, authority: str, zero: Any) -> None:
        try:
            receipt = await self._world.set_sim_time_authority(authority, zero=zero, force=False)
        except SimulationError as error:
            await self._out.problem("rejected", message_id, error, req_id=None)
        else:
            named = WALL if authority == "none" else authority
            self._hear(TimeAuthority(named, since_seq=receipt.global_seq), receipt.global_seq)
            await self._accept(message_id, receipt)

    def _hear(self, heard: TimeAuthority, seq: int) -> None:
        """Note the message that was sent here for an adapter, if it is the latest; answers come in any order."""
        if seq > self._heard_seq:
            self.heard, self._heard_seq = heard, seq

    async def _view(self, message: Message) -> None:
        at_seq = message.body.get("at_seq")
        if at_seq is not None and (type(at_seq) is not int or not 1 <= at_seq <= MAX_INT):
            raise _unreadable(message, "at_seq is a global_seq, or null", "$.at_seq")
        at = message.body.get("at")
        if at is not None:
            if type(at) is not str:
                raise _unreadable(message, "at is a moment, such as step:5, or null", "$.at")
            if at_seq is not None:
                raise _unreadable(message, "at contradicts at_seq; give one of them", "$.at")
            try:
                parse_moment(at)
            except UnreadableMomentError as error:
                raise _unreadable(message, str(error), "$.at") from None
        await self._begin(1, self._show(message.id, at_seq, at))

    async def _show(self, message_id: MessageId, at_seq: int | None, at: str | None) -> None:
        try:
            view = await self._world.view(self._agent_id, at_seq=at_seq, at=at)
        except MomentNotFoundError as error:
            # How far the log goes is not for agents: of a unit the error would tell its last.
            told = error if at is None else MomentNotFoundError(f"there is no moment {at} in this world")
            await self._out.problem("error", message_id, told)
        except SimulationError as error:
            await self._out.problem("error", message_id, error)
        else:
            await self._out.view(view, message_id, latest=at_seq is None and at in {None, "head"})

    async def _ping(self, message: Message) -> None:
        await self._out.tell("pong", message.id)


def _unreadable(message: Message, reason: str, path: str) -> UnreadableError:
    return UnreadableError(InvalidMessageError(reason, path), message.id)


def _req_id(message: Message) -> str:
    try:
        return read_word(message.body, "req_id")
    except InvalidEffectError as error:
        raise _unreadable(message, error.reason, error.path) from None


# -- reading --------------------------------------------------------------------------------------------------


def _check_context_seq(value: Any) -> int | None:
    """Return a context_seq back if it is one, or None. Raises InvalidEffectError."""
    if value is not None and (type(value) is not int or not 0 <= value <= MAX_INT):
        raise InvalidEffectError("context_seq is the global_seq of a view, or null", "$.context_seq")
    return value


def _check_stated(body: Mapping[str, Any]) -> tuple[Threshold, frozenset[str], dict[str, Any] | None]:
    """Return a generation's own threshold, if it has one, what it is about, and by what model it is made.

    Raises InvalidEffectError.
    """
    about, model = check_about(body.get("about")), body.get("model")
    if model is not None and type(model) is not dict:
        raise InvalidEffectError(f"model is an object, not {json_name(model)}", "$.model")
    threshold = check_threshold(body["staleness_threshold"]) if "staleness_threshold" in body else NOT_GIVEN
    return threshold, about, model


def _check_tick(body: Mapping[str, Any]) -> tuple[str, float]:
    """Return adapter and sim_time of a tick, if they are of the right types. Raises InvalidEffectError."""
    sim_time = body["sim_time"]
    if type(sim_time) is not float and type(sim_time) is not int:
        raise InvalidEffectError(f"sim_time is a number of seconds, not {json_name(sim_time)}", "$.sim_time")
    return _named(body, "adapter"), sim_time


def _named(body: Mapping[str, Any], name: str) -> str:
    if type(body[name]) is not str:
        raise InvalidEffectError(f"{name} is a name, not {json_name(body[name])}", f"$.{name}")
    found: str = body[name]
    return found


#: Messages in a row that cannot be read, after which the socket is closed.
MOST_UNREADABLE: Final = 100
#: Messages after which others on the event loop have their turn, and deltas that are taken at a stretch.
_AT_ONCE: Final = 64


class _CloseError(Exception):
    """The socket is to be closed (codes: RFC 6455, section 7.4)."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class Connection:
    """Serves one agent over one socket: one task reads, another sends observations, and each intent has its own.

    Each sender waits for the client. So if the client does not read, its own messages stay unread too, and its
    observations are merged in their Subscription; no other client is held up.
    """

    def __init__(
        self,
        found: Services,
        world: Orchestrator,
        subscription: Subscription,
        receive: Receive,
        out: Outgoing,
    ) -> None:
        self._found = found
        self._world = world
        self._subscription = subscription
        self._receive = receive
        self._out = out
        self._taker = Taker(found, world, out)
        #: ends that this socket is told of the time authority's silence
        self._untell: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Open the socket, and serve until either side closes it."""
        self._found.metrics.socket(1)
        try:
            await self._out.accept()
            await self._greet()
            await self._serve()
        finally:
            self._found.metrics.socket(-1)
            self._subscription.close()
            self._taker.let_go()
            self._untell()
            await self._taker.settle()  # what was asked for is done, also for a client that has left
            heard = self._taker.heard
            if heard is not None and not self._found.stopping.is_set():
                # The adapter has gone; where it is the service that goes, it will come again.
                self._world.authority_disconnected(heard.name, heard.last_tick_seq, heard.since_seq)

    def _tell_silence(self, silence: Silence) -> None:
        self._taker.start(self._out.tell("authority_silent", **silence._asdict()))

    async def _greet(self) -> None:
        view_seq = self._subscription.view_seq
        self._out.hand_out(view_seq)
        await self._out.tell(
            "hello",
            world_id=self._world.world_id,
            agent_id=self._out.agent_id,
            view_seq=view_seq,
            protocol=SUBPROTOCOL,
        )
        if self._subscription.view is not None:
            await self._out.view(self._subscription.view)
        self._untell = self._world.on_authority_silent(self._tell_silence)
        silence = self._world.authority_silent
        if silence is not None:
            await self._out.tell("authority_silent", **silence._asdict())

    async def _serve(self) -> None:
        reading, observing, _ = await first_of(self._read(), self._observe(), self._found.stopping.wait())
        for task in (reading, observing):
            error = None if task is None else task.exception()
            if isinstance(error, _CloseError):
                await self._out.close(error.code, error.reason)
                return
            if error is not None:
                log.error("a socket broke off", path=self._out.instance, exc_info=error)
                await self._out.close(1011, "an internal error; the service's log says more")
                return
        if reading is None:  # the service stops: calls that are under way are answered first
            await self._taker.settle(self._found.settings.append_deadline)
            await self._out.close(1012, "the service is stopping; come again")

    async def _observe(self) -> None:
        """Send observations as they are due."""
        while True:
            try:
                async with asyncio.timeout(self._found.keepalive):
                    deltas = [await self._subscription.get()]
                deltas += self._subscription.get_due(_AT_ONCE)
            except TimeoutError:
                if self._world.broken:
                    raise _CloseError(1011, "the world can no longer be followed") from None
                continue
            except QueueClosedError:
                raise _CloseError(1012, "the world is being closed; come again") from None
            for delta in deltas:
                await self._out.observation(delta)
                self._found.metrics.observed(1)

    async def _read(self) -> None:
        """Take messages until the client leaves."""
        unreadable = taken = 0
        while True:
            event = await self._receive()
            if event["type"] == "websocket.disconnect":
                return
            text = event.get("text")
            if text is None:
                raise _CloseError(1003, "messages are text frames")
            try:
                message = read(text)
                await self._taker.take(message)
                unreadable = 0
            except UnreadableError as error:
                unreadable += 1
                await self._out.problem("error", error.message_id, error.error)
            except SimulationError as error:
                unreadable = 0
                await self._out.problem("error", message.id, error)
            if unreadable >= MOST_UNREADABLE:
                raise _CloseError(1008, f"{unreadable} messages in a row could not be read")
            taken += 1
            if taken % _AT_ONCE == 0:
                await asyncio.sleep(0)
