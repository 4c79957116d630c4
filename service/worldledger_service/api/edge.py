"""The outermost layer, plain ASGI: nothing leaves as a bare 500, and HEAD is answered wherever GET is."""

from __future__ import annotations

from time import perf_counter

import structlog
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.utils import ClientDisconnected

from worldledger.errors import OverloadedError, RateLimitedError
from worldledger_service.api.context import ON_END
from worldledger_service.api.errors import HostRefusedError, OriginRefusedError
from worldledger_service.api.hosts import check_host, check_origin
from worldledger_service.api.limiting import Limiter, Standing
from worldledger_service.api.metrics import Metrics
from worldledger_service.api.problems import internal_error, no_route, problem_response
from worldledger_service.api.streaming import StreamAbortedError

log = structlog.get_logger("worldledger.api")


class Edge:
    """Wraps the application.

    An error that nobody foresaw is logged with its traceback and answered with a problem that tells nothing of it;
    after the response has begun it is raised on, so that the server aborts the connection. A HEAD request runs as
    GET, and its response ends after the headers. Where ``hosts`` are given, other names for the service are refused;
    where there is a ``limiter``, so is who asks too often. Every answer is counted, and the time until it began.
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
        if scope["type"] == "http":
            try:
                await self._http(scope, receive, send)
            finally:
                if ON_END in scope:
                    scope[ON_END]()
        elif scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = perf_counter()
        method = scope["method"]
        head = method == "HEAD"
        if head:
            scope = {**scope, "method": "GET"}
        started = ended = False
        standing: Standing | None = None

        async def guarded(message: Message) -> None:
            nonlocal started, ended
            if not started:
                started = True
                message = _with_standing(message, standing)
                self._metrics.answered(method, scope, message["status"], perf_counter() - begun)
            if head:
                if ended:
                    return
                if message["type"] == "http.response.body":
                    ended = True
                    message = {"type": "http.response.body", "body": b"", "more_body": False}
            await send(message)

        try:
            if self._limiter is not None and (counted := self._limiter.counted(scope)) is not None:
                standing = await self._limiter.count(counted)
                self._check(standing)
            if self._hosts:
                check_host(scope, self._hosts)
            await self._app(scope, receive, guarded)
        except (RateLimitedError, HostRefusedError) as error:
            await problem_response(scope, error)(scope, receive, guarded)
        except ClientDisconnect:
            return  # nobody is there to be answered
        except StreamAbortedError:
            raise  # logged where it arose
        except Exception as error:
            answer = _unforeseen(error, scope)
            if started:
                raise
            await answer(scope, receive, guarded)

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one WebSocket; until it is accepted, whatever goes wrong is an HTTP answer."""
        begun = perf_counter()
        started = False
        standing: Standing | None = None

        async def guarded(message: Message) -> None:
            nonlocal started
            if not started:
                if message["type"] == "websocket.close":  # the router's word on an address that is none's
                    await no_route(scope)(scope, receive, guarded)
                    return
                started = True
                message = _with_standing(message, standing)
                status = 101 if message["type"] == "websocket.accept" else message["status"]
                self._metrics.answered("GET", scope, status, perf_counter() - begun)
            await send(message)

        try:
            if self._limiter is not None and (counted := self._limiter.counted(scope)) is not None:
                standing = await self._limiter.count(counted)
                self._check(standing)
            if self._hosts:
                check_host(scope, self._hosts)
            check_origin(scope)
            await self._app(scope, receive, guarded)
        except (RateLimitedError, HostRefusedError, OriginRefusedError) as error:
            await problem_response(scope, error)(scope, receive, guarded)
        except ClientDisconnected:
            return
        except Exception:
            log.exception("unforeseen error", method="WebSocket", path=scope["path"])
            if not started:
                await internal_error(scope)(scope, receive, guarded)

    def _check(self, standing: Standing) -> None:
        """Raise RateLimitedError for a request that was one too many."""
        if standing.error is not None:
            self._metrics.limited()
            raise standing.error


def _unforeseen(error: Exception, scope: Scope) -> Response:
    """Log an error that nobody foresaw, and return what it is answered with."""
    if isinstance(error, MemoryError):
        log.warning("a request needs more memory than there is", method=scope["method"], path=scope["path"])
        what = "this request needs more memory than there is now; try again, or with less"
        return problem_response(scope, OverloadedError(what))
    log.error("unforeseen error", method=scope["method"], path=scope["path"], exc_info=error)
    return internal_error(scope)


def _with_standing(message: Message, standing: Standing | None) -> Message:
    """Return the beginning of an answer with the headers that tell a limited client how it stands."""
    if standing is None:
        return message
    return {**message, "headers": [*message.get("headers", ()), *standing.headers]}
