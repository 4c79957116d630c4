"""HTTP to one service for programs that wait for each answer: as `worldledger.client.transport`, without asyncio."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx2
import orjson

from worldledger.client.pauses import Pauses
from worldledger.client.problems import ServiceUnavailableError, error_of_answer, seconds_to_wait
from worldledger.errors import RateLimitedError, SimulationError

log = logging.getLogger("worldledger.client")

_HEADERS: Final = {"Accept": "application/json, application/problem+json"}
_JSON: Final = {"Content-Type": "application/json"}


class BlockingTransport:
    """One service's HTTP interface, over connections that are kept.

    ``url`` begins with http:// or https:// and names a host; ValueError is raised for any other. ``timeout``: seconds
    that an answer may take. ``patience``: seconds for which a service that cannot be reached, or says that it is asked
    too often, is tried again before ServiceUnavailableError or RateLimitedError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = _checked(url)
        self._patience = patience
        self._http = httpx2.Client(headers=_HEADERS, timeout=timeout)

    def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a request, give what its answer says, and raise the error that a problem tells of.

        It is sent again when its connection was lost: what must not be done twice has a ``key`` (its Idempotency-Key),
        or a req_id in its body.
        """
        url = f"{self.url}{path}"
        headers = {} if body is None else dict(_JSON)
        if key is not None:
            headers["Idempotency-Key"] = key
        content = None if body is None else orjson.dumps(body)
        if self._http.is_closed:
            raise ServiceUnavailableError(f"the client of {self.url} is closed", url=self.url)
        given_up = time.monotonic() + self._patience
        pauses = Pauses()
        while True:
            failure: SimulationError
            pause = pauses.next()
            try:
                return self._read(self._http.request(method, url, content=content, params=params, headers=headers))
            except httpx2.TransportError as error:
                failure = self._unavailable(error)
                failure.__cause__ = error
            except RateLimitedError as error:
                failure = error
                pause = max(seconds_to_wait(error), pause)
            if time.monotonic() + pause > given_up:
                raise failure
            log.debug("%s; it is tried again in %.3g s", failure, pause)
            time.sleep(pause)

    def _unavailable(self, error: Exception) -> ServiceUnavailableError:
        sent = not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
        why = str(error) or type(error).__name__
        what = f"{self.url} {'went away before it answered' if sent else 'cannot be reached'}: {why}"
        return ServiceUnavailableError(what, url=self.url, outcome="unknown" if sent else None)

    def _read(self, response: httpx2.Response) -> Any:
        try:
            value = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            value = None
        if response.is_success and value is not None:
            return value
        raise error_of_answer(response.status_code, value, self.url)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()


def _checked(url: str) -> str:
    try:
        found = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise ValueError(f"{url!r} is no address of a service: {error}") from None
    if found.scheme not in {"http", "https"} or not found.host:
        raise ValueError(f"{url!r} is no address of a service, such as http://127.0.0.1:8000")
    return str(found).rstrip("/")
