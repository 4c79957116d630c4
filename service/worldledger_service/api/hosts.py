"""The names that a request may have for this service, and the pages it may come from.

A service that only this machine can reach is still within reach of this machine's browser, and a web page can let its
own name lead to 127.0.0.1 (DNS rebinding). The browser then sends the page's name as Host, which is refused here. A
name without a dot is accepted: no page on the internet can have it.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from worldledger_service.api.problems import HostRefusedError, OriginRefusedError
from worldledger_service.settings import Settings


def allowed_hosts(settings: Settings) -> frozenset[str]:
    """Return the names by which a request may call the service, without ports; none at all means any.

    Names are compared if the service listens on loopback only, or if the settings name some; ``*`` among those
    allows all.
    """
    named = {_name(each) for each in (settings.allowed_hosts or "").split(",")} - {""}
    loopback = _is_loopback(settings.host)
    if "*" in named or not (named or loopback):
        return frozenset()
    own = {_name(settings.host)} if loopback else set()
    return frozenset({"localhost", "127.0.0.1", "[::1]", *own, *named})


def check_host(scope: Scope, allowed: frozenset[str]) -> None:
    """Raise HostRefusedError if a request's Host header has none of these names. Browsers always send one."""
    for header, value in scope["headers"]:
        if header == b"host":
            name = _name(value.decode("latin-1"))
            if name not in allowed and ("." in name or ":" in name):
                raise HostRefusedError(
                    f"this service is not called {name!r}; further names are allowed by WORLDLEDGER_ALLOWED_HOSTS",
                    host=name,
                )


async def refuse_other_sites(request: Request) -> None:
    """Raise OriginRefusedError if a web page of another site made the request. A dependency of routes without a body.

    A page may send a POST to any address without asking first, as long as it has no body that says JSON.
    """
    check_origin(request.scope)


def check_origin(scope: Scope) -> None:
    """Raise OriginRefusedError if a web page of another site made this request, or this WebSocket handshake.

    Browsers let a page open a WebSocket to any address without asking first. They name the page's site (Fetch
    Metadata), or its origin; programs send neither.
    """
    headers = Headers(scope=scope)
    site = headers.get("sec-fetch-site")
    origin = headers.get("origin")
    if site is not None:
        refused = site not in {"same-origin", "none"}
    else:
        refused = origin is not None and _place(origin) != headers.get("host", "").lower()
    if refused:
        raise OriginRefusedError("web pages of other sites may not ask for this", origin=origin)


def _place(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


def _name(host: str) -> str:
    """Return the name in a Host header, or in a setting: without its port, an IPv6 address in brackets."""
    host = host.strip().lower()
    if host.startswith("["):
        address, _, rest = host.partition("]")
        return f"{address}]" if rest[:1] in {"", ":"} else host
    return f"[{host}]" if host.count(":") > 1 else host.partition(":")[0]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
