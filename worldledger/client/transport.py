"""HTTP to one service: JSON in and out, problems raised as errors, lost connections made up for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
import orjson

from worldledger.client.answers import ACCEPTING, BRINGING, Answer, checked_address, read_answer, unavailable, was_sent
from worldledger.client.pauses import Pauses
from worldledger.client.problems import ServiceUnavailableError, seconds_to_wait
from worldledger.errors import RateLimitedError
from worldledger.moments import seq_or_moment

T = TypeVar("T")

log = logging.getLogger("worldledger.client")


class Transport:
    """One service's HTTP interface, with a pool of connections that all worlds share.

    ``timeout``: seconds that an answer may take. ``patience``: seconds for which a service that cannot be reached, or
    says that it is asked too often, is tried again before ServiceUnavailableError or RateLimitedError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = checked_address(url)
        self.closed = False
        self._patience = patience
        # Whoever waits for a connection of the pool waits for calls that have a timeout each.
        self._http = httpx2.AsyncClient(headers=ACCEPTING, timeout=httpx2.Timeout(timeout, pool=None))

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
        carried out; one that did not leave this process, or was not taken, is always tried again.
        """
        url = f"{self.url}{path}"
        content = None if body is None else orjson.dumps(body)
        headers = None if body is None else BRINGING

        async def attempt() -> Answer:
            return read_answer(
                await self._http.request(method, url, content=content, params=params, headers=headers), self.url
            )

        return await self._persist(attempt, again=again)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        path: str,
        *,
        accept: str,
        body: object = None,
        params: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[httpx2.Response]:
        """Send a request for reading, and lend its answer while it comes; raise the error that a problem tells of.

        Reading on raises httpx2's own TransportError where the answer breaks off; see `cut_off`.
        """
        url = f"{self.url}{path}"
        content = None if body is None else orjson.dumps(body)
        headers = {"Accept": f"{accept}, application/problem+json", "Accept-Encoding": "identity"}
        if body is not None:
            headers |= BRINGING

        async def attempt() -> httpx2.Response:
            request = self._http.build_request(method, url, content=content, params=params, headers=headers)
            response = await self._http.send(request, stream=True)
            if not response.is_success:
                await response.aread()
                read_answer(response, self.url)
            return response

        response = await self._persist(attempt, again=True)
        try:
            yield response
        finally:
            await response.aclose()

    async def _persist(self, attempt: Callable[[], Awaitable[T]], *, again: bool) -> T:
        """Try until there is an answer, for as long as there is patience."""
        self.check_open()
        given_up = asyncio.get_running_loop().time() + self._patience
        pauses = Pauses()
        while True:
            try:
                return await attempt()
            except httpx2.TransportError as error:
                pause = pauses.next()
                if (was_sent(error) and not again) or asyncio.get_running_loop().time() + pause > given_up:
                    raise unavailable(self.url, error) from error
                log.debug("%s cannot be reached (%s); it is tried again", self.url, error)
            except RateLimitedError as error:
                # To wait for its turn is the way of this connection, as to reach the service is: no world knows of it.
                pause = max(seconds_to_wait(error), pauses.next())
                if asyncio.get_running_loop().time() + pause > given_up:
                    raise
                log.debug("%s is asked too often; it is tried again in %.3g s", self.url, pause)
            await asyncio.sleep(pause)

    def check_open(self) -> None:
        """Raise ServiceUnavailableError if the client was closed."""
        if self.closed:
            raise ServiceUnavailableError(f"the client of {self.url} is closed", url=self.url)

    def cut_off(self, error: Exception | None) -> ServiceUnavailableError:
        """Return the error of an answer that was not whole."""
        why = "" if error is None else f": {str(error) or type(error).__name__}"
        what = f"{self.url} broke off before its answer was whole; what has come of it is not all{why}"
        return ServiceUnavailableError(what, url=self.url)

    async def close(self) -> None:
        """Close the connections."""
        self.closed = True
        await self._http.aclose()


def path_of(*parts: str) -> str:
    """Return the path of these parts, each escaped whatever it holds."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def moment_params(at_seq: int | None, at: str | None) -> dict[str, Any]:
    """Return the query parameters of a moment. Raises UnreadableMomentError, before anything is sent."""
    seq_or_moment(at_seq, at)
    return {name: value for name, value in (("at_seq", at_seq), ("at", at)) if value is not None}
