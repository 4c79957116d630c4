"""What becomes of requests that a stopping service does not wait for any longer, plain ASGI."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from worldledger.errors import StoreUnavailableError
from worldledger_service.api.problems import problem_response

if TYPE_CHECKING:
    from worldledger_service.api.context import Services


class Stopping:
    """Wraps the application: a request that the server cancels because it stops is answered, and ends in order.

    The server says in one line of the log how many it has cancelled; where each of them stood nobody needs to know.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or one WebSocket."""
        started = False

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, noted)
        except asyncio.CancelledError:
            found: Services | None = getattr(scope["app"].state, "services", None)
            if scope["type"] == "lifespan" or found is None or not found.stopping.is_set():
                raise
            if not started:
                what = "the service has stopped before this was answered; what became of it is not known"
                await problem_response(scope, StoreUnavailableError(what, outcome="unknown"))(scope, receive, send)
