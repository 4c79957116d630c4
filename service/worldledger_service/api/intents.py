"""Intents over HTTP: one, or a list."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter
from pydantic import ConfigDict, Field, JsonValue, RootModel
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_PRIORITY
from worldledger.errors import InvalidEffectError, InvalidIntentError, SimulationError
from worldledger.intents import Accepted, Held
from worldledger_service.api.agents_of_worlds import LONGEST_WAIT, About, ContextSeq, StalenessThreshold, within
from worldledger_service.api.bodies import idempotency_key, members, read_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import (
    HEX32,
    PATH_PARAMETERS,
    REPLAYED,
    UUID,
    GlobalSeq,
    Problem,
    SemanticVersion,
    Shape,
    Word,
    body_of,
    header,
    json_of,
    key_header,
    problems,
)
from worldledger_service.api.parameters import finite
from worldledger_service.api.problems import (
    InvalidParameterError,
    enclosed_problem,
    encode,
    instance_of,
    problem_response,
)
from worldledger_service.api.routing import BareRoute

if TYPE_CHECKING:
    from worldledger_service.runtime import Orchestrator


# -- shapes ------------------------------------------------------------------------------------------------

_INTENT: dict[str, Any] = {
    "kind": "Move",
    "payload": {"to": [1.0, 2.5]},
    "context_seq": 41,
    "req_id": "turn-17-alice",
    "agent_id": "alice",
}
_ACCEPTED: dict[str, Any] = {
    "agent_id": "alice",
    "req_id": "turn-17-alice",
    "global_seq": 42,
    "uuid": UUID,
    "replayed": False,
}
_HELD: dict[str, Any] = {
    "held": True,
    "agent_id": "alice",
    "req_id": "turn-17-alice",
    "tick": 17,
    "order": 1,
    "replayed": False,
}


class Intent(Shape):
    """An action that an agent wants to take."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_INTENT]})

    kind: Literal["Speak", "Move", "Interact", "Custom"]
    payload: dict[str, JsonValue] = Field(
        description="Speak: `text`. Move: `to` (2 or 3 numbers), `from`, `speed`. Interact: `target_id`. Custom: "
        "`kind` of the effect. Any may have `token_count`, and whatever else."
    )
    context_seq: ContextSeq | None = Field(
        default=None,
        description="The view_seq of the view that it was made from. Null or absent: that of the generation of its "
        "req_id; where none is under way none is recorded, which only a staleness_threshold of null allows. Over a "
        "WebSocket, absent means the newest that was handed out there.",
    )
    req_id: Word = Field(description="Idempotency key, unique per agent.")
    agent_id: Word
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] | None = Field(
        default=None, description="Higher goes first among those that wait; the world's usual one if null."
    )
    schema_version: SemanticVersion | None = None
    order: Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)] | None = Field(
        default=None,
        description="Its place among the agent's own of a tick, in a world whose `order` is `tick`; its count within "
        "the tick if null.",
    )
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which it is stale; null: it never is. The generation's, the agent's or the "
        "world's if absent.",
    )
    about: About | None = Field(
        default=None, description="Ids that it concerns besides those of its payload, for `only_conflict`."
    )


class IntentList(Shape):
    """Several intents, in this order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"intents": [_INTENT], "atomic": True}]})

    intents: Annotated[list[Intent], Field(min_length=1, max_length=1000)]
    atomic: bool = Field(default=False, description="Whether all are accepted or none.")
    ordered: bool = Field(
        default=True,
        description="Whether the list keeps its inner order in a tick, where the world is ordered by them.",
    )


class Intents(RootModel[Annotated[list[Intent], Field(min_length=1, max_length=1000)]]):
    """Several intents, in this order, each accepted or refused by itself."""

    model_config = ConfigDict(json_schema_extra={"examples": [[_INTENT]]})


class AcceptedIntent(Shape):
    """An intent that is an effect now."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_ACCEPTED]})

    agent_id: Word
    req_id: Word
    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32, description="The effect's.")
    replayed: bool = Field(description="Whether an earlier request with this req_id made the effect.")


class HeldIntent(Shape):
    """An intent that is held until the next tick decides it."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_HELD]})

    held: Literal[True]
    agent_id: Word
    req_id: Word
    tick: int = Field(ge=1, description="The number of the tick that decides it.")
    order: int = Field(description="Its place among the agent's own of that tick.")
    replayed: bool = Field(description="Whether it was held already.")


class IntentResults(Shape):
    """The outcome of each intent of a list, in its order: accepted, held, or a problem."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"results": [_ACCEPTED]}]})

    results: list[AcceptedIntent | HeldIntent | Problem]


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=BareRoute, tags=["agents"])

_ELEMENT: Final = re.compile(r"\$(?:\.intents)?\[(\d+)\]")
_LIMITS: Final = {
    "RateLimit-Policy": header("The quotas of the agent, if the world sets any."),
    "RateLimit": header("The rest of them, and the seconds until all can be used again."),
}


@router.post(
    "/v1/worlds/{world}/intents",
    operation_id="submit_intents",
    summary="Submit one intent or a list",
    status_code=201,
    response_class=Response,
    responses={
        202: {
            **json_of(HeldIntent, IntentResults),
            "description": "In a world that is ordered by ticks: the intent, or one of the list, is held, durably, "
            "until the next tick.",
        },
        200: {
            **json_of(AcceptedIntent, IntentResults),
            "description": "An intent that had been accepted before (`Idempotency-Replayed`), or results of a list.",
            "headers": {**REPLAYED, **_LIMITS},
        },
        201: {
            **json_of(AcceptedIntent, IntentResults),
            "description": "The intent is an effect, and durable; of an atomic list, all are.",
            "headers": {"Location": header("The address of the effect, if one intent was sent."), **_LIMITS},
        },
        **problems(403, 404, 409, 413, 415, 422, 429, 503, 504),
    },
    openapi_extra={
        "parameters": [
            *PATH_PARAMETERS,
            key_header(
                "The req_id of a single intent, for clients that keep such keys in a header. "
                "If the intent has a req_id too, the two must be equal."
            ),
            {
                "name": "wait",
                "in": "query",
                "description": "Seconds to wait for the tick that decides what is held, in a world that is ordered by "
                "ticks; elsewhere it means nothing.",
                "schema": {"type": "number", "minimum": 0, "maximum": LONGEST_WAIT, "default": 0},
            },
        ],
        "requestBody": body_of(Intent, IntentList, Intents),
    },
)
async def submit_intents(request: Request) -> Response:
    """Submit one intent, or `{"intents": [1 to 1,000], "atomic": false}`; a bare list is such a one, not atomic.

    The answer comes once it is decided, and what is accepted is durable. An intent passes idempotency, staleness,
    quota, its turn among those that wait, permissions, the validator and the ruleset; the same `req_id` of an agent
    again gets the first answer. A list that is not atomic is answered with a result for each; of an atomic one all are
    accepted or none, and the refusal names the `index`.

    In a world that is ordered by ticks the answer is 202 once the intent is held. The same again tells what became of
    it; with `wait` the answer comes when the next tick has decided it, if that is in time.
    """
    found = services(request)
    try:
        body: Any = await read_json(request, found.settings.max_body_bytes, effects=_refused_together)
        if type(body) is list or (type(body) is dict and "intents" in body):
            return await _several(request, found, body)
        return await _one(request, found, body)
    except InvalidEffectError as error:
        if type(error) is not InvalidEffectError:
            raise
        raise _of_intents(error) from None  # the gate's word on the body


def _refused_together(body: Any) -> Any:
    """Return the intents of a body that are refused all where one is: one, or an atomic list."""
    if type(body) is dict and type(body.get("intents")) is list:
        return body["intents"] if body.get("atomic") is True else None
    return None if type(body) is list else body


async def _one(request: Request, found: Services, intent: Any) -> Response:
    key = idempotency_key(request)
    if type(intent) is dict and key is not None:
        stated = intent.get("req_id")
        if stated is not None and stated != key:
            raise InvalidParameterError("Idempotency-Key", "differs from the intent's req_id", "header")
        intent["req_id"] = key
    seconds = _seconds(request)
    world = await found.worlds.get(request.path_params["world"])
    try:
        if world.holds_intents:
            accepted = await _held(request, found, world, intent, seconds)
        else:
            accepted = await world.submit_intent(intent)
    except SimulationError as error:
        count_refusal(found, world, error)
        response = problem_response(request.scope, error)
        response.headers.update(_limits(world, intent))
        return response
    if isinstance(accepted, Held):
        return Response(encode(held_of(accepted)), 202, {"Cache-Control": "no-store"}, "application/json")
    found.metrics.intents_accepted(1)
    headers = {"Cache-Control": "no-store", **_limits(world, intent)}
    if accepted.replayed:
        status, headers["Idempotency-Replayed"] = 200, "true"
    else:
        status, headers["Location"] = 201, f"/v1/worlds/{world.world_id}/effects/{accepted.global_seq}"
    return Response(encode(accepted_of(intent["agent_id"], accepted)), status, headers, "application/json")


async def _held(request: Request, found: Services, world: Orchestrator, intent: Any, seconds: float) -> Held | Accepted:
    """Hold an intent and wait, for so long, for what its tick decides."""
    held = await world.hold_intent(intent)
    if not isinstance(held, Held) or not seconds:
        return held
    return await within(request, found.stopping, seconds, world.decision(held)) or held


async def _several(request: Request, found: Services, body: dict[str, Any] | list[Any]) -> Response:
    if idempotency_key(request) is not None:
        what = "is for single intents; give each intent of a list a req_id of its own"
        raise InvalidParameterError("Idempotency-Key", what, "header")
    intents, atomic = check_list(body, found.settings.max_unit, ("ordered",))
    ordered = check_ordered(body)
    seconds = _seconds(request)
    world = await found.worlds.get(request.path_params["world"])
    results: Sequence[Held | Accepted | SimulationError] | None = None
    try:
        if world.holds_intents:
            results = await world.hold_intents(intents, atomic=atomic, ordered=ordered)
            if seconds:
                decided = within(request, found.stopping, seconds, world.decisions(results, atomic=atomic))
                results = await decided or results
        else:
            results = await world.submit_intents(intents, atomic=atomic)
    except SimulationError as error:
        count_refusal(found, world, error)
        raise
    told = results_of(intents, results, found, world, instance_of(request.scope))
    headers = {"Cache-Control": "no-store"}
    if all(isinstance(result, Accepted) and result.replayed for result in results):
        headers["Idempotency-Replayed"] = "true"
        atomic = False
    status = 201 if atomic else 200
    if any(isinstance(result, Held) for result in results):
        status = 202
    return Response(encode({"results": told}), status, headers, "application/json")


def check_list(body: dict[str, Any] | list[Any], most: int, optional: Sequence[str] = ()) -> tuple[list[Any], bool]:
    """Return the intents of a list, and whether all or none is to be accepted. Raises InvalidIntentError."""
    if isinstance(body, list):
        if not 0 < len(body) <= most:
            raise InvalidIntentError(f"a list of intents has 1 to {most}")
        return body, False
    try:
        members(body, "a list of intents", ("intents",), ("atomic", *optional))
    except InvalidEffectError as error:
        raise InvalidIntentError(error.reason, error.path) from None
    intents, atomic = body["intents"], body.get("atomic", False)
    if type(intents) is not list or not 0 < len(intents) <= most:
        raise InvalidIntentError(f"intents is a list of 1 to {most}", "$.intents")
    if type(atomic) is not bool:
        raise InvalidIntentError("atomic is true or false", "$.atomic")
    return intents, atomic


def check_ordered(body: Mapping[str, Any] | list[Any]) -> bool:
    """Return whether a list keeps its inner order in a tick. Raises InvalidIntentError."""
    ordered = body.get("ordered", True) if isinstance(body, Mapping) else True
    if type(ordered) is not bool:
        raise InvalidIntentError("ordered is true or false", "$.ordered")
    return ordered


def _seconds(request: Request) -> float:
    """Return for how many seconds a request would wait for a tick. Raises InvalidParameterError."""
    values = request.query_params.getlist("wait")
    if not values:
        return 0.0
    try:
        seconds = finite(values[0])
    except PydanticCustomError as error:
        raise InvalidParameterError("wait", error.message()) from None
    if len(values) > 1 or not 0 <= seconds <= LONGEST_WAIT:
        raise InvalidParameterError("wait", f"must be a number from 0 to {LONGEST_WAIT:g}, once")
    return seconds


def held_of(held: Held) -> dict[str, Any]:
    """Return what is told of a held intent."""
    return {"held": True, **held._asdict()}


def accepted_of(agent_id: str, accepted: Accepted) -> dict[str, Any]:
    """Return what is told of an accepted intent."""
    return {
        "agent_id": agent_id,
        "req_id": accepted.req_id,
        "global_seq": accepted.global_seq,
        "uuid": str(accepted),
        "replayed": accepted.replayed,
    }


def results_of(
    intents: Sequence[Any],
    results: Sequence[Held | Accepted | SimulationError],
    found: Services,
    world: Orchestrator,
    instance: str,
) -> list[dict[str, Any]]:
    """Return what is told of each intent of a list, and count them."""
    told = []
    accepted = 0
    for intent, result in zip(intents, results, strict=True):
        if isinstance(result, Accepted):
            accepted += 1
            told.append(accepted_of(intent["agent_id"], result))
        elif isinstance(result, Held):
            told.append(held_of(result))
        else:
            count_refusal(found, world, result)
            told.append(enclosed_problem(result, instance))
    found.metrics.intents_accepted(accepted)
    return told


def count_refusal(found: Services, world: Orchestrator, error: SimulationError) -> None:
    """Count an intent, or an atomic list of them, that was refused."""
    found.metrics.intent_rejected(error.code)
    world.refused[error.code] += 1


def _of_intents(error: InvalidEffectError) -> InvalidIntentError:
    """Turn a path that begins in a body's list of intents into index and path of the intent."""
    match = _ELEMENT.match(error.path)
    if match is None:
        return InvalidIntentError(error.reason, error.path, error.index)
    return InvalidIntentError(error.reason, f"${error.path[match.end() :]}", int(match[1]))


def _limits(world: Orchestrator, intent: Any) -> dict[str, str]:
    """Return the agent's quotas as header fields (draft-ietf-httpapi-ratelimit-headers)."""
    if world.holds_intents:
        return {}  # each tick begins with all of them
    agent_id = intent.get("agent_id") if isinstance(intent, Mapping) else None
    quotas = world.quotas.status(agent_id) if isinstance(agent_id, str) else []
    if not quotas:
        return {}
    return {
        "RateLimit-Policy": ", ".join(f'"{it.quota_type}";q={it.limit};w={math.ceil(it.window_s)}' for it in quotas),
        "RateLimit": ", ".join(f'"{it.quota_type}";r={it.remaining};t={math.ceil(it.reset_s)}' for it in quotas),
    }
