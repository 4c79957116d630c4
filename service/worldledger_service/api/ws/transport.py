"""The layer below: uvicorn's WebSocket, with limits for clients that do not read, do not answer or do not close.

uvicorn awaits the socket before it sends, and reads on only when what came has been taken: so a slow client holds what
one buffer holds. What is added here is the end of such a connection, which the network alone may never bring.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.http11 import Request

from worldledger_service.api.problems import BadRequestError
from worldledger_service.api.wire import Turns, answer

#: Seconds between two pings; any client answers them by itself.
PING_INTERVAL: Final = 20.0
#: Seconds without a byte from the client, and without one that it took, after which it is given up.
PATIENCE: Final = 60.0
#: Seconds that a client has to close its end: usually, and when the service stops.
_CLOSING: Final = (10.0, 1.0)
#: Seconds that a client which broke the protocol may go on sending, so that it can read why it was closed.
_LINGER: Final = 2.0
#: Seconds between two looks whether the client is there.
_LOOK: Final = 5.0
#: Bytes that the system buffers for one client. What waits there is old by the time that a slow client reads it.
_SEND_BUFFER: Final = 256 * 1024
#: Bytes that are parsed at once. A frame of no content takes as long as one of thousands of bytes, so what is parsed is
#: counted in frames and in such pieces together.
_PIECE_BYTES: Final = 1024
#: After so much of one connection the others have their turn.
_AT_ONCE: Final = 32
#: Unsent bytes at which a client that asks for yet another pong is given up.
_FLOOD: Final = 1024 * 1024

_log = logging.getLogger(__name__)


def socket_protocol(turns: Turns) -> Callable[..., SocketProtocol]:
    """Return what makes the protocols of one server's WebSockets, which share its turns."""
    return partial(SocketProtocol, turns=turns)


class SocketProtocol(WebSocketsSansIOProtocol):
    """One connection that has become a WebSocket."""

    def __init__(self, *arguments: Any, turns: Turns, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._turns = turns
        #: frames that were parsed in this turn; what was read behind them
        self._frames = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take over the connection from HTTP."""
        super().connection_made(transport)
        self.close_timeout = _CLOSING[0]
        self._heard_at = self.loop.time()
        self._unsent = 0
        self._looking: asyncio.TimerHandle | None = None
        with suppress(OSError, AttributeError):
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)

    # -- coming in -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse data, or have it wait until it is this connection's turn and the application has taken the rest."""
        self._heard_at = self.loop.time()
        is_behind = bool(self._rest)
        self._rest += data
        if is_behind or self.read_paused:
            self.transport.pause_reading()
        elif self._turns.left > 0:
            self.take_turn()
        else:
            self._go_on()

    def _go_on(self) -> None:
        """Parse what waits, once there is a turn for it; read on when nothing does."""
        if self._rest:
            self.transport.pause_reading()
            self._turns.wait(self)
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def take_turn(self) -> None:
        """Parse what was read, piece by piece. Behind many frames the rest waits."""
        self._frames = pieces = 0
        left, self._rest = memoryview(self._rest), b""
        while left and self._frames + pieces < _AT_ONCE and not self.transport.is_closing():
            piece, left = bytes(left[:_PIECE_BYTES]), left[_PIECE_BYTES:]
            pieces += 1
            super().data_received(piece)
        self._turns.spend(self._frames + pieces)
        if not self.transport.is_closing():
            self._rest = bytes(left)
        if not self.read_paused:
            self._go_on()
        if not self.handshake_initiated and self.conn.handshake_exc is not None and not self.transport.is_closing():
            self._refuse("")

    async def receive(self) -> Any:
        """Return the next message; what was read behind those that are parsed is parsed once they are taken."""
        message = await self.queue.get()
        if self.read_paused and self.queue.empty():
            self.read_paused = False
            self._go_on()
        return message

    def handle_events(self) -> None:
        """Take what was parsed."""
        self._frames += len(self.conn.events)
        super().handle_events()

    def handle_connect(self, event: Request) -> None:
        """Begin the handshake, or refuse what is none."""
        if self.conn.accept(event).status_code == 101:
            super().handle_connect(event)  # asks once more; nothing is written before the application has agreed
        else:
            self._refuse(event.path)

    def _refuse(self, path: str) -> None:
        reason = f"this is no WebSocket handshake: {self.conn.handshake_exc}"
        _log.debug("%s: %s", self.client, reason)
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        headers = [*self.default_headers, (b"sec-websocket-version", b"13")]
        self.transport.write(answer(BadRequestError(reason), path.partition("?")[0].encode(), headers))
        self.transport.close()

    def handle_cont(self, event: Frame) -> None:
        """Take a further part of a message; empty parts add nothing, and there may be endlessly many."""
        if event.data or event.fin:
            super().handle_cont(event)

    def handle_ping(self) -> None:
        """Answer a ping, unless the client never reads the answers."""
        if self.transport.get_write_buffer_size() > _FLOOD:
            self.transport.abort()
        elif not self.close_sent:
            super().handle_ping()

    def send_receive_event_to_app(self) -> None:
        """Pass on a whole message."""
        if self.curr_msg_data_type == "text" and not _is_utf8(b"".join(self.frames)):
            self.frames = []
            if not self.close_sent:
                self.conn.fail(CloseCode.INVALID_DATA, "a text frame that is not UTF-8")
                self.handle_parser_exception()
            return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        """Close where the client has broken the protocol, and give it the time to read why."""
        if self.close_sent:
            return
        closing = self.conn.close_sent
        self.close_sent = True
        if closing is not None:
            gone = {"type": "websocket.disconnect", "code": closing.code, "reason": closing.reason}
            self.queue.put_nowait(gone)  # type: ignore[arg-type]
        self.transport.write(b"".join(self.conn.data_to_send()))
        if self.read_paused:
            self.read_paused = False
            self.transport.resume_reading()
        self.close_timer = self.loop.call_later(_LINGER, self.transport.close)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    # -- going out -----------------------------------------------------------------------------------------

    async def send(self, message: Any) -> None:
        """Send, once the client has taken what was sent before. Raises ClientDisconnected when it never will."""
        await self.writable.wait()
        if self.disconnected or self.transport.is_closing():
            raise ClientDisconnected
        if self.handshake_complete and self.close_sent:
            raise ClientDisconnected
        await super().send(message)
        if self._rest and not self.read_paused:  # it was closed, and what its client says to that comes behind
            self._go_on()
        if self.initial_response is not None and self.close_sent:
            self.handshake_complete = True  # it was refused, with a whole answer: nothing is missing

    # -- whether it is there -------------------------------------------------------------------------------

    def start_keepalive(self) -> None:
        """Begin to ping, and to watch for answers."""
        super().start_keepalive()
        self._heard_at = self.loop.time()
        self._looking = self.loop.call_later(_LOOK, self._look)

    def stop_keepalive(self) -> None:
        """Ping and watch no longer."""
        super().stop_keepalive()
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None

    def _look(self) -> None:
        now = self.loop.time()
        unsent = self.transport.get_write_buffer_size()
        if unsent < self._unsent:
            self._heard_at = now
        self._unsent = unsent
        if now - self._heard_at > PATIENCE:
            _log.debug("%s neither reads nor answers", self.client)
            self.transport.abort()
        else:
            self._looking = self.loop.call_later(_LOOK, self._look)

    # -- stopping ------------------------------------------------------------------------------------------

    def shutdown(self) -> None:
        """Let the application answer calls under way and close the socket; clients that do not read are cut off."""
        self.close_timeout = _CLOSING[1]
        if self.close_sent:
            self.transport.close()
        self.loop.call_later(_CLOSING[1], self._hurry)

    def _hurry(self) -> None:
        if self.disconnected:
            return
        if self.close_sent or self.transport.is_closing() or not self.writable.is_set():
            self.transport.abort()
        else:
            self.loop.call_later(_CLOSING[1], self._hurry)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
