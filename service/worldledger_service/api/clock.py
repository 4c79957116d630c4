"""A world's own time over HTTP: who sets it, and its ticks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from worldledger.drafts import json_name
from worldledger.errors import InvalidEffectError
from worldledger_service.api.answers import to_json
from worldledger_service.api.bodies import read_object
from worldledger_service.api.context import services
from worldledger_service.api.openapi import body_of, header, json_of, problems
from worldledger_service.api.parameters import WorldName, once
from worldledger_service.api.routing import EscapedRoute
from worldledger_service.runtime.guarding import reading

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])


@router.post(
    "/v1/worlds/{world}/time",
    operation_id="tick",
    summary="Move a world's sim_time on",
    status_code=201,
    response_class=Response,
    responses={
        201: {
            **json_of("Receipt", "ClosedTick"),
            "description": "The effect WorldTimeSet is durable.",
            "headers": {"Location": header("Where the effect is.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": body_of("Tick")},
)
async def tick(request: Request, world: WorldName) -> Response:
    """Move sim_time on, as the adapter that has the authority over it: any other, and a time before, is refused."""
    adapter, sim_time = check_tick(await _read(request, "a tick", ("adapter", "sim_time")))
    receipt = await (await services(request).worlds.get(world)).tick(adapter, sim_time)
    headers = {"Location": f"/v1/worlds/{world}/effects/{receipt.global_seq}", "Cache-Control": "no-store"}
    return Response(to_json(receipt._asdict()), 201, headers, "application/json")


@router.post(
    "/v1/worlds/{world}/ticks",
    operation_id="close_tick",
    summary="Close a world's tick without setting sim_time",
    status_code=201,
    response_class=Response,
    responses={
        201: {
            **json_of("ClosedTick"),
            "description": "The tick is closed: all that was held is decided, and durable.",
            "headers": {"Location": header("Where the tick's effect is.")},
        },
        **problems(404, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": body_of("TickClosing")},
)
async def close_tick(request: Request, world: WorldName) -> Response:
    """Close the tick of a world that is ordered by ticks: all intents that are held are decided, in one order.

    Where an adapter has the authority over time it alone may, and `source` is its name; else anybody.
    """
    source = _named(await _read(request, "the closing of a tick", ("source",)), "source")
    receipt = await (await services(request).worlds.get(world)).close_tick(source)
    headers = {"Location": f"/v1/worlds/{world}/effects/{receipt.global_seq}", "Cache-Control": "no-store"}
    return Response(to_json(receipt._asdict()), 201, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/time-authority",
    operation_id="get_time_authority",
    summary="Who sets a world's sim_time",
    response_class=Response,
    responses={
        200: {**json_of("TimeAuthorityNow"), "description": "Who sets sim_time, and whether it is silent."},
        **problems(404, 422, 503),
    },
)
async def get_time_authority(request: Request, world: WorldName) -> Response:
    """Tell who sets sim_time as of the world's head, what is added to its own time, and whether it is silent."""
    store = services(request).store
    await reading(store.outages, store.world(world))
    found = await reading(store.outages, store.time_authority(world))
    answer = {
        "authority": found.name,
        "offset": found.offset,
        "since_seq": found.since_seq,
        "last_tick_seq": found.last_tick_seq,
        "silence": None if found.silence is None else found.silence._asdict(),
    }
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")


@router.put(
    "/v1/worlds/{world}/time-authority",
    operation_id="set_time_authority",
    summary="Say who is to set a world's sim_time",
    response_class=Response,
    responses={
        200: {**json_of("TimeAuthoritySet"), "description": "The effect WorldTimeAuthoritySet is durable."},
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": body_of("TimeAuthority")},
)
async def set_time_authority(request: Request, world: WorldName) -> Response:
    """Have an adapter (`unity`, `unreal` …) set sim_time from here on, `client` any draft, or `none` the wall clock.

    `zero` is the world's sim_time at which the authority's own 0.0 lies: by default where the world stands. With
    `force` false an adapter takes over only from another one that is silent.
    """
    body = await _read(request, "a time authority", ("authority",), ("zero", "force"))
    authority, zero, force = _named(body, "authority"), body.get("zero"), body.get("force", True)
    if type(force) is not bool:
        raise InvalidEffectError(f"force is true or false, not {json_name(force)}", "$.force")
    found = services(request)
    receipt = await (await found.worlds.get(world)).set_sim_time_authority(authority, zero=zero, force=force)
    effect = orjson.loads((await found.store.reader.effect(world, receipt.global_seq)).text)
    answer = {"authority": authority, "offset": effect["payload"]["offset"], "global_seq": receipt.global_seq}
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")


async def _read(
    request: Request, what: str, required: tuple[str, ...], optional: tuple[str, ...] = ()
) -> dict[str, Any]:
    return await read_object(request, services(request).settings.max_body_bytes, what, required, optional)


def check_tick(body: Mapping[str, Any]) -> tuple[str, float]:
    """Return adapter and sim_time of a tick, if they are of the right types. Raises InvalidEffectError."""
    sim_time = body["sim_time"]
    if type(sim_time) is not float and type(sim_time) is not int:
        raise InvalidEffectError(f"sim_time is a number of seconds, not {json_name(sim_time)}", "$.sim_time")
    return _named(body, "adapter"), sim_time


def _named(body: Mapping[str, Any], name: str) -> str:
    if type(body[name]) is not str:
        raise InvalidEffectError(f"{name} is a name, not {json_name(body[name])}", f"$.{name}")
    found: str = body[name]
    return found
