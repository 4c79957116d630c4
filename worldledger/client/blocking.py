"""HTTP to one service for programs that wait for each answer: as `worldledger.client.transport`, without asyncio."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any

import httpx2
import orjson

from worldledger.client.answers import ACCEPTING, BRINGING, checked_address, read_answer, unavailable
from worldledger.client.pauses import Pauses
from worldledger.client.problems import ServiceUnavailableError, error_of_answer, seconds_to_wait
from worldledger.errors import RateLimitedError, SimulationError

log = logging.getLogger("worldledger.client")


class BlockingTransport:
    """One service's HTTP interface, over connections that are kept.

    ``url`` begins with http:// or https:// and names a host; ValueError is raised for any other. ``timeout``: seconds
    that an answer may take. ``patience``: seconds for which a service that cannot be reached, or says that it is asked
    too often, is tried again before ServiceUnavailableError or RateLimitedError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = checked_address(url)
        self._patience = patience
        self._http = httpx2.Client(headers=ACCEPTING, timeout=timeout)

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
        headers = {} if body is None else dict(BRINGING)
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
                response = self._http.request(method, url, content=content, params=params, headers=headers)
                answer = read_answer(response, self.url)
            except httpx2.TransportError as error:
                failure = unavailable(self.url, error)
                failure.__cause__ = error
            except RateLimitedError as error:
                failure = error
                pause = max(seconds_to_wait(error), pause)
            else:
                if answer.value is None:  # it is not the service that answered
                    raise error_of_answer(answer.status, None, self.url)
                return answer.value
            if time.monotonic() + pause > given_up:
                raise failure
            log.debug("%s; it is tried again in %.3g s", failure, pause)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
