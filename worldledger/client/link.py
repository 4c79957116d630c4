"""One agent's link to the service: work that was under way when a connection was lost continues over the next one."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from itertools import count
from typing import Any, Final, NamedTuple, TypeAlias

import orjson
import websockets  # its parts are loaded when a connection is made

from worldledger.aio import CancelToken, QueueClosedError, TimedQueue, running, until_done
from worldledger.client.transport import (
    RemoteError,
    ServiceUnavailableError,
    Transport,
    error_of,
    error_of_answer,
    moment_params,
    new_backoff,
    path_of,
    seconds_to_wait,
)
from worldledger.core_kinds import GENERATION_CANCELLED_KIND, GENERATION_STARTED_KIND
from worldledger.deltas import ObservationDelta, View, collapse, whole
from worldledger.errors import (
    FoldError,
    RateLimitedError,
    RecoveryAction,
    RequestConflictError,
    SimulationError,
    TamperedError,
    UnknownGenerationError,
)
from worldledger.lru import Lru
from worldledger.time_authority import Silence

# -- a WebSocket of the protocol ``worldledger.v1.json`` that reconnects whenever it is lost --------------


PROTOCOL: Final = "worldledger.v1.json"
#: Closing codes by which the service says that this client breaks the protocol: another try would not help.
_REFUSED: Final = frozenset({1002, 1003, 1007, 1008, 1009})
#: Seconds between two checks of whether the service is there, and seconds that its answer may take.
_PING: Final = (10.0, 20.0)
#: Seconds that opening a connection may take (what the agent has missed is worked out first), and closing one.
_OPENING: Final = 60.0
_CLOSING: Final = 2.0

#: Permanent faults of the service: the world itself is damaged.
_FOR_GOOD: Final = (FoldError, TamperedError)

log = logging.getLogger("worldledger.client")


class Connection:
    """Connects to ``address()`` again and again, until it is closed or permanently refused.

    ``took`` is called with each message, ``lost`` for each connection that was lost, ``refused`` (once, at the end)
    with an error that another try would not mend. Messages that are put while there is no connection are dropped: the
    caller of `open_up` sends what is still needed once a new connection can be used.
    """

    def __init__(
        self,
        address: Callable[[], str],
        *,
        took: Callable[[dict[str, Any]], None],
        lost: Callable[[], None],
        refused: Callable[[SimulationError], None],
    ) -> None:
        self._address = address
        self._took = took
        self._lost = lost
        self._refused = refused
        self._usable = False
        self._closing = False
        self._outbox: deque[bytes | None] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())

    def open_up(self) -> None:
        """Note that the service has greeted: messages that are put from here on are sent."""
        self._usable = True

    def put(self, text: bytes) -> None:
        """Send a message, after those put before."""
        if self._usable:
            self._outbox.append(text)
            self._wake.set()

    def close(self) -> None:
        """Close the connection, once the messages put before are sent. Closing twice is harmless."""
        if self._closing:
            return
        self._closing = True
        if self._usable:
            self._outbox.append(None)
            self._wake.set()
        else:
            self._task.cancel()

    async def wait_closed(self) -> None:
        """Wait a short time until the connection is closed."""
        await asyncio.wait([self._task], timeout=_CLOSING)
        self._task.cancel()
        await until_done([self._task])

    async def _run(self) -> None:
        backoff = new_backoff()
        while not self._closing:
            refusal: SimulationError | None = None
            least = 0.0
            try:
                refusal = await self._connect()
            except websockets.InvalidStatus as error:
                refusal = _error(error, self._address())
                if _passes(refusal, error.response.status_code):
                    if isinstance(refusal, RateLimitedError):
                        least = seconds_to_wait(refusal)
                    refusal = None
            except (OSError, websockets.InvalidHandshake, websockets.ConnectionClosed) as error:
                log.debug("%s: %s", self._address(), error)
            finally:
                if self._usable:
                    backoff = new_backoff()
                self._usable = False
                self._outbox.clear()
                self._lost()
            if refusal is not None:
                self._closing = True
                self._refused(refusal)
            elif not self._closing:
                await asyncio.sleep(max(backoff.next(), least))

    async def _connect(self) -> SimulationError | None:
        """Make one connection and use it until it is lost; return the error if it was refused permanently."""
        address = self._address()
        async with websockets.connect(
            address,
            subprotocols=[websockets.Subprotocol(PROTOCOL)],
            compression=None,
            open_timeout=_OPENING,
            ping_interval=_PING[0],
            ping_timeout=_PING[1],
            close_timeout=_CLOSING,
        ) as socket:
            if socket.subprotocol != PROTOCOL:
                return RemoteError(f"{address} does not speak {PROTOCOL}", code="protocol_error")
            try:
                async with running(self._write(socket)):
                    while True:
                        self._took(orjson.loads(await socket.recv(decode=False)))
            except websockets.ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code in _REFUSED:
                    return RemoteError(f"{address} was closed by the service: {closed.rcvd}", code="protocol_error")
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                log.exception("a message of %s", address)
                return RemoteError(f"{address} sent what cannot be understood: {error!r}", code="protocol_error")
        return None

    async def _write(self, socket: websockets.ClientConnection) -> None:
        with suppress(websockets.ConnectionClosed):  # the reading task notices
            while True:
                while self._outbox:
                    text = self._outbox.popleft()
                    if text is None:
                        await socket.close()
                        return
                    await socket.send(text, text=True)
                self._wake.clear()
                await self._wake.wait()


def _error(error: websockets.InvalidStatus, address: str) -> SimulationError:
    """Return the error that a refused handshake reports."""
    response = error.response
    try:
        body = orjson.loads(response.body or b"")
    except orjson.JSONDecodeError:
        body = None
    return error_of_answer(response.status_code, body, address)


def _passes(error: SimulationError, status: int) -> bool:
    """Return whether another try may be answered otherwise."""
    return status in {408, 429} or (status >= 500 and not isinstance(error, _FOR_GOOD))


# -- the queue of a reader's deltas -----------------------------------------------------------------------


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


# -- observations: each once and in order, with skipped ones made up for ------------------------------------------

#: Most observations that are kept while a view is fetched; if more arrive, a later view is fetched instead.
_MOST_HELD: Final = 1000
#: Recoveries of errors after which a view is requested again.
_PASSING: Final = frozenset({RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY, RecoveryAction.DEFER})


class Missing(NamedTuple):
    """Stands for an observation that was too large to be sent: it leads to the agent's view at ``view_seq``."""

    view_seq: int


_Item: TypeAlias = ObservationDelta | Missing


class Stream:
    """One agent's observations, from a view on.

    ``view_seq`` is that of the last observation that was put into ``receive`` (None before the first view has arrived):
    after a lost connection, the next one continues from there. Without a receiver, only ``view_seq`` moves. ``view_at``
    fetches the agent's view at a seq; ``failed`` is called if that cannot be done.
    """

    def __init__(
        self,
        view_seq: int | None,
        *,
        view_at: Callable[[int], Awaitable[View]],
        receive: DeltaQueue | None,
        failed: Callable[[SimulationError], None],
    ) -> None:
        self.view_seq = view_seq
        self.receive = receive
        #: done once it is known where the observations begin: the view there, or None if the reader brought one
        self.begun: asyncio.Future[View | None] = asyncio.get_running_loop().create_future()
        self.begun.add_done_callback(_retrieve)
        #: the view_seq there
        self.began_at = 0
        self._view_at = view_at
        self._failed = failed
        self._fetching: asyncio.Task[None] | None = None
        self._held: deque[_Item] = deque()

    def greeted(self, view_seq: int) -> None:
        """Note where the service begins."""
        if self.view_seq is not None:
            self.view_seq = max(self.view_seq, view_seq)
            self._begin(None)

    def first(self, value: dict[str, Any]) -> None:
        """Take the view that the service begins with."""
        if not self.begun.done():
            view = View.model_validate(value)
            self.view_seq = view.view_seq
            self._begin(view)

    def take(self, item: _Item) -> None:
        """Take the next observation."""
        if self._fetching is not None:
            self._hold(item)
        elif isinstance(item, Missing):
            if self.receive is None:
                self.view_seq = item.view_seq
                self._begin(None)
            else:
                self._fetching = asyncio.get_running_loop().create_task(self._fetch(item))
        else:
            self._give(item)

    def cut(self) -> None:
        """Drop what is under way: the connection is lost, and the next one begins at ``view_seq``."""
        if self._fetching is not None:
            self._fetching.cancel()
            self._fetching = None
        self._held.clear()

    def end(self, error: SimulationError) -> None:
        """End the observations."""
        self.cut()
        if self.receive is not None:
            self.receive.close(error)
        if not self.begun.done():
            self.begun.set_exception(error)

    def _begin(self, view: View | None) -> None:
        if not self.begun.done():
            self.began_at = self.view_seq or 0
            self.begun.set_result(view)

    def _give(self, delta: ObservationDelta) -> None:
        if self.view_seq is not None and delta["view_seq"] <= self.view_seq:
            return
        self.view_seq = delta["view_seq"]
        if self.receive is not None:
            self.receive.put(delta)

    def _hold(self, item: _Item) -> None:
        seq = item.view_seq if isinstance(item, Missing) else item["view_seq"]
        if isinstance(item, Missing) or len(self._held) >= _MOST_HELD:
            self._held.clear()  # the view at the item's seq includes it
            item = Missing(seq)
        self._held.append(item)

    async def _fetch(self, missing: Missing) -> None:
        backoff = new_backoff()
        while True:
            try:
                view = await self._view_at(missing.view_seq)
            except SimulationError as error:
                if error.recovery not in _PASSING:
                    self._fetching = None
                    self._failed(error)
                    return
                await backoff.wait()
                continue
            if self.view_seq is None:
                self.view_seq = view.view_seq
                self._begin(view)
            else:
                # Neither which events are missing is known, nor how many: at most as many as there were effects.
                self._give(whole(view, stands_for=max(view.view_seq - self.view_seq, 1)))
            while self._held:
                item = self._held.popleft()
                if isinstance(item, Missing):
                    missing = item
                    break
                self._give(item)
            else:
                self._fetching = None
                return


def _retrieve(future: asyncio.Future[Any]) -> None:
    """Retrieve the error, so that asyncio does not complain if the future was never awaited."""
    if not future.cancelled():
        future.exception()


# -- generations: the tokens live here, and the service is told of them as often as needed ------------------------

#: Reason of tokens that a stopping service cancels: they are issued again to the service that starts next.
_STOPPED: Final = "orchestrator_closed"

#: The members that are told of a stale generation.
_DETAILS: Final = frozenset({"setting", "staleness_threshold", "interrupt_policy"})


class Generations:
    """The live tokens of one agent's link.

    - ``ask`` sends a message of a type and returns its id
    - ``cancelled`` is called with each token that was cancelled here, so that the service is told
    - ``ended`` is called with each token that has ended
    - ``ended_since`` reads from the log which generations were cancelled after a seq, and why
    - ``submitted`` returns the req_ids of intents that wait for their answer
    """

    def __init__(
        self,
        agent_id: str,
        *,
        ask: Callable[[str, Mapping[str, Any]], int],
        cancelled: Callable[[CancelToken], None],
        ended: Callable[[CancelToken], None],
        ended_since: Callable[[int], Awaitable[Mapping[str, str]]],
        submitted: Callable[[], Collection[str | None]],
    ) -> None:
        self.live: dict[str, CancelToken] = {}
        #: what the service is told of each besides its context
        self._stated: dict[str, Mapping[str, Any]] = {}
        self._agent_id = agent_id
        self._ask = ask
        self._cancelled = cancelled
        self._ended = ended
        self._ended_since = ended_since
        self._submitted = submitted
        #: tokens whose context is where the connection begins
        self._unplaced: set[str] = set()
        self._asked: dict[int, CancelToken] = {}
        self._met = False
        self._resuming: asyncio.Task[None] | None = None

    def issue(self, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None) -> CancelToken:
        """Begin a generation; its token is live at once. The same call again returns the same token.

        Without a context it uses the one at which the connection will begin. ``stated``: what else the service is told
        of it. Raises RequestConflictError if the generation is live with another context.
        """
        token = self.live.get(req_id)
        if token is not None:
            if context_seq not in {None, token.context_seq}:
                what = f"the generation {req_id!r} is under way, from the view at {token.context_seq}"
                raise RequestConflictError(what, req_id=req_id, context_seq=token.context_seq)
            return token
        token = self.live[req_id] = CancelToken(req_id, self._agent_id, context_seq or 0)
        self._stated[req_id] = stated or {}
        token.add_callback(lambda: self._cancelled_here(token))
        if context_seq is None:
            self._unplaced.add(req_id)
        else:
            self._send(token)
        return token

    def over(self, req_id: str) -> bool:
        """Note that a generation has ended; return whether it was live."""
        token = self.live.pop(req_id, None)
        if token is None:
            return False
        self._unplaced.discard(req_id)
        self._stated.pop(req_id, None)
        self._ended(token)
        return True

    def cancel_all(self, reason: str) -> None:
        """Cancel all live generations."""
        for token in list(self.live.values()):
            _cancel(token, reason)

    # -- what the service says -----------------------------------------------------------------------------

    def greeted(self, view_seq: int) -> None:
        """Tell a service that has greeted of the live generations, except for those that it knows to have ended."""
        for req_id in self._unplaced & self.live.keys():
            self.live[req_id].context_seq = view_seq
        self._unplaced.clear()
        self._asked.clear()
        if self._met and self.live:
            self._resuming = asyncio.get_running_loop().create_task(self._resume())
        else:
            self._send_all()
        self._met = True

    def cut(self) -> None:
        """Note that the connection is lost."""
        if self._resuming is not None:
            self._resuming.cancel()

    def cancelled_there(self, req_id: str, reason: str | None, said: Mapping[str, Any] | None = None) -> None:
        """Note that the service has cancelled a generation, and what it ``said`` about that."""
        token = self.live.get(req_id)
        if token is not None and reason != _STOPPED:
            self.over(req_id)
            token.details = {name: value for name, value in (said or {}).items() if name in _DETAILS}
            _cancel(token, reason or "cancelled")

    def answered(self, number: int) -> None:
        """Note that the service knows of a generation."""
        self._asked.pop(number, None)

    def refused(self, number: int, error: SimulationError) -> bool:
        """Cancel the generation that the service refuses; return whether the message was about one."""
        token = self._asked.pop(number, None)
        if token is None:
            return False
        if self.live.get(token.req_id) is token:
            self.over(token.req_id)
            _cancel(token, f"refused: {error.code}")
        return True

    # -- inside --------------------------------------------------------------------------------------------

    async def _resume(self) -> None:
        """Find out what became of the generations while the connection was lost, and issue the live ones again."""
        since = min(token.context_seq for token in self.live.values())
        try:
            ended = await self._ended_since(since)
        except SimulationError as error:
            log.warning("generations of %s are taken for live: %s", self._agent_id, error)
            ended = {}
        for req_id, reason in ended.items():
            self.cancelled_there(req_id, reason)
        self._send_all()

    def _send_all(self) -> None:
        submitted = self._submitted()
        for token in self.live.values():
            if token.req_id not in submitted:  # otherwise it only matters whether the intent is accepted
                self._send(token)

    def _send(self, token: CancelToken) -> None:
        stated = self._stated.get(token.req_id, {})
        number = self._ask("generation", {"req_id": token.req_id, "context_seq": token.context_seq, **stated})
        self._asked[number] = token

    def _cancelled_here(self, token: CancelToken) -> None:
        if self.live.get(token.req_id) is token and self.over(token.req_id):
            self._cancelled(token)


def _cancel(token: CancelToken, reason: str) -> None:
    """Cancel a token; what its owner's callbacks raise is logged, and affects nothing else."""
    try:
        token.cancel(reason)
    except Exception:
        log.exception("a callback of %r failed", token)


#: Largest message either way, in bytes of UTF-8.
MOST_BYTES: Final = 65_536
#: Seconds between two acknowledgements.
_ACK_SECONDS: Final = 0.2


class MessageTooLargeError(Exception):
    """A request that does not fit into a message; it can be sent over HTTP."""


# -- a link --------------------------------------------------------------------------------------------------------


class _Pending(NamedTuple):
    text: bytes
    answer: asyncio.Future[dict[str, Any]]
    #: the intent's req_id, for requests that end a generation
    req_id: str | None


class Link:
    """One agent's connection: its observations, its generations, and requests with their answers.

    It connects by itself, again and again, until it is closed or the service refuses the agent (``error``). Requests
    without an answer are sent again with the same ids and req_ids; live generations are issued again with their
    context. ``ended`` is called with each token that has ended, ``closed`` when the link can no longer be used,
    ``silent`` when the world's time authority has fallen silent.
    """

    def __init__(
        self,
        address: str,
        agent_id: str,
        view_seq: int | None,
        *,
        view_at: Callable[[int], Awaitable[View]],
        receive: DeltaQueue | None,
        ended: Callable[[CancelToken], None],
        ended_since: Callable[[int], Awaitable[Mapping[str, str]]],
        closed: Callable[[Link], None],
        silent: Callable[[Silence], None],
    ) -> None:
        self.agent_id = agent_id
        self.stream = Stream(view_seq, view_at=view_at, receive=receive, failed=self._fail)
        self.error: SimulationError | None = None
        self._address = address
        self._closed = closed
        self._silent = silent
        self._ended = ended
        self._ids = count(1)
        self._pending: dict[int, _Pending] = {}
        self._generations = Generations(
            agent_id,
            ask=self._send,
            cancelled=self._cancel,
            ended=self._generation_ended,
            ended_since=ended_since,
            submitted=lambda: {pending.req_id for pending in self._pending.values()},
        )
        self._acknowledged = 0
        self._acknowledging: asyncio.TimerHandle | None = None
        self._connection = Connection(self._url, took=self._take, lost=self._lost, refused=self._fail)

    # -- requests ------------------------------------------------------------------------------------------

    @property
    def tokens(self) -> Mapping[str, CancelToken]:
        """The live generations by their req_ids."""
        return self._generations.live

    async def request(self, kind: str, *, req_id: str | None = None, **members: Any) -> dict[str, Any]:
        """Send a request and return its answer, however often that needs a new connection.

        ``req_id`` is that of the intent, if the request is one. Raises the error that the service answers,
        ServiceUnavailableError once the link is closed, and MessageTooLargeError.
        """
        return await self._ask(kind, req_id, members)

    def issue(self, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None) -> CancelToken:
        """Begin a generation; its token is live at once. The same call again returns the same token.

        Raises RequestConflictError if it is live with another context.
        """
        if context_seq is None and req_id not in self.tokens:
            context_seq = self.stream.view_seq
        return self._generations.issue(req_id, context_seq, stated)

    def finish(self, req_id: str) -> None:
        """Note that a generation has ended, and tell the service."""
        if self._generations.over(req_id):
            self._post({"type": "finished", "req_id": req_id})

    def acknowledge(self, view_seq: int) -> None:
        """Tell the service, a little later, that the agent has a view."""
        self._acknowledged = max(self._acknowledged, view_seq)
        if self._acknowledging is None:
            self._acknowledging = asyncio.get_running_loop().call_later(_ACK_SECONDS, self._send_acknowledgement)

    # -- its end -------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Note that the observations are no longer read; the link is closed when nothing else needs it."""
        self.stream.receive = None
        self._close_if_idle()

    def close(self) -> None:
        """Close it: generations are cancelled, and requests without an answer fail. Closing twice is harmless."""
        if self.error is not None:
            return
        self._generations.cancel_all("client_closed")
        self._send_acknowledgement()
        if self.stream.receive is not None:
            self.stream.receive.close()
        what = f"the client closed its connection for {self.agent_id!r} before the service answered"
        self._end(ServiceUnavailableError(what, outcome="unknown"))

    async def wait_closed(self) -> None:
        """Wait a short time until the connection is closed."""
        await self._connection.wait_closed()

    def _close_if_idle(self) -> None:
        if self.stream.receive is None and not self.tokens and not self._pending:
            self.close()

    def _fail(self, error: SimulationError) -> None:
        """End it permanently: the service refuses to go on."""
        if self.error is None:
            self._end(error)

    def _end(self, error: SimulationError) -> None:
        self.error = error
        if self._acknowledging is not None:
            self._acknowledging.cancel()
        self._connection.close()
        self.stream.end(error)
        for pending in list(self._pending.values()):
            if not pending.answer.done():
                pending.answer.set_exception(error)
        self._generations.cancel_all("connection_lost")
        self._closed(self)

    # -- what goes out -------------------------------------------------------------------------------------

    def _url(self) -> str:
        seq = self.stream.view_seq
        return self._address if seq is None else f"{self._address}?view_seq={seq}"

    def _ask(self, kind: str, req_id: str | None, members: Mapping[str, Any]) -> asyncio.Future[dict[str, Any]]:
        number = next(self._ids)
        text = orjson.dumps({"type": kind, "id": number, **members})
        if len(text) > MOST_BYTES:
            raise MessageTooLargeError
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if self.error is not None:
            answer.set_exception(self.error)
            return answer
        self._pending[number] = _Pending(text, answer, req_id)
        answer.add_done_callback(lambda _: self._answered(number))
        self._connection.put(text)
        return answer

    def _answered(self, number: int) -> None:
        self._pending.pop(number, None)
        self._close_if_idle()

    def _post(self, message: Mapping[str, Any]) -> None:
        self._connection.put(orjson.dumps(message))

    def _send(self, kind: str, members: Mapping[str, Any]) -> int:
        number = next(self._ids)
        self._post({"type": kind, "id": number, **members})
        return number

    def _send_acknowledgement(self) -> None:
        if self._acknowledging is not None:
            self._acknowledging.cancel()
            self._acknowledging = None
        if self._acknowledged:
            self._post({"type": "ack", "view_seq": self._acknowledged})

    # -- what comes in -------------------------------------------------------------------------------------

    def _take(self, message: dict[str, Any]) -> None:
        """Handle a message; one of a kind that this client does not know is skipped."""
        kind = message.get("type")
        if kind == "observation":
            self.stream.take(ObservationDelta(message["delta"]))
        elif kind == "resync" and "id" not in message:
            self.stream.take(Missing(message["view_seq"]))
        elif kind == "hello":
            self._greeted(message["view_seq"])
        elif kind == "view" and "id" not in message:
            self.stream.first(message["view"])
        elif kind == "cancelled":
            self._generations.cancelled_there(message["req_id"], message.get("reason"), message)
            self._settle(message)
        elif kind in {"rejected", "error"}:
            self._refused(message)
        elif kind == "authority_silent":
            self._silent(Silence(**{name: message[name] for name in Silence._fields}))
        elif kind == "held":  # the answer follows with the tick; the intent is made
            if message.get("req_id") is not None:
                self._generations.over(message["req_id"])
        else:
            if kind == "accepted":
                self._generations.over(message["req_id"])
            self._generations.answered(message.get("id", 0))
            self._settle(message)

    def _greeted(self, view_seq: int) -> None:
        """Send what the service may not have received, or has lost with the connection before."""
        self.stream.greeted(view_seq)
        self._connection.open_up()
        self._generations.greeted(view_seq)
        for pending in self._pending.values():
            self._connection.put(pending.text)
        self._send_acknowledgement()

    def _refused(self, message: Mapping[str, Any]) -> None:
        error = error_of(message.get("problem") or {})
        number = message.get("id", 0)
        pending = self._pending.get(number)
        if pending is not None:
            if not pending.answer.done():
                pending.answer.set_exception(error)
        elif not self._generations.refused(number, error):
            log.warning("the service could not read a message of %s: %s", self.agent_id, error)

    def _settle(self, message: dict[str, Any]) -> None:
        pending = self._pending.get(message.get("id", 0))
        if pending is not None and not pending.answer.done():
            pending.answer.set_result(message)

    # -- generations ---------------------------------------------------------------------------------------

    def _cancel(self, token: CancelToken) -> None:
        self._ask("cancel", None, {"req_id": token.req_id}).add_done_callback(_retrieve)

    def _generation_ended(self, token: CancelToken) -> None:
        self._ended(token)
        asyncio.get_running_loop().call_soon(self._close_if_idle)

    def _lost(self) -> None:
        self._generations.cut()
        self.stream.cut()


# -- the links of one world's agents, and the generations on them -------------------------------------------------

#: Most ended generations that are still remembered, and most effects that are read at once.
_REMEMBERED: Final = 1000
_PAGE: Final = 1000


class Links:
    """Opens links, finds the one to use for an agent, and knows every generation that was begun here."""

    def __init__(self, transport: Transport, world_id: str) -> None:
        self._transport = transport
        self._path = path_of("v1", "worlds", world_id)
        self._links: dict[str, list[Link]] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._ended: Lru[tuple[str, str], CancelToken] = Lru(_REMEMBERED)
        self._listeners: list[Callable[[Silence], None]] = []
        self._silent_seq = 0

    def open(self, agent_id: str, view_seq: int | None = None, receive: DeltaQueue | None = None) -> Link:
        """Open a link whose observations continue after a view (None: from now on, with the view to begin with).

        Raises ServiceUnavailableError once the client is closed.
        """
        self._transport.check_open()
        address = f"ws{self._transport.url.removeprefix('http')}{self._path}{path_of('agents', agent_id, 'ws')}"
        link = Link(
            address,
            agent_id,
            view_seq,
            view_at=lambda seq: self.view(agent_id, seq, None),
            receive=receive,
            ended=self._note_end,
            ended_since=lambda seq: self._ended_since(agent_id, seq),
            closed=self._note_closed,
            silent=self._note_silence,
        )
        self._links.setdefault(agent_id, []).append(link)
        return link

    def of(self, agent_id: str, req_id: str | None = None) -> Link | None:
        """Return the link to use for an agent: the one with this generation if there is one, else any open one."""
        found = self._links.get(agent_id, [])
        return next((link for link in found if req_id in link.tokens), found[0] if found else None)

    async def view(self, agent_id: str, at_seq: int | None, at: str | None) -> View:
        """Fetch an agent's view."""
        params = moment_params(at_seq, at)
        answer = await self._transport.call("GET", f"{self._path}{path_of('agents', agent_id, 'view')}", params=params)
        return View.model_validate(answer.value)

    # -- time ----------------------------------------------------------------------------------------------

    def on_silence(self, listener: Callable[[Silence], None]) -> Callable[[], None]:
        """Register a listener for silences of the time authority; call the result to unregister it."""
        self._listeners.append(listener)

        def remove() -> None:
            if listener in self._listeners:
                self._listeners.remove(listener)

        return remove

    def _note_silence(self, silence: Silence) -> None:
        """Report a silence once, though every link and every new connection says so."""
        if silence.global_seq > self._silent_seq:
            self._silent_seq = silence.global_seq
            for listener in list(self._listeners):
                listener(silence)

    # -- generations ---------------------------------------------------------------------------------------

    def issue(
        self, agent_id: str, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None
    ) -> CancelToken:
        """Begin a generation, over a link of its own if the agent has none."""
        return (self.of(agent_id, req_id) or self.open(agent_id)).issue(req_id, context_seq, stated)

    def context_of(self, agent_id: str, req_id: str) -> int | None:
        """Return the context of a generation, if it is live here and its context is known."""
        token = self._live(agent_id, req_id)
        return None if token is None or not token.context_seq else token.context_seq

    def generation(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation that was begun here; it is remembered for a while after its end."""
        return self._live(agent_id, req_id) or self._ended.get((agent_id, req_id))

    async def cancel(self, agent_id: str, req_id: str, reason: str) -> None:
        """Cancel a generation, wherever it runs; if it does not run here, the reason is ``user_requested``."""
        token = self._live(agent_id, req_id)
        if token is not None:
            token.cancel(reason)
        else:
            await self._transport.call("DELETE", self._generation(agent_id, req_id))

    async def finish(self, agent_id: str, req_id: str) -> bool:
        """Note that a generation has ended; return False if none of that req_id is live."""
        if self._live(agent_id, req_id) is not None:
            self.over(agent_id, req_id)
            return True
        ended = self._ended.get((agent_id, req_id))
        if ended is not None:
            return False
        try:
            answer = await self._transport.call("GET", self._generation(agent_id, req_id))
            if answer.value["cancelled"]:
                return False
            await self._transport.call("POST", f"{self._generation(agent_id, req_id)}/finish")
        except UnknownGenerationError:
            return False
        return True

    def over(self, agent_id: str, req_id: str) -> None:
        """Note that a generation has ended, if it is live here."""
        link = self.of(agent_id, req_id)
        if link is not None:
            link.finish(req_id)

    def _live(self, agent_id: str, req_id: str) -> CancelToken | None:
        return next((link.tokens[req_id] for link in self._links.get(agent_id, []) if req_id in link.tokens), None)

    def _generation(self, agent_id: str, req_id: str) -> str:
        return f"{self._path}{path_of('agents', agent_id, 'generations', req_id)}"

    def _note_end(self, token: CancelToken) -> None:
        key = (token.agent_id, token.req_id)
        self._ended[key] = token

    async def _ended_since(self, agent_id: str, after_seq: int) -> dict[str, str]:
        """Read from the log which of an agent's generations are cancelled, and why; the last effect counts."""
        ended: dict[str, str] = {}
        params: dict[str, Any] = {"source_id": agent_id, "after_seq": after_seq, "limit": _PAGE}
        while params["after_seq"] is not None:
            page = (await self._transport.call("GET", f"{self._path}/effects", params=params)).value
            for effect in page["effects"]:
                req_id = effect["payload"].get("req_id")
                if effect["kind"] == GENERATION_CANCELLED_KIND:
                    ended[req_id] = str(effect["payload"].get("reason"))
                elif effect["kind"] == GENERATION_STARTED_KIND:
                    ended.pop(req_id, None)
            params["after_seq"] = page["next_after_seq"]
        return ended

    # -- their end -----------------------------------------------------------------------------------------

    def _note_closed(self, link: Link) -> None:
        found = self._links.get(link.agent_id, [])
        if link in found:
            found.remove(link)
        if not found:
            self._links.pop(link.agent_id, None)
        task = asyncio.get_running_loop().create_task(link.wait_closed())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all of them."""
        for link in [link for found in self._links.values() for link in found]:
            link.close()
        if self._closing:
            await asyncio.wait(self._closing)
