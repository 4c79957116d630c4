"""A WebSocket of the protocol ``worldledger.v1.json`` that reconnects whenever it is lost."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.typing import Subprotocol

from worldledger.client.problems import RemoteError, error_of_answer, new_backoff, seconds_to_wait
from worldledger.errors import FoldError, RateLimitedError, SimulationError, TamperedError

PROTOCOL: Final = Subprotocol("worldledger.v1.json")
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
        await asyncio.wait([self._task])

    async def _run(self) -> None:
        backoff = new_backoff()
        while not self._closing:
            refusal: SimulationError | None = None
            least = 0.0
            try:
                refusal = await self._connect()
            except InvalidStatus as error:
                refusal = _error(error, self._address())
                if _passes(refusal, error.response.status_code):
                    if isinstance(refusal, RateLimitedError):
                        least = seconds_to_wait(refusal)
                    refusal = None
            except (OSError, InvalidHandshake, ConnectionClosed) as error:
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
        async with connect(
            address,
            subprotocols=[PROTOCOL],
            compression=None,
            open_timeout=_OPENING,
            ping_interval=_PING[0],
            ping_timeout=_PING[1],
            close_timeout=_CLOSING,
        ) as socket:
            if socket.subprotocol != PROTOCOL:
                return RemoteError(f"{address} does not speak {PROTOCOL}", code="protocol_error")
            writer = asyncio.get_running_loop().create_task(self._write(socket))
            try:
                while True:
                    self._took(orjson.loads(await socket.recv(decode=False)))
            except ConnectionClosed as closed:
                if closed.rcvd is not None and closed.rcvd.code in _REFUSED:
                    return RemoteError(f"{address} was closed by the service: {closed.rcvd}", code="protocol_error")
            except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
                log.exception("a message of %s", address)
                return RemoteError(f"{address} sent what cannot be understood: {error!r}", code="protocol_error")
            finally:
                writer.cancel()
                await asyncio.wait([writer])
        return None

    async def _write(self, socket: ClientConnection) -> None:
        with suppress(ConnectionClosed):  # the reading task notices
            while True:
                while self._outbox:
                    text = self._outbox.popleft()
                    if text is None:
                        await socket.close()
                        return
                    await socket.send(text, text=True)
                self._wake.clear()
                await self._wake.wait()


def _error(error: InvalidStatus, address: str) -> SimulationError:
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
