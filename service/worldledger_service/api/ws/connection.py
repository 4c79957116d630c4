"""One open socket, from its first message to its close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog
from starlette.types import Receive

from worldledger.aio import QueueClosedError, first_of
from worldledger.errors import SimulationError
from worldledger_service.api.ws.messages import SUBPROTOCOL, UnreadableError, read
from worldledger_service.api.ws.outgoing import Outgoing
from worldledger_service.api.ws.taking import Taker

if TYPE_CHECKING:
    from worldledger.time_authority import Silence
    from worldledger_service.api.context import Services
    from worldledger_service.runtime import Orchestrator, Subscription

#: Messages in a row that cannot be read, after which the socket is closed.
MOST_UNREADABLE: Final = 100
#: Messages after which others on the event loop have their turn, and deltas that are taken at a stretch.
_AT_ONCE: Final = 64

log = structlog.get_logger("worldledger.api")


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
