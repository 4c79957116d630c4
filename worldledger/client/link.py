"""One agent's link to the service: what was under way when a connection was lost goes on over the next one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from typing import Any, Final, NamedTuple

import orjson

from worldledger.aio import CancelToken
from worldledger.client.connection import Connection
from worldledger.client.generations import Generations
from worldledger.client.problems import ServiceUnavailableError, error_of
from worldledger.client.queueing import DeltaQueue
from worldledger.client.stream import Missing, Stream
from worldledger.deltas import ObservationDelta, View
from worldledger.errors import SimulationError
from worldledger.time_authority import Silence

#: Largest message either way, in bytes of UTF-8.
MOST_BYTES: Final = 65_536
#: Seconds between two acknowledgements.
_ACK_EVERY: Final = 0.2

log = logging.getLogger("worldledger.client")


class MessageTooLargeError(Exception):
    """A request that does not fit into a message; it can be made over HTTP."""


class _Pending(NamedTuple):
    text: bytes
    answer: asyncio.Future[dict[str, Any]]
    #: the intent's req_id, for requests that end a generation
    req_id: str | None


class Link:
    """One agent's connection: its observations, its generations, and requests with their answers.

    It connects by itself, again and again, until it is closed or the service refuses the agent (``error``). Requests
    without an answer are sent again with the same ids and req_ids; live generations are issued again with their
    context. ``ended`` is told of each token that is live no longer, ``closed`` when the link is of no more use,
    ``silent`` when the world's time authority is not heard any more.
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

    # -- what can be asked of it ---------------------------------------------------------------------------

    @property
    def tokens(self) -> Mapping[str, CancelToken]:
        """The generations that are live, by their req_ids."""
        return self._generations.live

    async def request(self, kind: str, *, req_id: str | None = None, **members: Any) -> dict[str, Any]:
        """Send a request and give its answer, however often the connection has to be made for it.

        ``req_id`` is that of the intent, if it is one. Raises what the service answers, ServiceUnavailableError once
        the link is closed, and MessageTooLargeError.
        """
        return await self._ask(kind, req_id, members)

    def issue(self, req_id: str, context_seq: int | None, stated: Mapping[str, Any] | None = None) -> CancelToken:
        """Begin a generation; its token is live at once. The same again gives the same token.

        Raises RequestConflictError where it is live with another context.
        """
        if context_seq is None and req_id not in self.tokens:
            context_seq = self.stream.view_seq
        return self._generations.issue(req_id, context_seq, stated)

    def finish(self, req_id: str) -> None:
        """Take note that a generation has come to its end, and tell the service."""
        if self._generations.over(req_id):
            self._post({"type": "finished", "req_id": req_id})

    def acknowledge(self, view_seq: int) -> None:
        """Tell the service, a little later, that the agent has a view."""
        self._acknowledged = max(self._acknowledged, view_seq)
        if self._acknowledging is None:
            self._acknowledging = asyncio.get_running_loop().call_later(_ACK_EVERY, self._send_acknowledgement)

    # -- its end -------------------------------------------------------------------------------------------

    def release(self) -> None:
        """Take note that nobody reads the observations; the link is closed when nothing else needs it."""
        self.stream.receive = None
        self._close_if_idle()

    def close(self) -> None:
        """Close it: generations are cancelled, and requests without an answer fail. Doing it twice does no harm."""
        if self.error is not None:
            return
        self._generations.cancel_all("client_closed")
        self._send_acknowledgement()
        if self.stream.receive is not None:
            self.stream.receive.close()
        what = f"the client closed its connection for {self.agent_id!r} before the service answered"
        self._end(ServiceUnavailableError(what, outcome="unknown"))

    async def wait_closed(self) -> None:
        """Wait until the connection is closed, but not for long."""
        await self._connection.wait_closed()

    def _close_if_idle(self) -> None:
        if self.stream.receive is None and not self.tokens and not self._pending:
            self.close()

    def _fail(self, error: SimulationError) -> None:
        """End it for good: the service has nothing more to do with it."""
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
        """Take a message; one of a kind that this client does not know is passed over."""
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
        """Send what the service may not have got, or has lost with the connection before."""
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
        self._ask("cancel", None, {"req_id": token.req_id}).add_done_callback(_look)

    def _generation_ended(self, token: CancelToken) -> None:
        self._ended(token)
        asyncio.get_running_loop().call_soon(self._close_if_idle)

    def _lost(self) -> None:
        self._generations.cut()
        self.stream.cut()


def _look(answer: asyncio.Future[dict[str, Any]]) -> None:
    """Look at the answer's error, for nobody waits for it: the generation was over already."""
    if not answer.cancelled():
        answer.exception()
