"""Routes that FastAPI documents, and that find their way by the path as it was sent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import quote, unquote

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match, WebSocketRoute
from starlette.types import Receive, Scope, Send

from worldledger.errors import InvalidEffectError, SimulationError
from worldledger_service.api.bodies import read_json
from worldledger_service.api.context import services
from worldledger_service.runtime.guarding import guarded


class _ReadRequest(Request):
    """A request whose body is read: FastAPI asks whether there is one, and for its value."""

    def __init__(self, request: Request, value: Any) -> None:
        super().__init__(request.scope, request.receive)
        self._value = value

    async def body(self) -> bytes:
        """Return something: there is a body."""
        return b"{}"

    async def json(self) -> Any:
        """Return the value that was read."""
        return self._value


class BodyRoute(APIRoute):
    """A route whose body, where it takes one, is read by `read_json` and validated by FastAPI."""

    @staticmethod
    def refused(reason: str, path: str) -> SimulationError:
        """Make the error for a body that is wrong at this JSON path."""
        return InvalidEffectError(reason, path)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, behind the reading of the body."""
        handler = super().get_route_handler()
        if self.body_field is None:
            return handler

        async def read(request: Request) -> Response:
            try:
                value = await read_json(request, services(request).settings.max_body_bytes)
            except InvalidEffectError as error:
                raise self.refused(error.reason, error.path) from None
            return await handler(_ReadRequest(request, value))

        return read


class ReadingRoute(BodyRoute):
    """A route whose GET is answered within `outage_patience` while the database is silent.

    Then StoreUnavailableError is raised; what was asked goes on by itself.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler, as a task that can be left."""
        handler = super().get_route_handler()
        if self.methods != {"GET"}:
            return handler

        async def patiently(request: Request) -> Response:
            outages = services(request).store.outages
            with outages.watchdog.asked():
                return await guarded(outages, handler(request))

        return patiently


class EscapedRoute(BodyRoute):
    """A route whose path parameters may hold any character: a ``/`` that is sent as ``%2F`` parts no segments.

    Servers hand on the path with its escapes undone, so that an agent called ``a/view`` could not be told from the
    view of ``a``. Here the path is taken from ``raw_path``.
    """

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path segment by segment."""
        return _undone(*super().matches(_escaped(scope)))


class BareRoute(EscapedRoute):
    """One that FastAPI only documents: the endpoint is called with the request, and nothing stands in between."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the endpoint itself."""
        endpoint: Callable[[Request], Awaitable[Response]] = self.endpoint
        return endpoint


class EscapedWebSocketRoute(WebSocketRoute):
    """The same for WebSockets; the endpoint is an ASGI application."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Match the path segment by segment."""
        match, found = _undone(*super().matches(_escaped(scope)))
        if match is not Match.NONE:
            found["route"] = self
        return match, found


def _escaped(scope: Scope) -> Scope:
    """Return the scope with a path in which every segment is escaped, always in the same way."""
    raw: bytes = scope.get("raw_path") or b""
    if b"%" not in raw:
        return scope
    segments = [quote(unquote(segment), safe="") for segment in raw.decode("latin-1").split("/")]
    return {**scope, "path": "/".join(segments)}


def _undone(match: Match, found: Scope) -> tuple[Match, Scope]:
    if match is not Match.NONE:
        found["path_params"] = {name: unquote(value) for name, value in found["path_params"].items()}
    return match, found


def segment(text: str) -> str:
    """Escape a text so that it is one segment of a path."""
    return quote(text, safe="")
