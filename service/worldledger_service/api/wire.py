"""The lowest layer: what may come over a connection, counted on its bytes before a request is whole.

What is no HTTP, too large or too slow is refused with a problem like everything else, though no application ever sees
it. uvicorn has settings for none of this.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, cast

import httptools
from starlette.types import Message, Receive, Scope, Send
from uvicorn._types import ASGI3Application
from uvicorn.config import Config
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from worldledger.errors import OverloadedError, SimulationError
from worldledger_service.api.edge import counted_as
from worldledger_service.api.problems import (
    BadRequestError,
    BodyTooLargeError,
    HeaderTooLargeError,
    RequestTooSlowError,
    TransferCodingError,
    problem_response,
)
from worldledger_service.api.streaming import HALF_CLOSED
from worldledger_service.settings import MIB, Settings

# -- how much is done at once ----------------------------------------------------------------------------------
#
# A turn is one pass of the event loop. What all connections have parsed and begun in one is counted in units of about
# 100 µs of work. Once they are spent, what comes waits in the order in which it came, and each connection does little
# when it is its turn. So whatever else the loop serves waits for a few requests or messages, however many clients send
# as fast as they can.

#: Units of a turn.
_OF_A_TURN: Final = 64
#: Units of a request that is handed to the application, or refused.
_OF_A_REQUEST: Final = 1
#: Parts of messages of HTTP that are parsed for a unit.
_PARTS_OF_A_UNIT: Final = 8


class Waiting(typing.Protocol):
    """A connection that has something to do."""

    def take_turn(self) -> None:
        """Do some of it; wait again where there is more."""


class Turns:
    """Shares the turns of the event loop among all connections of a server, HTTP and WebSockets alike."""

    def __init__(self) -> None:
        #: units that are left of this turn; none while anybody waits
        self.left = _OF_A_TURN
        #: those that have something to do, the longest first
        self._waiting: dict[Waiting, None] = {}
        self._next: asyncio.Handle | None = None
        self._is_sharing = False
        # Every request comes by here: this is not a function of Python.
        self._renew = partial(setattr, self, "left", _OF_A_TURN)

    def spend(self, units: int) -> None:
        """Note how much was done."""
        if self.left == _OF_A_TURN and not self._is_sharing:
            self._next = asyncio.get_running_loop().call_soon(self._renew)
        self.left -= units

    def wait(self, its: Waiting) -> None:
        """Have a connection go on as soon as it is its turn."""
        if not self._waiting and not self._is_sharing:
            self.left = 0
            if self._next is not None:
                self._next.cancel()
            self._next = asyncio.get_running_loop().call_soon(self._share)
        self._waiting[its] = None

    def _share(self) -> None:
        self.left = _OF_A_TURN
        self._is_sharing = True
        try:
            for its in list(self._waiting):
                if self.left <= 0:
                    break
                del self._waiting[its]
                its.take_turn()
        finally:
            self._is_sharing = False
            if self._waiting:
                self.left = 0
            self._next = asyncio.get_running_loop().call_soon(self._share if self._waiting else self._renew)


# -- how many connections, and bytes of bodies, there may be before requests are whole ---------------------
#
# A connection counts while it has no complete request, for the address that it came from: it waits for its first
# request, sends one, or is kept alive after an answer. After its last answer it lingers, so that the client can read
# it, and counts until it is gone. Where room is needed, connections that linger are closed first, then those that are
# idle. Addresses of this machine and the proxies that the settings name are exempt from the limit of one address, and
# so is a WebSocket, whose handshake is a complete request. Those that were refused because all room is taken linger
# beside the others, so many and no more.

#: Bytes of a body that have to come within `Settings.body_timeout`, unless it ends before.
LEAST_BODY_BYTES: Final = 1024
#: Longest text of an address that is looked at, in characters; none is so long.
_MOST_CHARACTERS: Final = 64
#: Most connections that linger though all room is taken; beyond, the oldest of them are closed.
MOST_REFUSED: Final = 256


#: What a connection without a complete request is about to do; see above.
State = Literal["waiting", "idle", "lingering"]


class Connection(typing.Protocol):
    """One that can be asked to end."""

    def make_room(self) -> None:
        """Close; where a request is being read it is answered first."""


class Body:
    """A request's body: the bytes that are held of it, until the request is answered."""

    __slots__ = ("begun", "size")

    def __init__(self, begun: float) -> None:
        self.size = 0
        self.begun = begun


class Connections:
    """The connections of one server that have no complete request, and the bodies of all requests under way."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self.settings = settings
        self.clock = clock
        #: bytes of bodies that may be in memory; a single body of the largest size always fits
        self.most_body_bytes = max(settings.max_bodies_bytes, settings.max_body_bytes)
        #: bytes of bodies in memory
        self.body_bytes = 0
        self._proxies = ProxyHeadersMiddleware(cast("Any", None), settings.forwarded_allow_ips).trusted_hosts
        #: every connection that counts, with the name that it counts under; None: exempt
        self._counted: dict[Connection, str | None] = {}
        self._of_address: dict[str, dict[Connection, None]] = {}
        #: those that are kept alive after an answer, and those that are about to be closed, the longest first
        self._idle: dict[Connection, None] = {}
        self._lingering: dict[Connection, None] = {}
        #: those that linger and do not count, the longest first
        self._refused: dict[Connection, None] = {}
        #: bodies that are being read, the oldest first
        self._reading: dict[Body, Connection] = {}

    def __len__(self) -> int:
        """Return how many connections have no complete request and do not linger."""
        return len(self._counted) - len(self._lingering)

    def states(self) -> dict[str, int]:
        """Return how many connections are in each state."""
        idle, lingering = len(self._idle), len(self._lingering)
        waiting = len(self._counted) - idle - lingering
        return {"waiting": waiting, "idle": idle, "lingering": lingering + len(self._refused)}

    def addresses(self) -> dict[str, int]:
        """Return how many connections count for each address."""
        return {address: len(of_it) for address, of_it in self._of_address.items()}

    # -- connections -----------------------------------------------------------------------------------------

    def address(self, host: str | None, headers: Sequence[tuple[bytes, bytes]] = ()) -> str | None:
        """Return the name under which a connection counts, by its peer and the headers of its request.

        None if it is exempt: from this machine, or from a proxy in the settings that names no client.
        """
        if host is None:  # of a socket in the file system
            return None
        if host in self._proxies:
            forwarded = b", ".join([value for name, value in headers if name == b"x-forwarded-for"])
            if forwarded:
                host, _ = self._proxies.get_trusted_client_address(forwarded.decode("latin-1"))
            if host in self._proxies and not self._proxies.always_trust:
                return None
        name, loopback = counted_as(host[:_MOST_CHARACTERS])
        return None if loopback else name

    def enter(self, connection: Connection, address: str | None, state: State = "waiting") -> bool:
        """Count a connection that has no complete request; return False where there is no room for it."""
        if connection in self._counted:
            self.leave(connection)
        closable = (self._lingering, self._idle)
        if address is not None:
            neighbours = self._of_address.get(address, {})
            if len(neighbours) >= self.settings.max_connections_per_address and not self._close_one(
                each for some in closable for each in neighbours if each in some
            ):
                return False
        if len(self._counted) >= self.settings.max_connections and not self._close_one(chain(*closable)):
            # The service's own machine and its proxies get in before strangers who have not even sent a request.
            strangers = (each for each, name in self._counted.items() if name is not None)
            if address is not None or not self._close_one(strangers):
                return False
        self._count(connection, address, state)
        return True

    def linger(self, connection: Connection, address: str | None) -> None:
        """Note that a connection has had its last answer; it counts if there is room for it."""
        self.leave(connection)
        of_address = 0 if address is None else len(self._of_address.get(address, ()))
        most, most_of_address = self.settings.max_connections, self.settings.max_connections_per_address
        if len(self._counted) < most and of_address < most_of_address:
            self._count(connection, address, "lingering")
            return
        if len(self._refused) >= MOST_REFUSED:
            self._close_one(self._refused)
        self._refused[connection] = None

    def _count(self, connection: Connection, address: str | None, state: State) -> None:
        self._counted[connection] = address
        if address is not None:
            self._of_address.setdefault(address, {})[connection] = None
        if state == "idle":
            self._idle[connection] = None
        elif state == "lingering":
            self._lingering[connection] = None

    def leave(self, connection: Connection) -> None:
        """Count a connection no longer: its request is complete, or it is closed."""
        address = self._counted.pop(connection, None)
        self._idle.pop(connection, None)
        self._lingering.pop(connection, None)
        self._refused.pop(connection, None)
        if address is not None:
            neighbours = self._of_address[address]
            del neighbours[connection]
            if not neighbours:
                del self._of_address[address]

    def _close_one(self, candidates: Iterable[Connection]) -> bool:
        for each in candidates:
            self.leave(each)
            each.make_room()
            return True
        return False

    # -- bodies ----------------------------------------------------------------------------------------------

    def has_room_for(self, size: int) -> bool:
        """Return whether a body of this size would fit now."""
        return self.body_bytes + size <= self.most_body_bytes

    def begin(self, connection: Connection) -> Body:
        """Note that a body is being read, and return what counts its bytes."""
        body = Body(self.clock())
        self._reading[body] = connection
        return body

    def hold(self, body: Body, size: int) -> bool:
        """Count further bytes of a body; return False where there is no room for them.

        Bodies that have taken longer than `Settings.body_timeout` make room for others.
        """
        slow = self.clock() - self.settings.body_timeout
        while not self.has_room_for(size):
            oldest, connection = next(iter(self._reading.items()), (body, None))
            if connection is None or oldest is body or oldest.begun > slow:
                return False
            self.let_go(oldest)
            connection.make_room()
        body.size += size
        self.body_bytes += size
        return True

    def complete(self, body: Body) -> None:
        """Note that a body has come whole."""
        self._reading.pop(body, None)

    def let_go(self, body: Body) -> None:
        """Note that nothing of a body is held any more."""
        self._reading.pop(body, None)
        self.body_bytes -= body.size
        body.size = 0


#: Seconds that a client may be silent after it was refused, before the connection is closed.
_LINGER_PAUSE_SECONDS: Final = 2.0


class _Linger(NamedTuple):
    """How long and how much a refused client may go on sending, so that it can read why it was refused."""

    seconds: float
    bytes: int


#: After a header that is too large, what was too slow, and where all room is taken.
_SHORT_LINGER: Final = _Linger(_LINGER_PAUSE_SECONDS, MIB)
#: After everything else: many clients read nothing before all of a body is sent.
_LONG_LINGER: Final = _Linger(30.0, 256 * MIB)
#: Seconds that clients have, once the service stops, to take what was written to them, and between two later looks.
_STOPPING_SECONDS: Final = 5.0
_STOPPING_LOOK_SECONDS: Final = 1.0
#: Bytes of a header besides its name and its value: a colon, a space and the end of the line.
_AROUND_HEADER: Final = 4
#: Characters that are repeated of what is refused.
_MOST_SHOWN: Final = 100
#: Versions of HTTP that know no Host.
_WITHOUT_HOST: Final = frozenset({"1.0"})
#: Headers that say how long a body is (RFC 9112, 6).
_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
#: The name that a request's target is under where it has one (RFC 9112, 3.2.2).
_AUTHORITY: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]*)")
#: Bytes that are parsed at once, of a body and of all else. The parser does not say where in them one part ends and the
#: next begins, so a limit may be exceeded by as many; the parts of a first header and the trailers are counted exactly.
_BODY_PIECE_BYTES: Final = 4096
_PIECE_BYTES: Final = 1024
#: Most parts (headers, pieces of bodies, beginnings of messages) of a read behind which its rest is parsed at once.
#: Behind more, whatever else waits comes first: a part of a byte takes as long as one of thousands.
_MOST_PARTS: Final = 128
#: Most requests of one connection that wait for the answer to the one before (pipelining): behind these nothing is
#: parsed until some are answered.
_MOST_PIPELINED: Final = 64
#: Most parameters of a query, and most bytes of a path without it: routes are found and parameters decoded in one go.
_MOST_PARAMETERS: Final = 1000
_MOST_PATH_BYTES: Final = 8192
#: The versions of HTTP that are spoken.
_VERSIONS: Final = frozenset({"1.0", "1.1"})

_log = logging.getLogger(__name__)


class _Ending(NamedTuple):
    """How a connection ends: with a problem or without one, and how much is read afterwards."""

    error: SimulationError | None
    url: bytes
    linger: bool
    most: _Linger


class _Flow(FlowControl):
    """uvicorn's control of reading and writing; nothing is read on while something that was read is not parsed."""

    def __init__(self, its: Protocol) -> None:
        super().__init__(its.transport)
        self._its = its

    def resume_reading(self) -> None:
        if self._its.has_more:
            self.read_paused = False
        else:
            super().resume_reading()


def protocol(
    settings: Settings,
    turns: Turns,
    refused: Callable[[str], None],
    watch: Callable[[Callable[[], Mapping[str, int]]], None] = lambda _: None,
) -> Callable[..., Protocol]:
    """Return what makes the protocols of one server's connections, which share their limits and its turns.

    ``refused`` is told the code of every problem that ends a connection before its request is whole. ``watch`` is
    called with what tells how many connections there are in each state.
    """
    connections = Connections(settings)
    watch(connections.states)

    def make(
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> Protocol:
        return Protocol(config, server_state, app_state, _loop, connections=connections, turns=turns, refused=refused)

    return make


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, with limits for what is not yet a request."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        connections: Connections,
        turns: Turns,
        refused: Callable[[str], None],
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._connections = connections
        self._turns = turns
        self._tell_refused = refused
        self._settings = connections.settings
        self.timeout_keep_alive = self._settings.keep_alive  # type: ignore[assignment]
        #: which part of a message comes next; between two messages none
        self._part: Literal["header", "body"] | None = "header"
        #: how many messages have begun
        self._messages = 0
        #: parts that were parsed of a read; what was read behind them and not parsed yet; whether that is the last
        self._parts = 0
        self._rest = b""
        self._has_ended = False
        #: bytes of a header, or between two pieces of a body, and those of the headers behind a body (trailers)
        self._unread = self._trailer_bytes = 0
        #: bytes of this message's body, and those of the present `body_timeout`
        self._body_size = self._body_lately = 0
        self._has_body = False
        #: whether the message asks for another protocol, which its parser takes what follows for
        self._is_offer = False
        self._bodies: dict[RequestResponseCycle, Body] = {}
        #: the request that the application was handed last
        self._handed: RequestResponseCycle | None = None
        #: the state as which the connection is counted, and the name
        self._standing: tuple[State, str | None] | None = None
        self._timed: tuple[str, int] | None = None
        self._timer: asyncio.TimerHandle | None = None
        #: what ends the connection once all complete requests have their answers, and whether the client has ended
        #: its side
        self._ending: _Ending | None = None
        self._half_closed = False
        #: whether nothing is answered any more, the loop's time at which something was heard last, and how many bytes
        #: are still read and thrown away
        self._refused = False
        self._heard_at = 0.0
        self._drainable = 0

    # -- the connection --------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin, unless there are too many connections."""
        super().connection_made(cast("asyncio.Transport", transport))
        self._peer = self._connections.address(self.client[0] if self.client else None)
        self._closing = cast("asyncio.Transport", _Closing(self))
        self.flow = _Flow(self)
        self._is_proxy = self._peer is None or self._settings.forwarded_allow_ips == "*"
        self._stand()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        super().connection_lost(exc)
        self._rest = b""
        self._leave()
        self._abandon()

    def eof_received(self) -> bool:  # type: ignore[override]
        """Stay open while complete requests have no answer: a client may end its side once all is sent (half-close).

        One that has left looks the same until it is written to. So whatever waits for something to happen is told, and
        waits no longer (`worldledger_service.api.streaming.disconnected`). An answer that has begun and is not whole is
        cut off, as for a client that has left, so that nothing is done for nobody.
        """
        if self._rest:
            self._has_ended = True
            return True
        if self._refused or self.transport.is_closing() or not self._is_owed():
            return False
        if self._handed is not None and self._handed.response_started and not self._handed.response_complete:
            return False
        self._half_closed = True
        if self._handed is not None:
            self._handed.message_event.set()
        if self._ending is None:
            self._put_off(_Ending(None, b"", linger=False, most=_SHORT_LINGER))
        return True

    def _abandon(self) -> None:
        """Answer nothing any more: the request at work is told, and those that wait for their turn never have it.

        uvicorn tells only the request that came last.
        """
        if self._handed is not None and not self._handed.response_complete:
            self._handed.disconnected = True
            self._handed.waiting_for_100_continue = False
            self._handed.message_event.set()
        for cycle, _ in self.pipeline:
            self._let_go(cycle)
        self.pipeline.clear()

    def shutdown(self) -> None:
        """Stop: what is not yet a request will not become one, and a client that does not read is cut off soon."""
        self.loop.call_later(_STOPPING_SECONDS, self._cut_off)
        if self._part == "body" and not self.cycle.response_started:
            self._refuse(OverloadedError("the service is stopping; nothing of this request was done"))
        if self._refused:
            self.loop.call_later(_LINGER_PAUSE_SECONDS, self.transport.close)
        else:
            super().shutdown()

    def _cut_off(self) -> None:
        """Cut off a client that has not taken what was written to it; look again while it is connected."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        elif not self.transport.is_closing():
            self.loop.call_later(_STOPPING_LOOK_SECONDS, self._cut_off)

    def make_room(self) -> None:
        """Close for the benefit of others."""
        if self._refused:
            self._close(_LINGER_PAUSE_SECONDS)
        elif self._standing is not None and self._standing[0] == "idle":
            self.end()
        else:
            self._refuse(OverloadedError("others need the room that this request takes; try again"))

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection that was idle for too long."""
        self.end()

    def _stand(self) -> None:
        """Count and time the connection by its present state."""
        if self._is_deaf:
            return
        standing: tuple[State, str | None] | None
        if self._part is not None:
            standing = ("waiting", self._address() if self._part == "body" and self._is_proxy else self._peer)
        elif self._is_answered() and not self.pipeline:
            standing = ("idle", self._peer)
        else:
            standing = None
        if standing != self._standing:
            self._standing = standing
            if standing is None:
                self._connections.leave(self)
            elif not self._connections.enter(self, standing[1], standing[0]):
                self._refuse(OverloadedError("there are too many connections without a request"), most=_SHORT_LINGER)
                return
        timed = None if self._part is None else (self._part, self._messages)
        if timed != self._timed:
            self._timed = timed
            self._body_lately = 0
            self._time(None if self._part is None else self._seconds())

    @property
    def _is_deaf(self) -> bool:
        """True if nothing that comes is parsed any more."""
        return self._refused or self._ending is not None

    def _is_owed(self) -> bool:
        """Return whether the application has a complete request that has not its whole answer yet."""
        handed = self._handed
        if handed is None or handed.response_complete:  # one that was pipelined may wait for its turn
            return len(self.pipeline) > (self._part == "body")
        return self._part != "body" or handed is not self.cycle

    def _is_answered(self) -> bool:
        """Return whether the last request, if there was one, has its whole answer."""
        return getattr(self.cycle, "response_complete", True)  # a connection has no cycle before its first request

    def _address(self) -> str | None:
        return self._connections.address(self.client[0] if self.client else None, self.headers)

    def _leave(self) -> None:
        """Count the connection no longer, and wait for nothing from it."""
        self._standing = self._timed = None
        self._connections.leave(self)
        self._time(None)

    # -- time ------------------------------------------------------------------------------------------------

    def _seconds(self) -> float:
        return self._settings.header_timeout if self._part == "header" else self._settings.body_timeout

    def _time(self, seconds: float | None, then: Callable[[], None] | None = None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, then or self._late)

    def _late(self) -> None:
        """Refuse a header that has not come in time, or a body of which too little has."""
        cycle = self.cycle
        enough = self._body_lately >= LEAST_BODY_BYTES
        self._body_lately = 0
        if self._part == "header":
            # While another request is answered it is not yet this one's turn.
            what = "the header of a request did not come" if self._is_answered() else None
        elif (
            enough
            or self._rest
            or self.flow.read_paused
            or (cycle.waiting_for_100_continue and not cycle.response_started)
        ):
            what = None  # it is the service that has not read on
        else:
            what = f"neither {LEAST_BODY_BYTES} further bytes of the body nor its end came"
        if what is None:
            self._time(self._seconds())
        elif not self._messages:
            self.end(linger=False)  # nothing was asked, so nothing is answered
        else:
            self._refuse(RequestTooSlowError(f"{what} within {self._seconds():g} s"))

    # -- what comes ------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Parse data in pieces, so that no more of a header is read than it may have.

        Of a read with very many small parts, or several requests, the rest waits until all others have had a turn.
        """
        if self._is_deaf:
            self._throw_away(len(data))
            return
        if self._rest or len(self.pipeline) >= _MOST_PIPELINED or self._turns.left <= 0:
            self._wait(self._rest + data)
            return
        most = self._settings.max_header_bytes
        if len(data) <= _PIECE_BYTES and self._unread + len(data) <= most:
            self._unread += len(data)
            if self._feed(data):
                self._stand()
            return
        left = memoryview(data)
        self._parts = 0
        while left and not self._is_deaf:
            room = most - self._unread
            if room <= 0:
                self._refuse(self._header_too_large())
                return
            size = min(room, _BODY_PIECE_BYTES if self._part == "body" else _PIECE_BYTES)
            piece, left = left[:size], left[size:]
            self._unread += len(piece)
            if not self._feed(piece):
                return
            if left and (self._parts > _MOST_PARTS or self.pipeline):
                self._wait(bytes(left))
                break
        self._turns.spend(self._parts // _PARTS_OF_A_UNIT)
        self._stand()

    def _wait(self, rest: bytes) -> None:
        """Parse the rest of what was read later; nothing more is read until then."""
        self._rest = rest
        self.transport.pause_reading()
        if len(self.pipeline) < _MOST_PIPELINED:
            self._turns.wait(self)

    @property
    def has_more(self) -> bool:
        """True if something was read that is not parsed yet."""
        return bool(self._rest)

    def take_turn(self) -> None:
        """Begin with the next request that was parsed, if it is its turn, or else parse what waited."""
        if self.transport.is_closing():
            return
        if self.pipeline and self._handed is not None and self._handed.response_complete:
            self._answer_next()
            return
        rest, self._rest = self._rest, b""
        if not self.flow.read_paused:
            self.transport.resume_reading()
        self.data_received(rest)
        if self._has_ended and not self._rest:
            self._has_ended = False
            if not self.eof_received():
                self.transport.close()

    def _throw_away(self, size: int) -> None:
        """Count what comes after a refusal. Beyond the limit nothing is read any more, and soon the connection closes.

        It is not closed at once, for then the client would be reset before it has read the answer.
        """
        self._heard_at = self.loop.time()
        if 0 < self._drainable <= size and not self.transport.is_closing():
            self.transport.pause_reading()
        self._drainable -= size

    def _feed(self, piece: bytes | memoryview) -> bool:
        """Parse a piece; return False if the connection is another protocol's from there on, or closed."""
        while True:
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserUpgrade as offer:
                if self._is_deaf:
                    return False
                if self._should_upgrade():
                    self._leave()
                    self.handle_websocket_upgrade()
                    return False
                _log.debug("%s asks for another protocol and gets HTTP/1.1", self.client)
                piece = self._go_on_behind_offer(bytes(piece[offer.args[0] :]))
            except httptools.HttpParserError as error:
                reason = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
                if isinstance(reason, httptools.HttpParserInvalidURLError):
                    self.send_400_response("the URL cannot be read")
                else:
                    self.send_400_response(f"this is no HTTP/1.1 request: {str(error).lower()}")
                return False
            else:
                return True

    def _go_on_behind_offer(self, rest: bytes) -> bytes:
        """Begin with a new parser behind a header with an offer that is declined; return what it is to be fed.

        The old one takes what follows for the other protocol. A body begins with a header that says how long it is.
        """
        self._is_offer = False
        behind = _Behind(self) if self._has_body else self
        said = [(name, value) for name, value in self.headers if name in _FRAMING] if self._has_body else []
        said.append((b"connection", b"keep-alive" if self.parser.should_keep_alive() else b"close"))
        version = self.parser.get_http_version().encode()
        self.parser = httptools.HttpRequestParser(behind)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        if not self._has_body:
            return rest
        return b"POST / HTTP/%b\r\n%b\r\n%b" % (version, b"".join(b"%b: %b\r\n" % each for each in said), rest)

    def on_message_begin(self) -> None:
        """Begin a message."""
        super().on_message_begin()
        self._unset_keepalive_if_required()
        self._part = "header"
        self._messages += 1
        self._parts += 1

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; one after a body (a trailer) is counted and ignored."""
        self._parts += 1
        if self._part == "header":
            super().on_header(name, value)
        elif not self._is_deaf:
            self._trailer_bytes += len(name) + len(value) + _AROUND_HEADER
            if self._trailer_bytes > self._settings.max_header_bytes:
                self._refuse(self._header_too_large())

    def on_headers_complete(self) -> None:
        """Begin with a body, unless it is too large, or there is no room for it."""
        if self._is_deaf:
            return
        self._unread = self._body_size = self._trailer_bytes = 0
        if (target := _AUTHORITY.match(self.url)) is not None:  # which counts, and not the header beside it
            self.headers[:] = [(name, target[1] if name == b"host" else value) for name, value in self.headers]
        declared, hosts = 0, 0
        codings: list[bytes] = []
        for name, value in self.headers:
            if name == b"content-length":
                declared = int(value)
            elif name == b"transfer-encoding":
                codings.append(value.strip().lower())
            elif name == b"host":
                hosts += 1
        self._has_body = declared > 0 or bool(codings)
        version = self.parser.get_http_version()
        if version == "1.0":
            self.expect_100_continue = False  # RFC 9110, 10.1.1
        if (problem := self._problem(version, hosts, codings, declared)) is not None:
            self._refuse(problem)
            return
        self._is_offer = self.parser.should_upgrade()
        if self._is_offer and self._should_upgrade():
            if self._has_body:
                self._refuse(BadRequestError("a WebSocket handshake has no body"))
            else:
                super().on_headers_complete()  # which leaves it to `handle_websocket_upgrade`
        else:
            self._unset_keepalive_if_required()
            super().on_headers_complete()
            self._part = "body"
            if self._has_body:
                self._bodies[self.cycle] = self._connections.begin(self)

    def _problem(self, version: str, hosts: int, codings: list[bytes], declared: int) -> SimulationError | None:
        """Return why a request is refused for its header alone."""
        if version not in _VERSIONS:
            return BadRequestError(f"this is HTTP/{version[:_MOST_SHOWN]}, and HTTP/1.1 and 1.0 are spoken here")
        path, _, query = self.url.partition(b"?")
        if query.count(b"&") >= _MOST_PARAMETERS:
            return BadRequestError(f"a query has at most {_MOST_PARAMETERS} parameters")
        if len(path) > _MOST_PATH_BYTES:
            return BadRequestError(f"a path has at most {_MOST_PATH_BYTES} bytes")
        if hosts > 1 or (not hosts and version not in _WITHOUT_HOST):
            return BadRequestError(f"a request has one header Host, and this one has {hosts or 'none'}")
        if codings not in ([], [b"chunked"]):
            what = b", ".join(codings).decode("latin-1")[:_MOST_SHOWN]
            return TransferCodingError(f"a body may have the transfer coding 'chunked' alone, and not {what!r}")
        if declared > self._settings.max_body_bytes:
            return self._too_large()
        if declared and not self._connections.has_room_for(declared):
            return self._no_room()
        return None

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._parts += 1
        if self._is_deaf:
            return
        self._unread = 0
        self._body_size += len(body)
        self._body_lately += len(body)
        held = self._bodies.get(self.cycle)
        if self._body_size > self._settings.max_body_bytes:
            self._refuse(self._too_large())
        elif held is not None and not self._connections.hold(held, len(body)):
            self._refuse(self._no_room())
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """End a message."""
        if self._is_deaf or (self._is_offer and self._has_body):
            return  # the body is still to come (`_go_on_behind_offer`)
        self._unread = 0
        self._part = None
        if (held := self._bodies.get(self.cycle)) is not None:
            self._connections.complete(held)
        super().on_message_complete()

    def _header_too_large(self) -> HeaderTooLargeError:
        limit = self._settings.max_header_bytes
        return HeaderTooLargeError(f"the header has more than {limit} bytes", limit=limit)

    def _too_large(self) -> BodyTooLargeError:
        limit = self._settings.max_body_bytes
        return BodyTooLargeError(f"the body has more than {limit} bytes", limit=limit)

    def _no_room(self) -> OverloadedError:
        most = self._connections.most_body_bytes
        return OverloadedError(f"bodies of other requests take up the {most} bytes that there are for all; try again")

    def _should_upgrade(self) -> bool:
        """Return whether this is a WebSocket's handshake; an offer without its key is declined like any other.

        So is one that does not wait for the answer to the request before it.
        """
        offered = any(name == b"sec-websocket-key" for name, _ in self.headers)
        offered = offered and self.parser.get_http_version() == "1.1"  # RFC 6455, 4.1
        return offered and self._is_answered() and self.parser.get_method() == b"GET" and super()._should_upgrade()

    # -- what is answered ------------------------------------------------------------------------------------

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Hand a request to the application; its body is released when the application is done with it."""
        self._turns.spend(_OF_A_REQUEST)
        self._handed = cycle
        cycle.transport = self._closing
        is_whole = is_told = False

        async def receive() -> Message:
            """Receive the request; behind it the application is told once of a half-close."""
            nonlocal is_whole, is_told
            if not (is_whole and self._half_closed and not is_told):
                message = cast("Message", await cycle.receive())
                if not (is_whole and message["type"] == "http.request"):
                    is_whole = not message.get("more_body", False)
                    return message
            is_told = True
            return {"type": HALF_CLOSED}

        async def handed(scope: Scope, _: Receive, send: Send) -> None:
            try:
                await app(cast("Any", scope), cast("Any", receive), cast("Any", send))
            finally:
                self._let_go(cycle)

        super()._start_asgi_task(cycle, cast("Any", handed))

    def _let_go(self, cycle: RequestResponseCycle) -> None:
        held = self._bodies.pop(cycle, None)
        if held is not None:
            self._connections.let_go(held)

    def on_response_complete(self) -> None:
        """Go on with the next request, once it is its turn, or wait for it."""
        if self._refused:
            return
        if self.pipeline and self._turns.left <= 0:
            self._turns.wait(self)
        else:
            self._answer_next()

    def _answer_next(self) -> None:
        """Begin with the next request, if it has been parsed."""
        super().on_response_complete()
        if self.transport.is_closing():
            return
        if self._rest:
            self._wait(self._rest)
        if self._ending is None:
            self._stand()
        elif not self._is_owed():
            self._end_with(self._ending)

    def send_400_response(self, msg: str) -> None:
        """Answer with a problem and close, once the requests before it have their answers."""
        self._refuse(BadRequestError(msg))

    def _refuse(self, error: SimulationError, *, most: _Linger = _LONG_LINGER) -> None:
        """Answer what comes with a problem, and close.

        Complete requests before it are answered first; only a stream is cut, which may have no end. What the client
        sends on is read and thrown away for a while: a connection that is closed before would be reset, and the answer
        with it.
        """
        if self._is_deaf or self.transport.is_closing():
            return
        self._tell_refused(error.code)
        self._turns.spend(_OF_A_REQUEST)
        if isinstance(error, (HeaderTooLargeError, RequestTooSlowError)):
            most = _SHORT_LINGER
        url = b"" if self._part is None else getattr(self, "url", b"")
        ending = _Ending(error, url, linger=True, most=most)
        handed = self._handed
        is_begun = handed is not None and handed.response_started and not handed.response_complete
        if self._is_owed() and not (is_begun and handed is not None and handed.chunked_encoding):
            self._put_off(ending)
        else:
            self._end_with(ending)

    def _put_off(self, ending: _Ending) -> None:
        """Parse nothing more; end the connection once the complete requests have their answers."""
        if self._part == "body":  # of a request behind them, which the application never sees
            self.pipeline.popleft()
            self._let_go(self.cycle)
            self.cycle = self.pipeline[0][0] if self.pipeline else cast("RequestResponseCycle", self._handed)
            self._part = "header"
        self._ending = ending
        self._drainable = ending.most.bytes
        self._leave()

    def _end_with(self, ending: _Ending) -> None:
        """Answer with a problem, unless another answer is on its way, and close."""
        self._ending = None
        answerable = not self.cycle.response_started if self._part == "body" else self._is_answered()
        if ending.error is not None and answerable and not self.pipeline:
            _log.debug("%s is refused: %s", self.client, ending.error.message)
            self.transport.write(answer(ending.error, ending.url, self.server_state.default_headers))
        if not self._is_answered():
            self._let_go(self.cycle)  # now, so that others who grow at the same time are not refused, too
        self._abandon()
        self.end(linger=ending.linger and not self._half_closed, most=ending.most)

    def end(self, *, linger: bool = True, most: _Linger = _LONG_LINGER) -> None:
        """Close, once the client has had the time to read what was written to it."""
        unread = linger and (self._part is not None or self._unread > 0)
        address = self._peer if self._standing is None else self._standing[1]
        self._unset_keepalive_if_required()
        if self._refused or self.transport.is_closing():
            return
        self._leave()
        self._refused = True
        self._connections.linger(self, address)
        if not unread:
            self._close(_LONG_LINGER.seconds)
        else:
            self._heard_at = self.loop.time()
            self._drainable = most.bytes
            self.flow.resume_reading()
            if self.transport.can_write_eof():
                self.transport.write_eof()
            self._timer = self.loop.call_later(_LINGER_PAUSE_SECONDS, self._linger, self._heard_at + most.seconds)

    def _close(self, seconds: float) -> None:
        """Close, at the latest after these seconds, if the client does not read what was written to it."""
        self.transport.close()
        self._time(seconds, self.transport.abort)

    def _linger(self, until: float) -> None:
        now = self.loop.time()
        pause = self._heard_at + _LINGER_PAUSE_SECONDS - now
        if pause <= 0 or now >= until:
            self._close(_LINGER_PAUSE_SECONDS)
        else:
            self._timer = self.loop.call_later(min(pause, until - now), self._linger, until)


class _Behind:
    """What a parser calls that begins with a header which its protocol has already."""

    def __init__(self, owner: Protocol) -> None:
        self._owner = owner
        self._is_known = True
        self.on_body = owner.on_body
        self.on_message_complete = owner.on_message_complete

    def on_message_begin(self) -> None:
        if not self._is_known:
            self._owner.on_message_begin()

    def on_url(self, url: bytes) -> None:
        if not self._is_known:
            self._owner.on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_known:
            self._owner.on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._is_known:
            self._owner.on_headers_complete()
        self._is_known = False


class _Closing:
    """A connection's transport for one answer, which is closed when all was read of the request, or after a while."""

    def __init__(self, owner: Protocol) -> None:
        self._owner = owner
        self.write = owner.transport.write
        self.is_closing = owner.transport.is_closing

    def close(self) -> None:
        self._owner.end()


def answer(error: SimulationError, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Return the whole answer to what never becomes a request, or a WebSocket."""
    response = problem_response({"type": "http", "raw_path": url}, error)
    status = HTTPStatus(response.status_code)
    lines = [b"%b: %b\r\n" % header for header in (*headers, *response.raw_headers, (b"connection", b"close"))]
    return f"HTTP/1.1 {status} {status.phrase}\r\n".encode() + b"".join(lines) + b"\r\n" + bytes(response.body)
