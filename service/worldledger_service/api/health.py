"""The health of the process: that it is alive, and that it can work."""

from __future__ import annotations

from typing import Any, Final, Literal

import orjson
import structlog
from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from worldledger.errors import SimulationError, StartingError, StoreUnavailableError
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import Shape, json_of, problems
from worldledger_service.api.parameters import once
from worldledger_service.api.problems import WritesRefusedError, problem_response

# -- shapes ------------------------------------------------------------------------------------------------


class Health(Shape):
    """The process is alive."""

    status: Literal["alive"]


class ProjectionHealth(Shape):
    """The status of a projection, for `/readyz`. Null if it has no live build."""

    lag: int | None = Field(description="Effects that the live build has still to read.")
    lag_seconds: float | None = Field(description="Since when the first of them is due; null if nothing is.")
    parked: int | None = Field(description="Worlds that are set aside.")
    paused: bool | None
    rebuilding: bool


class Readiness(Shape):
    """The service is ready to work, with the status of its projections; one that lags makes it no less ready."""

    status: Literal["ready"]
    projections: dict[str, ProjectionHealth] | None = Field(description="Null if it was not known in time.")


# -- routes -------------------------------------------------------------------------------------------------

#: Seconds after which a database that does not answer counts as away.
_PATIENCE: Final = 3.0
#: Seconds after which nothing is told of the projections.
_SHORT_PATIENCE: Final = 1.0

log = structlog.get_logger("worldledger.api")

router = APIRouter(tags=["health"], dependencies=[Depends(once)])


@router.get(
    "/livez",
    operation_id="livez",
    summary="Whether the process is alive",
    response_class=Response,
    responses={200: {**json_of(Health), "description": "It is."}, **problems()},
)
async def livez() -> Response:
    """Answer without looking at the database."""
    return _json({"status": "alive"})


@router.get(
    "/readyz",
    operation_id="readyz",
    summary="Whether the service can work",
    response_class=Response,
    responses={200: {**json_of(Readiness), "description": "It can."}, **problems(503)},
)
async def readyz(request: Request) -> Response:
    """Ask the database, and compare its schema with the one that this program needs.

    A database that does not answer within 3 seconds counts as away. One that refused a write in the last 30 seconds,
    because its disk is full, say, and has taken none since, is 503 `writes_refused`. How far the projections are behind
    is told, and makes the service no less ready: worlds are written and read all the same.
    """
    found = services(request)
    try:
        await found.questions.ask(found.store.ping, _PATIENCE)
    except TimeoutError:
        raise StoreUnavailableError(f"the database did not answer within {_PATIENCE:g} s") from None
    if (why := found.store.outages.takes_no_writes) is not None:
        raise WritesRefusedError(f"the database takes no writes: {why}")
    return _json({"status": "ready", "projections": await _projections(found)})


async def _projections(found: Services) -> dict[str, Any] | None:
    """Return how the projections stand, None where it cannot be told in time."""
    try:
        statuses = await found.questions.ask(found.projections.status, _SHORT_PATIENCE)
    except (TimeoutError, SimulationError) as error:
        log.warning("readiness without projections", error=str(error) or type(error).__name__)
        return None
    return {
        status.name: {
            "lag": status.live and status.live.effects_behind,
            "lag_seconds": status.live and status.live.seconds_behind,
            "parked": status.live and status.live.parked,
            "paused": status.live and status.live.paused,
            "rebuilding": status.building is not None,
        }
        for status in statuses
    }


class Opening:
    """The application, once there is one; until then each request is answered with what the service waits for.

    Only `/livez` is answered as it is later: the process is alive.
    """

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        #: what the start is at
        self.step = "it connects to the database"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run one request, or one WebSocket."""
        if self.app is not None:
            await self.app(scope, receive, send)
        elif scope["path"] == "/livez" and scope["type"] == "http":
            await (await livez())(scope, receive, send)
        else:
            error = StartingError(f"the service is starting: {self.step}")
            await problem_response(scope, error)(scope, receive, send)


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value), 200, {"Cache-Control": "no-store"}, "application/json")
