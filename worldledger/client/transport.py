"""HTTP to one service: JSON in and out, problems raised as errors, lost connections made up for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

import httpx2
import orjson

from worldledger.client.pauses import Pauses
from worldledger.client.problems import ServiceUnavailableError, error_of_answer

log = logging.getLogger("worldledger.client")

_HEADERS: Final = {"Accept": "application/json, application/problem+json"}
_JSON: Final = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """An answer of the service that is no problem: its status and what its body says (None: nothing)."""

    status: int
    value: Any


class Transport:
    """One service's HTTP interface, with a pool of connections that all worlds share.

    ``timeout``: seconds that an answer may take. ``patience``: seconds for which a service that cannot be reached is
    tried again before ServiceUnavailableError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = _checked(url)
        self.closed = False
        self._patience = patience
        # Whoever waits for a connection of the pool waits for calls that have a timeout each.
        self._http = httpx2.AsyncClient(headers=_HEADERS, timeout=httpx2.Timeout(timeout, pool=None))

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        again: bool = True,
    ) -> Answer:
        """Send a request and give the answer; raise the error that a problem tells of.

        ``again`` says that a request may be sent again when its connection was lost and nobody knows whether it was
        carried out; one that did not leave this process is always tried again.
        """
        content = None if body is None else orjson.dumps(body)
        url = f"{self.url}{path}"
        self.check_open()
        given_up = asyncio.get_running_loop().time() + self._patience
        pauses = Pauses()
        while True:
            try:
                response = await self._http.request(
                    method, url, content=content, params=params, headers=None if body is None else _JSON
                )
            except httpx2.TransportError as error:
                sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
                pause = pauses.next()
                if (sent and not again) or asyncio.get_running_loop().time() + pause > given_up:
                    raise self._unavailable(error, sent=sent) from error
                log.debug("%s cannot be reached (%s); it is tried again", self.url, error)
                await asyncio.sleep(pause)
            else:
                return self._read(response)

    def check_open(self) -> None:
        """Raise ServiceUnavailableError if the client was closed."""
        if self.closed:
            raise ServiceUnavailableError(f"the client of {self.url} is closed", url=self.url)

    def _unavailable(self, error: Exception, *, sent: bool) -> ServiceUnavailableError:
        why = str(error) or type(error).__name__
        what = f"{self.url} {'went away before it answered' if sent else 'cannot be reached'}: {why}"
        return ServiceUnavailableError(what, url=self.url, outcome="unknown" if sent else None)

    def _read(self, response: httpx2.Response) -> Answer:
        try:
            value = orjson.loads(response.content) if response.content else None
        except orjson.JSONDecodeError:
            value = None
        if response.is_success:
            return Answer(response.status_code, value)
        raise error_of_answer(response.status_code, value, self.url)

    async def close(self) -> None:
        """Close the connections."""
        self.closed = True
        await self._http.aclose()


def _checked(url: str) -> str:
    """Give a service's address as requests are made of it; raise ValueError if it is none."""
    try:
        parts = urlsplit(url)
        fit = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        fit = False
    if not fit:
        raise ValueError(f"{url!r} is no address of a service, such as http://127.0.0.1:8000")
    return parts.geturl().rstrip("/")  # with the scheme in lower case


def path_of(*parts: str) -> str:
    """Give the path of these parts, each escaped whatever it holds."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)
