"""A world's own time over HTTP: who sets it, and its ticks."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field, PlainValidator
from starlette.requests import Request
from starlette.responses import Response

from worldledger.drafts import check_sim_time
from worldledger.time_authority import AUTHORITY_PATTERN
from worldledger_service.api.answers import to_json
from worldledger_service.api.context import services
from worldledger_service.api.effects import Receipt
from worldledger_service.api.openapi import (
    CHECKSUM,
    HEX32,
    HEX64,
    UUID,
    Body,
    GlobalSeq,
    Shape,
    header,
    json_of,
    problems,
)
from worldledger_service.api.parameters import WorldName, once
from worldledger_service.api.routing import EscapedRoute
from worldledger_service.runtime.guarding import guarded

#: How OpenAPI says what an adapter may be called; the world says it of others.
_ADAPTER: Final[dict[str, Any]] = {"pattern": AUTHORITY_PATTERN}
Seconds = Annotated[float, PlainValidator(check_sim_time, json_schema_input_type=float)]

# -- shapes ------------------------------------------------------------------------------------------------

_CLOSED: dict[str, Any] = {
    "global_seq": 43,
    "uuid": UUID,
    "checksum": CHECKSUM,
    "replayed": False,
    "tick": 17,
    "accepted": 20,
    "refused": 1,
}
_SILENCE: dict[str, Any] = {
    "authority": "unity",
    "last_tick_seq": 57,
    "reason": "disconnected",
    "global_seq": 58,
}


class Tick(Body):
    """A step of a world's own time."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"adapter": "unity", "sim_time": 12.5}]})

    adapter: str = Field(json_schema_extra=_ADAPTER, description="The adapter that has the authority.")
    sim_time: Seconds = Field(
        description="Seconds of the adapter's own time; with its offset never lower than the world's."
    )


class TickClosing(Body):
    """The closing of a tick."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"source": "referee"}]})

    source: str = Field(
        json_schema_extra=_ADAPTER,
        description="The adapter that has the authority over time; any name if none has.",
    )


class ClosedTick(Shape):
    """A closed tick of a world that is ordered by ticks."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_CLOSED]})

    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32)
    checksum: str = Field(pattern=HEX64, description="SHA-256 over the previous checksum (hex) and the effect's bytes.")
    replayed: bool
    tick: int = Field(ge=1, description="The number of the tick.")
    accepted: int = Field(ge=0, description="How many intents became effects.")
    refused: int = Field(ge=0, description="How many did not.")


class TimeAuthority(Body):
    """A request to change the authority that sets sim_time."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"authority": "unity"}]})

    authority: str = Field(
        json_schema_extra=_ADAPTER,
        description="`none` (or `wall`): the clock; `client`: any draft; or the name of an adapter.",
    )
    zero: float | None = Field(
        default=None,
        description="The world's sim_time at which the authority's own 0.0 lies. By default where the world stands; "
        "for `client` 0.0. Not for `none`, which goes on from where the world stands.",
    )
    force: bool = Field(
        default=True, description="False: an adapter takes over only from another one that is silent (409 else)."
    )


class AuthoritySilence(Shape):
    """The silence of the adapter that has the time authority."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_SILENCE]})

    authority: str
    last_tick_seq: GlobalSeq | None = Field(description="Its last tick; null if none came since it took over.")
    reason: str = Field(
        description="`disconnected`: the connection of its last tick or take-over ended; `no_tick`: none came."
    )
    global_seq: GlobalSeq = Field(description="The effect WorldTimeAuthoritySilent.")


class TimeAuthorityNow(Shape):
    """The authority that sets sim_time."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"authority": "unity", "offset": 12.5, "since_seq": 43, "last_tick_seq": 57, "silence": _SILENCE}
            ]
        },
    )

    authority: str = Field(description="`wall` (the clock), `client` (any draft) or the name of an adapter.")
    offset: float = Field(description="The number that is added to the authority's own time: sim_time is the sum.")
    since_seq: GlobalSeq = Field(description="The effect that named it.")
    last_tick_seq: GlobalSeq | None = Field(description="The last tick since then.")
    silence: AuthoritySilence | None = Field(description="That it is not heard any more, until its next tick.")


class TimeAuthoritySet(Shape):
    """The new authority that sets sim_time, and the effect from which it does."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"authority": "unity", "offset": 12.5, "global_seq": 43}]}
    )

    authority: str = Field(description="`none` (or `wall`), `client` or the name of an adapter, as it was asked for.")
    offset: float = Field(description="The number that is added to the authority's own time: sim_time is the sum.")
    global_seq: GlobalSeq


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])


@router.post(
    "/v1/worlds/{world}/time",
    operation_id="tick",
    summary="Move a world's sim_time on",
    status_code=201,
    response_class=Response,
    responses={
        201: {
            **json_of(Receipt, ClosedTick),
            "description": "The effect WorldTimeSet is durable.",
            "headers": {"Location": header("The address of the effect.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def tick(request: Request, world: WorldName, body: Tick) -> Response:
    """Move sim_time on, as the adapter that has the authority over it: any other, and a time before, is refused."""
    receipt = await (await services(request).worlds.get(world)).tick(body.adapter, body.sim_time)
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
            **json_of(ClosedTick),
            "description": "The tick is closed: all that was held is decided, and durable.",
            "headers": {"Location": header("The address of the tick's effect.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def close_tick(request: Request, world: WorldName, body: TickClosing) -> Response:
    """Close the tick of a world that is ordered by ticks: all intents that are held are decided, in one order.

    Where an adapter has the authority over time it alone may, and `source` is its name; else anybody.
    """
    receipt = await (await services(request).worlds.get(world)).close_tick(body.source)
    headers = {"Location": f"/v1/worlds/{world}/effects/{receipt.global_seq}", "Cache-Control": "no-store"}
    return Response(to_json(receipt._asdict()), 201, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/time-authority",
    operation_id="get_time_authority",
    summary="The authority that sets a world's sim_time",
    response_class=Response,
    responses={
        200: {**json_of(TimeAuthorityNow), "description": "The authority that sets sim_time, and its silence."},
        **problems(404, 422, 503),
    },
)
async def get_time_authority(request: Request, world: WorldName) -> Response:
    """Return the authority that sets sim_time at the world's head, its offset, and its silence if it is silent."""
    store = services(request).store
    await guarded(store.outages, store.world(world))
    found = await guarded(store.outages, store.time_authority(world))
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
    summary="Set the authority that sets a world's sim_time",
    response_class=Response,
    responses={
        200: {**json_of(TimeAuthoritySet), "description": "The effect WorldTimeAuthoritySet is durable."},
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def set_time_authority(request: Request, world: WorldName, body: TimeAuthority) -> Response:
    """Let an adapter (`unity`, `unreal` …) set sim_time from now on, `client` any draft, or `none` the wall clock.

    `zero` is the world's sim_time at the authority's own 0.0: by default the world's present one. With
    `force` false an adapter takes over only from another one that is silent.
    """
    found = services(request)
    receipt = await (await found.worlds.get(world)).set_sim_time_authority(
        body.authority, zero=body.zero, force=body.force
    )
    effect = orjson.loads((await found.store.reader.effect(world, receipt.global_seq)).text)
    answer = {"authority": body.authority, "offset": effect["payload"]["offset"], "global_seq": receipt.global_seq}
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")
