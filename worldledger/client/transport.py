"""HTTP to one service: JSON in and out, problems raised as errors, lost connections replaced."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import quote, urlsplit

import httpx2
import orjson

from worldledger import errors
from worldledger.aio import Backoff
from worldledger.errors import RateLimitedError, SimulationError, StartingError, StoreUnavailableError
from worldledger.moments import seq_or_moment
from worldledger.remade_errors import remade

# From a problem (RFC 9457) back to the error that it was made of: the same class, attributes, recovery and details.


#: The members of a problem that are not details of the error.
_STANDARD: Final = frozenset({"type", "title", "status", "detail", "code", "recovery", "instance"})
#: Statuses by which a proxy says that the service cannot be reached.
_NOT_THERE: Final = frozenset({502, 503, 504})


class ServiceUnavailableError(StoreUnavailableError):
    """The service cannot be reached, or went away before it answered; details: ``url``, ``outcome``.

    Where ``outcome`` is ``unknown`` the request may have been carried out; the same req_id makes it safe to try again.
    """

    code = "service_unavailable"


class RemoteError(SimulationError):
    """A problem of a code that this version of the client does not know; ``code`` is that code, details its members."""

    code = "remote_error"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        if code is not None:
            vars(self)["code"] = code


def error_of(problem: Mapping[str, Any]) -> SimulationError:
    """Return the error that a problem tells of.

    ``intent`` of an error has what the problem names of it; everything else is as it was in the service. What is no
    problem of ours, or has a code that is not known here, becomes a RemoteError.
    """
    code = _text(problem.get("code")) or "remote_error"
    message = _text(problem.get("detail")) or _text(problem.get("title")) or code
    details = {name: value for name, value in problem.items() if name not in _STANDARD}
    return remade(code, message, details, problem.get("recovery"), more=_MORE, unknown=_unknown)


def error_of_answer(status: int, body: object, url: str) -> SimulationError:
    """Return the error that an answer over HTTP tells of, by its parsed body or else by its status."""
    if isinstance(body, Mapping) and "code" in body:
        return error_of(body)
    what = f"{url} answered with status {status}"
    if status in _NOT_THERE:
        return ServiceUnavailableError(what, url=url, status=status)
    return RemoteError(what, code=f"http_{status}", url=url, status=status)


def new_backoff() -> Backoff:
    """Return the pauses of a client whose service is away: clients do not all come at once when it is back."""
    return Backoff(0.05, 5.0, spread=(0.5, 1.0))


def seconds_to_wait(error: SimulationError) -> float:
    """Return the seconds after which the service says to try again; 0 if it does not say."""
    said = error.details.get("retry_after_s")
    return float(said) if isinstance(said, int | float) else 0.0


def _unknown(code: str, message: str) -> RemoteError:
    return RemoteError(message, code=code)


#: Classes that are not in the tree. HTTP's position to continue from is an orchestrator's moment.
_MORE: Final[Mapping[str, type[SimulationError]]] = {
    ServiceUnavailableError.code: ServiceUnavailableError,
    "position_ahead": errors.MomentNotFoundError,
}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


# -- common to both transports: addresses, reading answers, the error of a missing answer ---------------------------

#: Headers of a request for JSON, and of one that sends some.
ACCEPTING: Final = {"Accept": "application/json, application/problem+json"}
BRINGING: Final = {"Content-Type": "application/json"}


class Answer(NamedTuple):
    """An answer of the service that is not a problem: its status and its parsed body (None: no body)."""

    status: int
    value: Any


def read_answer(response: httpx2.Response, url: str) -> Answer:
    """Return the content of an answer; raise the error that it reports."""
    try:
        value = orjson.loads(response.content) if response.content else None
    except orjson.JSONDecodeError:
        value = None
    if response.is_success:
        return Answer(response.status_code, value)
    raise error_of_answer(response.status_code, value, url)


def was_sent(error: httpx2.TransportError) -> bool:
    """Return whether a request without an answer may have been carried out."""
    return not isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)


#: Refusals that pass, and that are of the connection and not of what was asked: worlds do not see them.
_PASSING: Final = (RateLimitedError, StartingError)


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
    """Return a service's address in the form that requests use; raise ValueError for an invalid one."""
    try:
        parts = urlsplit(url)
        fit = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is not a number, half an IPv6 address
        fit = False
    if not fit:
        raise ValueError(f"{url!r} is no address of a service, such as http://127.0.0.1:8000")
    return parts.geturl().rstrip("/")  # with the scheme in lower case


def _has_tls(url: str) -> bool:
    """Tell whether there is a certificate to check: to load the authorities that may sign one takes 40 ms."""
    return url.startswith("https:")


T = TypeVar("T")

log = logging.getLogger("worldledger.client")


class Transport:
    """One service's HTTP interface, with a pool of connections that all worlds share.

    ``timeout``: seconds that an answer may take. ``patience``: seconds for which a service that cannot be reached, is
    starting or gets too many requests is tried again before ServiceUnavailableError or RateLimitedError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = checked_address(url)
        self.closed = False
        self._patience = patience
        # A request that waits for a connection of the pool waits for requests that have a timeout each.
        waiting = httpx2.Timeout(timeout, pool=None)
        self._http = httpx2.AsyncClient(headers=ACCEPTING, timeout=waiting, verify=_has_tls(self.url))

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        again: bool = True,
    ) -> Answer:
        """Send a request and return the answer; raise the error that a problem reports.

        ``again`` says that a request may be sent again if its connection was lost and it is unknown whether it was
        carried out; one that did not leave this process, or was not accepted, is always tried again.
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
        """Send a reading request, and lend its answer while it arrives; raise the error that a problem reports.

        Reading on raises httpx2's own TransportError if the answer breaks off; see `cut_off`.
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
        """Try until there is an answer or the patience is used up."""
        given_up = asyncio.get_running_loop().time() + self._patience
        backoff = new_backoff()
        while True:
            self.check_open()  # it may be closed during a pause
            try:
                return await attempt()
            except httpx2.TransportError as error:
                pause = backoff.next()
                if (was_sent(error) and not again) or asyncio.get_running_loop().time() + pause > given_up:
                    raise unavailable(self.url, error) from error
                log.debug("%s cannot be reached (%s); it is tried again", self.url, error)
            except _PASSING as error:
                pause = max(seconds_to_wait(error), backoff.next())
                if asyncio.get_running_loop().time() + pause > given_up:
                    raise
                log.debug("%s; it is tried again in %.3g s", error, pause)
            await asyncio.sleep(pause)

    def check_open(self) -> None:
        """Raise ServiceUnavailableError if the client was closed."""
        if self.closed:
            raise ServiceUnavailableError(f"the client of {self.url} is closed", url=self.url)

    def cut_off(self, error: Exception | None) -> ServiceUnavailableError:
        """Return the error of an incomplete answer."""
        why = "" if error is None else f": {str(error) or type(error).__name__}"
        what = f"{self.url} broke off before its answer was whole; what has come of it is not all{why}"
        return ServiceUnavailableError(what, url=self.url)

    async def close(self) -> None:
        """Close the connections."""
        self.closed = True
        await self._http.aclose()


def path_of(*parts: str) -> str:
    """Return the path of these parts, each escaped."""
    return "".join(f"/{quote(part, safe='')}" for part in parts)


def moment_params(at_seq: int | None, at: str | None) -> dict[str, Any]:
    """Return the query parameters of a moment. Raises UnreadableMomentError before anything is sent."""
    seq_or_moment(at_seq, at)
    return {name: value for name, value in (("at_seq", at_seq), ("at", at)) if value is not None}


# -- the same for programs without asyncio --------------------------------------------------------------------------


class BlockingTransport:
    """One service's HTTP interface over kept connections; calls block until they are answered.

    ``url`` begins with http:// or https:// and names a host; any other raises ValueError. ``timeout``: seconds that an
    answer may take. ``patience``: seconds for which a service that cannot be reached, is starting or gets too many
    requests is tried again before ServiceUnavailableError or RateLimitedError is raised.
    """

    def __init__(self, url: str, *, timeout: float, patience: float) -> None:
        self.url = checked_address(url)
        self._patience = patience
        self._http = httpx2.Client(headers=ACCEPTING, timeout=timeout, verify=_has_tls(self.url))

    def call(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Any:
        """Send a request and return the content of its answer; raise the error that a problem reports.

        It is sent again if its connection was lost: a request that must not be carried out twice has a ``key`` (its
        Idempotency-Key), or a req_id in its body.
        """
        url = f"{self.url}{path}"
        headers = {} if body is None else dict(BRINGING)
        if key is not None:
            headers["Idempotency-Key"] = key
        content = None if body is None else orjson.dumps(body)
        if self._http.is_closed:
            raise ServiceUnavailableError(f"the client of {self.url} is closed", url=self.url)
        given_up = time.monotonic() + self._patience
        backoff = new_backoff()
        while True:
            failure: SimulationError
            pause = backoff.next()
            try:
                response = self._http.request(method, url, content=content, params=params, headers=headers)
                answer = read_answer(response, self.url)
            except httpx2.TransportError as error:
                failure = unavailable(self.url, error)
                failure.__cause__ = error
            except _PASSING as error:
                failure = error
                pause = max(seconds_to_wait(error), pause)
            else:
                if answer.value is None:  # the answer is not the service's own
                    raise error_of_answer(answer.status, None, self.url)
                return answer.value
            if time.monotonic() + pause > given_up:
                raise failure
            log.debug("%s; it is tried again in %.3g s", failure, pause)
            time.sleep(pause)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
