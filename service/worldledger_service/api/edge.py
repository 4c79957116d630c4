"""The outermost layer, plain ASGI: nothing leaves as a bare 500, and HEAD is answered wherever GET is."""

from __future__ import annotations

import asyncio
import ipaddress
import math
import re
import time
from functools import lru_cache
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from limits import RateLimitItem
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from worldledger.errors import OverloadedError, RateLimitedError, StoreUnavailableError
from worldledger_service.api.context import ON_END
from worldledger_service.api.hosts import check_host, check_origin
from worldledger_service.api.metrics import Metrics
from worldledger_service.api.problems import (
    HostRefusedError,
    OriginRefusedError,
    internal_error,
    no_route,
    problem_response,
)
from worldledger_service.api.streaming import StreamAbortedError
from worldledger_service.settings import Settings, parse_rate_limit

if TYPE_CHECKING:
    from worldledger_service.api.context import Services


# -- how often one address may ask -------------------------------------------------------------------------

# Source: docs/reference/http.md, "Conventions".
#
# Each request and each WebSocket handshake counts once for its address, however long it lasts; refused
# ones do not count. What a viewer asks for often (`_BLOCKS`) has a budget of its own. What a supervisor asks
# (`_UNCOUNTED`) is free. Addresses of this machine are free, too, unless the settings say otherwise. The window slides:
# what came in the window before weighs as much as still lies within the length of one. Each process counts by itself,
# in memory.

#: Most counters of a budget in memory: an address has up to two, one for each window. Beyond, the oldest are forgotten.
MOST_COUNTERS: Final = 50_000

_UNCOUNTED: Final = frozenset({"/livez", "/readyz", "/metrics"})
#: Blocks and pages of worlds.
_BLOCKS: Final = re.compile(r"/v1/worlds/[^/]+/(?:effects|density|frames|agents/.+/frames)")
#: Longest text of an address that is looked at, in characters; none is so long.
_LONGEST: Final = 64
#: A client without a readable address, such as a proxy may name.
_UNKNOWN: Final = "an unknown address"

Headers = list[tuple[bytes, bytes]]


class Standing(NamedTuple):
    """The rate limit of an address at a request: the headers that tell it, and the error if this was one too many."""

    headers: Headers
    error: RateLimitedError | None


class Budget:
    """How often an address may ask for some routes; ``name`` is how answers call it."""

    def __init__(self, name: str, limit: RateLimitItem) -> None:
        self._limit = limit
        self._window = limit.get_expiry()
        self._name = f'"{name}"'
        self.counters = Counters()
        self._strategy = SlidingWindowCounterRateLimiter(self.counters)

    async def count(self, counted: str) -> Standing:
        """Count a request."""
        passes = await self._strategy.hit(self._limit, counted)
        resets_at, left = await self._strategy.get_window_stats(self._limit, counted)
        # The count is below the limit only after that moment: so in a thousandth of a second at the earliest.
        seconds = max(math.ceil((resets_at - time.time()) * 1000), 1) / 1000
        headers = [
            (b"ratelimit-policy", f"{self._name};q={self._limit.amount};w={self._window}".encode()),
            (b"ratelimit", f"{self._name};r={left};t={math.ceil(seconds)}".encode()),
        ]
        return Standing(headers, None if passes else self._refusal(counted, seconds))

    def _refusal(self, counted: str, seconds: float) -> RateLimitedError:
        most, window = self._limit.amount, self._window
        return RateLimitedError(
            f"{counted} has asked {most} times within {window} s, as often as one address may; try again in "
            f"{seconds:.3g} s",
            limit=most,
            window_s=window,
            retry_after_s=seconds,
        )


class Limiter:
    """Counts the requests of addresses."""

    def __init__(self, default: RateLimitItem, blocks: RateLimitItem | None, *, loopback: bool) -> None:
        self._default = Budget("default", default)
        self._blocks = None if blocks is None else Budget("blocks", blocks)
        self._loopback = loopback

    @classmethod
    def of(cls, settings: Settings) -> Limiter | None:
        """Make what the settings ask for; None where addresses may ask as often as they like."""
        limit = parse_rate_limit(settings.rate_limit)
        if limit is None:
            return None
        return cls(limit, parse_rate_limit(settings.rate_limit_blocks), loopback=settings.rate_limit_loopback)

    def __len__(self) -> int:
        """Return how many counters are in memory."""
        return sum(len(budget.counters) for budget in (self._default, self._blocks) if budget is not None)

    def counted(self, scope: Scope) -> tuple[str, Budget] | None:
        """Return the name under which a request is counted, and its budget; None if it is free."""
        client = scope.get("client")
        if client is None:  # of a socket in the file system
            return None
        name, loopback = counted_as(client[0][:_LONGEST])
        if (loopback and not self._loopback) or scope["path"] in _UNCOUNTED:
            return None
        reads = scope["type"] == "http" and scope["method"] in {"GET", "HEAD"}
        budget = self._blocks if reads and _BLOCKS.fullmatch(scope["path"]) else self._default
        return None if budget is None else (name, budget)

    async def count(self, name: str, budget: Budget | None = None) -> Standing:
        """Count a request, of the usual budget unless another one is named."""
        return await (budget or self._default).count(name)


class Counters(MemoryStorage):
    """The library's memory, with a bound, and without looking through all of it at every hit.

    What expires first was put in first, for all counters last equally long.
    """

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.storage)

    async def incr(self, key: str, expiry: float, amount: int = 1) -> int:
        """Count for a key; there is no other task's turn in between."""
        now = time.time()
        if self.expirations.get(key, now) <= now:
            self._forget(key)
            self._make_room(now)
            self.expirations[key] = now + expiry
        self.storage[key] += amount
        return self.storage[key]

    def _make_room(self, now: float) -> None:
        while self.expirations:
            first = next(iter(self.expirations))
            if self.expirations[first] > now and len(self.expirations) < MOST_COUNTERS:
                return
            self._forget(first)

    def _forget(self, key: str) -> None:
        self.expirations.pop(key, None)
        self.storage.pop(key, None)


@lru_cache(maxsize=4096)
def counted_as(host: str) -> tuple[str, bool]:
    """Return the name under which the requests of an address are counted, and whether it is this machine's own.

    Neighbours in IPv6 (a /64) count as one: who has one of these addresses has all of them.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _UNKNOWN, False
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback or address.is_link_local:
        return str(address), address.is_loopback
    return str(ipaddress.IPv6Network((int(address), 64), strict=False)), False


log = structlog.get_logger("worldledger.api")


class Edge:
    """Wraps the application.

    An unexpected error is logged with its traceback and answered with a problem without details; after the response has
    begun it is raised on, so that the server aborts the connection. A request that the server cancels because it stops
    is answered, too. A HEAD request runs as GET, and its response ends after the headers. With ``hosts``, other names
    for the service are refused; with a ``limiter``, so are clients that ask too often. Every answer is counted, and the
    time until it began.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        hosts: frozenset[str] = frozenset(),
        limiter: Limiter | None = None,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._hosts = hosts
        self._limiter = limiter

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or one WebSocket."""
        if scope["type"] in {"http", "websocket"}:
            try:
                await self._run(scope, receive, send)
            finally:
                if ON_END in scope:
                    scope[ON_END]()
        else:
            await self._app(scope, receive, send)

    async def _run(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run a request, or a WebSocket: until that is accepted, whatever goes wrong is an HTTP answer."""
        begun = perf_counter()
        is_socket = scope["type"] == "websocket"
        method = "GET" if is_socket else scope["method"]
        head = method == "HEAD"
        if head:
            scope = {**scope, "method": "GET"}
        started = ended = False
        standing: Standing | None = None

        async def guarded(message: Message) -> None:
            nonlocal started, ended
            if not started:
                if message["type"] == "websocket.close":  # the router found no route
                    await no_route(scope)(scope, receive, guarded)
                    return
                started = True
                message = _with_standing(message, standing)
                status = 101 if message["type"] == "websocket.accept" else message["status"]
                self._metrics.answered(method, scope, status, perf_counter() - begun)
            if head:
                if ended:
                    return
                if message["type"] == "http.response.body":
                    ended = True
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        try:
            if self._limiter is not None and (counted := self._limiter.counted(scope)) is not None:
                standing = await self._limiter.count(*counted)
            self._check(scope, standing)
            await self._app(scope, receive, guarded)
        except (ClientDisconnect, ClientDisconnected):
            return  # the client has left
        except StreamAbortedError:
            raise  # logged where it arose
        except (Exception, asyncio.CancelledError) as error:
            answer = _answer_to(error, scope)
            if not started:
                await answer(scope, receive, guarded)
            elif isinstance(error, Exception) and not is_socket:
                raise

    def _check(self, scope: Scope, standing: Standing | None) -> None:
        """Raise RateLimitedError for a request that was one too many, HostRefusedError for another name.

        Raises OriginRefusedError for a WebSocket that a page of another site opens.
        """
        if standing is not None and standing.error is not None:
            self._metrics.limited()
            raise standing.error
        if self._hosts:
            check_host(scope, self._hosts)
        if scope["type"] == "websocket":
            check_origin(scope)


def _answer_to(error: BaseException, scope: Scope) -> Response:
    """Return the response to what no route has answered, logged where it is unexpected; raise what is none of ours."""
    if isinstance(error, RateLimitedError | HostRefusedError | OriginRefusedError):
        return problem_response(scope, error)
    if isinstance(error, asyncio.CancelledError):
        found: Services | None = getattr(scope["app"].state, "services", None)
        if found is None or not found.stopping.is_set():
            raise error
        # One line of the server's log says how many requests it has cancelled; no line is needed for each.
        what = "the service has stopped before this was answered; the outcome is not known"
        return problem_response(scope, StoreUnavailableError(what, outcome="unknown"))
    method = scope.get("method", "WebSocket")
    if isinstance(error, MemoryError):
        log.warning("a request needs more memory than there is", method=method, path=scope["path"])
        what = "this request needs more memory than there is now; try again, or with less"
        return problem_response(scope, OverloadedError(what))
    log.error("unforeseen error", method=method, path=scope["path"], exc_info=error)
    return internal_error(scope)


def _with_standing(message: Message, standing: Standing | None) -> Message:
    """Return the beginning of an answer with the headers that tell a limited client how it stands."""
    if standing is None:
        return message
    return {**message, "headers": [*message.get("headers", ()), *standing.headers]}
