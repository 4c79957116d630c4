"""Blocks of a recording over HTTP, and where a recording goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, RootModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from worldledger_service.api.answers import to_json
from worldledger_service.api.bodies import idempotency_key, read_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import REPLAYED, GlobalSeq, Shape, body_of, json_of, key_header, problems
from worldledger_service.api.parameters import WorldName, finite, once
from worldledger_service.api.problems import Answer, InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.guarding import SAME_REQUEST, guarded

from worldledger.errors import InvalidEffectError, SimulationError
from worldledger_recorder.rules import NotRecordedError
from worldledger_recorder.store import MAX_ID, MOST_LINES, begin, write_block

PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {NotRecordedError: Answer(409, "This world is no recording")}
TAGS: Final = ({"name": "recordings", "description": "What programs record of themselves, block by block."},)

_LINES: list[Any] = [["Spoke", "alice", 0.25, {"text": "hello", "sees": ["bob"]}], [".step", None, 0.5, {}]]
_WRITTEN: dict[str, Any] = {"global_seq": 42, "sim_time": 0.5, "replayed": False}
_BEGUN: dict[str, Any] = {"global_seq": 42, "sim_time": 0.5, "step": 7}


class Block(RootModel[Annotated[list[list[JsonValue]], Field(min_length=1, max_length=MOST_LINES)]]):
    """Lines of a recording: `[kind, agent, clock, payload]`, and a `sim_time` where the program says it."""

    model_config = ConfigDict(json_schema_extra={"examples": [_LINES]})


class BlockReceipt(Shape):
    """The receipt of a block, once it is durable."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_WRITTEN]})

    global_seq: GlobalSeq = Field(description="The world's head after the block.")
    sim_time: float = Field(description="The world's time there.")
    replayed: bool = Field(description="Whether a block of this id had been written before; then nothing was.")


class RecordingPlace(Shape):
    """Where a recording goes on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_BEGUN]})

    global_seq: GlobalSeq = Field(description="The world's head.")
    sim_time: float = Field(description="The world's time there.")
    step: int = Field(ge=0, description="The number of the last step that has begun; 0 before the first.")


router = APIRouter(route_class=ReadingRoute, tags=["recordings"], dependencies=[Depends(once)])


@router.post(
    "/v1/worlds/{world}/blocks",
    operation_id="append_block",
    summary="Append a block of a recording, once",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(BlockReceipt),
            "description": "A block of this id is there already; nothing was written.",
            "headers": REPLAYED,
        },
        201: {**json_of(BlockReceipt), "description": "All of the block is durable."},
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={
        "parameters": [
            {
                **key_header("The block's id: the same again writes nothing, whatever its body.", most=MAX_ID),
                "required": True,
            }
        ],
        "requestBody": body_of(Block),
    },
)
async def append_block(
    request: Request,
    world: WorldName,
    base: Annotated[
        float, BeforeValidator(finite), Query(description="The world's time at which the clock of the lines began.")
    ] = 0.0,
) -> Response:
    """Append what a program has recorded, in its order, all or none, to a world of the ruleset `recorder`.

    A line is `[kind, agent, clock, payload]`: any kind that is no system kind; who did it, or null; seconds since the
    recording began, or null. A fifth member is the world's own time, where the program says it. The kind `.set` gives
    the entity that `agent` names the fields of the payload, `.remove` removes it, `.step` begins a step, numbered by
    the service unless the payload is `{"step": N}`, and `.agent` registers an agent with `{"policy": …}`. Agents that
    are named for the first time are registered.
    """
    found = services(request)
    key = idempotency_key(request)
    if key is None:
        raise InvalidParameterError("Idempotency-Key", "is missing: it names the block", "header")
    lines = await read_json(request, found.settings.max_body_bytes)
    if type(lines) is not list:
        raise InvalidEffectError("a block is a list of lines")
    work = write_block(found.store, world, key, lines, base=base)
    written = await guarded(found.store.outages, work, again=SAME_REQUEST)
    headers = {"Idempotency-Replayed": "true"} if written.is_repeated else {}
    if not written.is_repeated:
        found.metrics.appended(len(lines))
    body = {"global_seq": written.head_seq, "sim_time": written.sim_time, "replayed": written.is_repeated}
    return Response(to_json(body), 200 if written.is_repeated else 201, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/blocks",
    operation_id="get_recording_place",
    summary="Where a recording goes on",
    response_class=Response,
    responses={
        200: {**json_of(RecordingPlace), "description": "Its head, its time and its last step."},
        **problems(404, 409, 422, 503),
    },
)
async def get_recording_place(request: Request, world: WorldName) -> Response:
    """Return the head, the time and the number of the last step of a world of the ruleset `recorder`."""
    begun = await begin(services(request).store, world)
    body = {"global_seq": begun.head_seq, "sim_time": begun.sim_time, "step": begun.step}
    return Response(to_json(body), 200, {"Cache-Control": "no-store"}, "application/json")


ROUTES: Final[tuple[BaseRoute, ...]] = (*router.routes,)
