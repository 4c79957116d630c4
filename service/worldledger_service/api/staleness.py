"""A world's settings of staleness over HTTP."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from worldledger.staleness import NOT_GIVEN, WorldStaleness
from worldledger_service.api.bodies import read_object
from worldledger_service.api.caching import REVALIDATE
from worldledger_service.api.context import services
from worldledger_service.api.inhabitants import PATIENCE
from worldledger_service.api.moments import once
from worldledger_service.api.openapi import body_of, json_of, problems
from worldledger_service.api.parameters import WorldName
from worldledger_service.api.projected import to_json
from worldledger_service.api.routing import EscapedRoute

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])

_PATH = "/v1/worlds/{world}/staleness"


@router.get(
    _PATH,
    operation_id="get_staleness",
    summary="When what agents are about to do is stale",
    response_class=Response,
    responses={200: {**json_of("WorldStaleness"), "description": "The settings."}, **problems(404, 422, 503)},
)
async def get_staleness(request: Request, world: WorldName) -> Response:
    """Return the world's settings of staleness as they stand; agents, intents and generations may have their own."""
    inhabited = await services(request).worlds.get(world)
    await inhabited.fold_known(PATIENCE)
    return Response(to_json(_told(inhabited.staleness)), 200, {"Cache-Control": REVALIDATE}, "application/json")


@router.put(
    _PATH,
    operation_id="set_staleness",
    summary="Set when what agents are about to do is stale",
    response_class=Response,
    responses={
        200: {**json_of("WorldStaleness"), "description": "The effect WorldStalenessSet is durable."},
        **problems(404, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": body_of("Staleness")},
)
async def set_staleness(request: Request, world: WorldName) -> Response:
    """Set staleness_threshold, interrupt_policy or max_staleness_threshold, for what begins from now on.

    What is absent stays as it is; a threshold of null never refuses. The settings are an effect of the world.
    """
    found = services(request)
    names = ("staleness_threshold", "interrupt_policy", "max_staleness_threshold")
    body = await read_object(request, found.settings.max_body_bytes, "settings of staleness", (), names)
    inhabited = await found.worlds.get(world)
    receipt = await inhabited.set_staleness(
        staleness_threshold=body.get("staleness_threshold", NOT_GIVEN),
        interrupt_policy=body.get("interrupt_policy"),
        max_staleness_threshold=body.get("max_staleness_threshold", NOT_GIVEN),
    )
    answer = {**_told(inhabited.staleness), "global_seq": receipt.global_seq}
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")


def _told(settings: WorldStaleness) -> dict[str, Any]:
    return {
        "staleness_threshold": settings.threshold,
        "interrupt_policy": settings.interrupt_policy,
        "max_staleness_threshold": settings.maximum,
    }
