"""What connections may hold before their requests are whole: how many there are, and the bytes of their bodies.

A connection counts while it has no complete request, for the address that it came from: it waits for its first
request, sends one, or is kept alive after an answer. Where it must make room, connections that are idle are closed
first. Addresses of this machine and the proxies that the settings name are exempt from the limit of one address, and
so is a WebSocket, whose handshake is a complete request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, cast

from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from worldledger_service.api.limiting import counted_as
from worldledger_service.settings import Settings

#: Bytes of a body that have to come within `Settings.body_timeout`, unless it ends before.
LEAST_BODY_BYTES: Final = 1024
#: Longest text of an address that is looked at, in characters; none is so long.
_MOST_CHARACTERS: Final = 64


class Connection(Protocol):
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
        #: every connection without a complete request, with the name that it counts under; None: exempt
        self._waiting: dict[Connection, str | None] = {}
        self._of_address: dict[str, dict[Connection, None]] = {}
        #: those that are kept alive after an answer, the longest idle first
        self._idle: dict[Connection, None] = {}
        #: bodies that are being read, the oldest first
        self._reading: dict[Body, Connection] = {}

    def __len__(self) -> int:
        """Return how many connections have no complete request."""
        return len(self._waiting)

    def addresses(self) -> dict[str, int]:
        """Return how many of them count for each address."""
        return {address: len(of_it) for address, of_it in self._of_address.items()}

    # -- connections -----------------------------------------------------------------------------------------

    def address(self, host: str | None, headers: Sequence[tuple[bytes, bytes]] = ()) -> str | None:
        """Return the name under which a connection counts, by its peer and the headers of its request.

        None where it is exempt: of this machine, and of a proxy that the settings name unless it says for whom.
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

    def enter(self, connection: Connection, address: str | None, *, idle: bool = False) -> bool:
        """Count a connection that has no complete request; return False where there is no room for it."""
        if connection in self._waiting:
            self.leave(connection)
        if address is not None:
            neighbours = self._of_address.get(address, {})
            if len(neighbours) >= self.settings.max_connections_per_address and not self._close_one(
                each for each in neighbours if each in self._idle
            ):
                return False
        if len(self._waiting) >= self.settings.max_connections and not self._close_one(self._idle):
            # The service's own machine and its proxies get in before strangers who have not even sent a request.
            strangers = (each for each, name in self._waiting.items() if name is not None)
            if address is not None or not self._close_one(strangers):
                return False
        self._waiting[connection] = address
        if address is not None:
            self._of_address.setdefault(address, {})[connection] = None
        if idle:
            self._idle[connection] = None
        return True

    def leave(self, connection: Connection) -> None:
        """Count a connection no longer: its request is complete, or it is closed."""
        address = self._waiting.pop(connection, None)
        self._idle.pop(connection, None)
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
        """Tell whether a body of this size would fit now."""
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
