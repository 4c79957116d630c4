"""How often one address may ask. Source: docs/reference/http.md, "Conventions".

Each request and each WebSocket handshake counts once for the address that it came from, however long it lasts; refused
ones do not count. What a supervisor asks (`_UNCOUNTED`) is free. Addresses of this machine are free, too, unless the
settings say otherwise. The window slides: what came in the window before weighs as much as still lies within the
length of one. Each process counts by itself, in memory.
"""

from __future__ import annotations

import ipaddress
import math
import time
from functools import lru_cache
from typing import Final, NamedTuple

from limits import RateLimitItem
from limits.aio.storage import MemoryStorage
from limits.aio.strategies import SlidingWindowCounterRateLimiter
from starlette.types import Scope

from worldledger.errors import RateLimitedError
from worldledger_service.settings import Settings, parse_rate_limit

#: Most counters in memory: an address has up to two, one for each window. Beyond, the oldest are forgotten.
MOST_COUNTERS: Final = 50_000

_UNCOUNTED: Final = frozenset({"/livez", "/readyz", "/metrics"})
#: Longest text of an address that is looked at, in characters; none is so long.
_LONGEST: Final = 64
#: Who has no address that can be read, as a proxy may say of whom it speaks for.
_UNKNOWN: Final = "an unknown address"

Headers = list[tuple[bytes, bytes]]


class Standing(NamedTuple):
    """How an address stands with a request: the headers that tell it, and the error if this was one too many."""

    headers: Headers
    error: RateLimitedError | None


class Limiter:
    """Counts the requests of addresses."""

    def __init__(self, limit: RateLimitItem, *, loopback: bool) -> None:
        self._limit = limit
        self._loopback = loopback
        self._window = limit.get_expiry()
        self._policy = f'"default";q={limit.amount};w={self._window}'.encode()
        self._counters = Counters()
        self._strategy = SlidingWindowCounterRateLimiter(self._counters)

    @classmethod
    def of(cls, settings: Settings) -> Limiter | None:
        """Make what the settings ask for; None where addresses may ask as often as they like."""
        limit = parse_rate_limit(settings.rate_limit)
        return None if limit is None else cls(limit, loopback=settings.rate_limit_loopback)

    def __len__(self) -> int:
        """Return how many counters are in memory."""
        return len(self._counters)

    def counted(self, scope: Scope) -> str | None:
        """Tell under which name a request is to be counted; None where it is free."""
        client = scope.get("client")
        if client is None:  # of a socket in the file system
            return None
        name, loopback = counted_as(client[0][:_LONGEST])
        if (loopback and not self._loopback) or scope["path"] in _UNCOUNTED:
            return None
        return name

    async def count(self, counted: str) -> Standing:
        """Count a request."""
        passes = await self._strategy.hit(self._limit, counted)
        resets_at, left = await self._strategy.get_window_stats(self._limit, counted)
        # The count is below the limit only after that moment: so in a thousandth of a second at the earliest.
        seconds = max(math.ceil((resets_at - time.time()) * 1000), 1) / 1000
        headers = [
            (b"ratelimit-policy", self._policy),
            (b"ratelimit", f'"default";r={left};t={math.ceil(seconds)}'.encode()),
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
