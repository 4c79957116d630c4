"""What every way of talking HTTP to a service has in common: addresses, reading answers, saying that there is none."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import httpx2
import orjson

from worldledger.client.problems import ServiceUnavailableError, error_of_answer

#: What a request for JSON says, and one that brings some.
ACCEPTING: Final = {"Accept": "application/json, application/problem+json"}
BRINGING: Final = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """An answer of the service that is no problem: its status and what its body says (None: nothing)."""

    status: int
    value: Any


def read_answer(response: httpx2.Response, url: str) -> Answer:
    """Return what an answer says; raise the error that it tells of."""
    try:
        value = orjson.loads(response.content) if response.content else None
    except orjson.JSONDecodeError:
        value = None
    if response.is_success:
        return Answer(response.status_code, value)
    raise error_of_answer(response.status_code, value, url)


def was_sent(error: httpx2.TransportError) -> bool:
    """Tell whether a request may have been carried out though it has no answer."""
    return not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


def unavailable(url: str, error: httpx2.TransportError) -> ServiceUnavailableError:
    """Return the error of a request that has no answer."""
    sent = was_sent(error)
    why = str(error) or type(error).__name__
    if sent:
        what = f"{url} went away before it answered: {why}"
    else:
        what = f"{url} cannot be reached ({why}); is the service running? `worldledger serve` starts it"
    return ServiceUnavailableError(what, url=url, outcome="unknown" if sent else None)


def checked_address(url: str) -> str:
    """Return a service's address as requests are made of it; raise ValueError if it is none."""
    try:
        parts = urlsplit(url)
        fit = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        fit = False
    if not fit:
        raise ValueError(f"{url!r} is no address of a service, such as http://127.0.0.1:8000")
    return parts.geturl().rstrip("/")  # with the scheme in lower case
