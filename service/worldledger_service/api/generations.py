"""Generations over HTTP: what an agent is about to say, whether it still should, and the settings of staleness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger import staleness
from worldledger.canonical import MAX_INT
from worldledger.core_kinds import Outcome
from worldledger.errors import UnknownGenerationError
from worldledger.staleness import NOT_GIVEN, InterruptPolicy
from worldledger_service.api import openapi
from worldledger_service.api.agents_of_worlds import (
    PATIENCE,
    About,
    AgentId,
    ContextSeq,
    ReqId,
    StalenessThreshold,
    Wait,
    known_agent,
    within,
)
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.context import services
from worldledger_service.api.effects import Receipt
from worldledger_service.api.hosts import refuse_other_sites
from worldledger_service.api.openapi import Body, GlobalSeq, Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import Text, WorldName, once
from worldledger_service.api.routing import EscapedRoute, segment

if TYPE_CHECKING:
    from worldledger.aio import CancelToken


# -- shapes ------------------------------------------------------------------------------------------------

_GENERATION: dict[str, Any] = {
    "agent_id": "alice",
    "req_id": "turn-18-alice",
    "context_seq": 42,
    "cancelled": True,
    "reason": "stale_due_to_effect_43",
}


class NewGeneration(Body):
    """A generation that begins."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"req_id": "turn-18-alice", "context_seq": 42}]}
    )

    req_id: Word = Field(description="The same as of the intent that it is to lead to.")
    context_seq: ContextSeq | None = Field(default=None, description="The view it is made from; the latest if null.")
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which it is stale; null: it never is. The agent's or the world's if absent.",
    )
    about: About | None = Field(default=None, description="Ids that it concerns, for `only_conflict`.")
    model: dict[str, JsonValue] | None = Field(
        default=None,
        description="By what it is made, at most 16 KiB: what a language model's `name`, `parameters`, `seed` and "
        "`prompt_digest` are, say. It is kept in GenerationStarted.",
    )


class Generation(Shape):
    """A generation and whether it is cancelled."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_GENERATION]})

    agent_id: Word
    req_id: Word
    context_seq: ContextSeq | None = Field(description="The view on which it is based; null if it runs elsewhere.")
    cancelled: bool
    reason: str | None = Field(description="Why it is cancelled.")
    setting: Literal["generation", "agent", "world"] | None = Field(
        default=None, description="If it is cancelled as stale: the setting whose threshold decided."
    )
    staleness_threshold: StalenessThreshold | None = Field(default=None, description="That threshold.")
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Which sightings count.")


class Staleness(Body):
    """The conditions under which generations of a world's agents are stale; absent ones stay as they are."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "anyOf": [
                {"required": ["staleness_threshold"]},
                {"required": ["max_staleness_threshold"]},
                {"required": ["interrupt_policy"], "properties": {"interrupt_policy": {"type": "string"}}},
            ],
            "examples": [{"staleness_threshold": 3, "interrupt_policy": "only_conflict"}],
        },
    )

    staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Sightings after which it is stale; null: it never is."
    )
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Which sightings count.")
    max_staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Largest threshold of the world, an agent, an intent or a generation; null: none."
    )


class WorldStaleness(Staleness):
    """The present conditions under which generations of a world's agents are stale."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"staleness_threshold": 3, "interrupt_policy": "only_conflict", "max_staleness_threshold": None}
            ]
        },
    )

    global_seq: GlobalSeq | None = Field(default=None, description="The effect that has set it just now.")


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])


@router.post(
    "/v1/worlds/{world}/agents/{agent_id}/generations",
    operation_id="begin_generation",
    summary="Begin a generation",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(Generation),
            "description": "It is under way already, from the same view.",
            "headers": {"Location": header("The address of the generation.")},
        },
        201: {
            **json_of(Generation),
            "description": "The generation, which may be cancelled from here on.",
            "headers": {"Location": header("The address of the generation.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def begin_generation(request: Request, world: WorldName, agent_id: AgentId, body: NewGeneration) -> Response:
    """Issue the cancel token of a generation that begins now, from the view at `context_seq` (the latest if absent).

    It is cancelled as soon as more than `staleness_threshold` sightings lie after that view. The intent that it leads
    to has the same `req_id` and ends it; it has the generation's context unless it names its own.
    """
    found = services(request)
    req_id, context_seq = body.req_id, body.context_seq
    threshold = body.staleness_threshold if "staleness_threshold" in body.model_fields_set else NOT_GIVEN
    inhabited = await found.worlds.get(world)
    await known_agent(found, inhabited, agent_id)
    if context_seq is not None:
        await inhabited.reached(context_seq, PATIENCE)
    before = inhabited.generation(agent_id, req_id)
    token = inhabited.issue_cancel_token(
        agent_id,
        req_id,
        context_seq,
        staleness_threshold=threshold,
        about=frozenset(body.about or ()),
        model=body.model,
    )
    await inhabited.flush(PATIENCE)  # so that other processes know of it as soon as the client does
    where = f"/v1/worlds/{world}/agents/{segment(agent_id)}/generations/{segment(req_id)}"
    return _answer(token, 200 if token is before else 201, {"Location": where})


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}/generations/{req_id}",
    operation_id="get_generation",
    summary="The state of a generation",
    response_class=Response,
    responses={200: {**json_of(Generation), "description": "The generation."}, **problems(404, 422, 503)},
)
async def get_generation(
    request: Request, world: WorldName, agent_id: AgentId, req_id: ReqId, wait: Wait = 0.0
) -> Response:
    """Return whether a generation of this process is cancelled, and why; with `wait`, wait until it is."""
    found = services(request)
    token = await _token(request, world, agent_id, req_id)
    if not token.cancelled and wait > 0:
        await within(request, found.stopping, wait, token.wait_cancelled())
    return _answer(token)


@router.delete(
    "/v1/worlds/{world}/agents/{agent_id}/generations/{req_id}",
    operation_id="cancel_generation",
    summary="Cancel a generation",
    response_class=Response,
    dependencies=[Depends(refuse_other_sites)],
    responses={
        200: {**json_of(Generation), "description": "It is cancelled, or was already."},
        **problems(403, 404, 409, 422, 503),
    },
)
async def cancel_generation(request: Request, world: WorldName, agent_id: AgentId, req_id: ReqId) -> Response:
    """Cancel a generation, whichever process it runs in; the `reason` is `user_requested` unless it had another."""
    found = services(request)
    inhabited = await found.worlds.get(world)
    await known_agent(found, inhabited, agent_id)
    await inhabited.cancel_generation(agent_id, req_id)
    token = inhabited.generation(agent_id, req_id)
    if token is not None:
        return _answer(token)
    told = {"context_seq": None, "cancelled": True, "reason": "user_requested"}  # it runs elsewhere
    return _json({"agent_id": agent_id, "req_id": req_id, **told})


@router.post(
    "/v1/worlds/{world}/agents/{agent_id}/generations/{req_id}/finish",
    operation_id="finish_generation",
    summary="End a generation that led to no intent",
    status_code=204,
    response_class=Response,
    dependencies=[Depends(refuse_other_sites)],
    responses={204: {"description": "It has ended, or had already."}, **problems(403, 404, 409, 422, 503)},
)
async def finish_generation(request: Request, world: WorldName, agent_id: AgentId, req_id: ReqId) -> Response:
    """Note that a generation of this process has ended without an intent of its req_id."""
    await _token(request, world, agent_id, req_id)
    await (await services(request).worlds.get(world)).finish_generation(agent_id, req_id)
    return Response(status_code=204, headers={"Cache-Control": "no-store"})


# -- what came of a generation of a model ------------------------------------------------------------------


Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=MAX_INT)]


class ReportedIntent(Body):
    """An intent that a generation led to, or would have."""

    kind: Word
    req_id: Word | None = Field(default=None, description="Under which it was submitted; null: it was not.")
    global_seq: GlobalSeq | None = Field(default=None, description="Its effect; null: it was refused.")
    code: Word | None = Field(default=None, description="The code of the error that refused it.")
    reason: Text | None = Field(default=None, description="The message of that error.")


class ReportedError(Body):
    """Why a model did not answer."""

    code: Word
    message: Text


class ReportedText(Body):
    """A text of a generation, which becomes an effect of its own so that it can be erased."""

    part: Literal["prompt", "output"]
    text: Text
    salt: Word | None = Field(default=None, description="With which the prompt's digest was made.")
    calls: Annotated[list[dict[str, JsonValue]], Field(max_length=100)] | None = Field(
        default=None, description="The calls of tools that came with an output."
    )


class Recalled(Body):
    """A generation of a log whose answer was taken instead of asking the model again."""

    world_id: openapi.WorldName
    req_id: Word


class NewReport(Body):
    """What a generation of a model used and what came of it. Numbers that are not known are null."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [{"outcome": "acted", "tokens_in": 210, "tokens_out": 34, "price": 0.0004, "currency": "USD"}]
        },
    )

    outcome: Outcome = Field(description="What became of it.")
    tokens_in: Count | None = Field(default=None, description="Tokens of the prompt.")
    tokens_out: Count | None = Field(default=None, description="Tokens that the model made, also if it was cut off.")
    counted: Literal["provider", "chunks"] | None = Field(
        default=None, description="Who counted `tokens_out`: the model's service, or its pieces as they came."
    )
    price: Amount | None = Field(default=None, description="What it cost, by the program's own table.")
    currency: Word | None = None
    first_token_ms: Amount | None = Field(default=None, description="From asking to the first token.")
    took_ms: Amount | None = Field(default=None, description="From asking to the end.")
    finish: Word | None = Field(default=None, description="Why the model stopped, in its service's words.")
    intents: Annotated[list[ReportedIntent], Field(max_length=100)] | None = None
    error: ReportedError | None = None
    recalled: Recalled | None = None
    texts: Annotated[list[ReportedText], Field(max_length=2)] | None = Field(
        default=None, description="Texts to be kept, each as an effect GenerationText."
    )


@router.post(
    "/v1/worlds/{world}/agents/{agent_id}/generations/{req_id}/report",
    operation_id="report_generation",
    summary="Record what a generation used and what came of it",
    status_code=201,
    response_class=Response,
    responses={
        200: {**json_of(Receipt), "description": "This was recorded before."},
        201: {**json_of(Receipt), "description": "It is durable."},
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def report_generation(
    request: Request, world: WorldName, agent_id: AgentId, req_id: ReqId, body: NewReport
) -> Response:
    """Write the effect GenerationReported, and before it a GenerationText for each text. The generation ends.

    A generation has one report: the same again is answered as the first time, another one is 422 `request_conflict`.
    With the outcome `lost` it is cancelled, wherever it runs.
    """
    found = services(request)
    inhabited = await found.worlds.get(world)
    await known_agent(found, inhabited, agent_id)
    report = body.model_dump(exclude_none=True, exclude={"texts"})
    texts = [text.model_dump(exclude_none=True) for text in body.texts or ()]
    receipt = await inhabited.report_generation(agent_id, req_id, report, texts)
    return _json(receipt._asdict(), 200 if receipt.replayed else 201)


class NewLease(Body):
    """A program that wants to run an agent."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"holder": "laptop/4711", "seconds": 120}]}
    )

    holder: Word = Field(description="The program: a name that no other one has.")
    seconds: Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)] = Field(
        description="How long it may run the agent unless it asks again; 0: it gives the agent back."
    )
    instead_of: Word | None = Field(default=None, description="A program that is known to have ended.")


class Lease(Shape):
    """The program that runs an agent."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"holder": "laptop/4711", "number": 3, "until": 1767225720.5}]},
    )

    holder: Word
    number: Annotated[int, Field(ge=1, le=MAX_INT)] = Field(description="How many leases the agent has had.")
    until: float = Field(description="When it ends, in epoch seconds; 0: it was given back.")


@router.post(
    "/v1/worlds/{world}/agents/{agent_id}/lease",
    operation_id="lease_agent",
    summary="Lease an agent to one program",
    response_class=Response,
    responses={
        200: {**json_of(Lease), "description": "The program has the agent."},
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def lease_agent(request: Request, world: WorldName, agent_id: AgentId, body: NewLease) -> Response:
    """Let one program run an agent, for so many seconds; the lease is an effect, GenerationLeased.

    The same program renews it so. While another one has it, this is 409 `agent_leased`.
    """
    found = services(request)
    inhabited = await found.worlds.get(world)
    await known_agent(found, inhabited, agent_id)
    lease = await inhabited.lease_agent(agent_id, body.holder, body.seconds, instead_of=body.instead_of)
    return _json(lease)


async def _token(request: Request, world_id: str, agent_id: str, req_id: str) -> CancelToken:
    found = services(request)
    world = await found.worlds.get(world_id)
    await known_agent(found, world, agent_id)
    token = world.generation(agent_id, req_id)
    if token is None:
        raise UnknownGenerationError(agent_id, req_id)
    return token


def generation_of(token: CancelToken) -> dict[str, Any]:
    """Return a generation as it is shown."""
    return {
        "agent_id": token.agent_id,
        "req_id": token.req_id,
        "context_seq": token.context_seq,
        "cancelled": token.cancelled,
        "reason": token.reason,
        **token.details,
    }


def _answer(token: CancelToken, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return _json(generation_of(token), status, headers)


def _json(value: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(to_json(value), status, {"Cache-Control": "no-store", **(headers or {})}, "application/json")


# -- a world's settings of staleness -----------------------------------------------------------------------


_PATH = "/v1/worlds/{world}/staleness"


@router.get(
    _PATH,
    operation_id="get_staleness",
    summary="The conditions under which generations are stale",
    response_class=Response,
    responses={200: {**json_of(WorldStaleness), "description": "The settings."}, **problems(404, 422, 503)},
)
async def get_staleness(request: Request, world: WorldName) -> Response:
    """Return the world's settings of staleness as they stand; agents, intents and generations may have their own."""
    inhabited = await services(request).worlds.get(world)
    await inhabited.fold_known(PATIENCE)
    return Response(to_json(_told(inhabited.staleness)), 200, {"Cache-Control": REVALIDATE}, "application/json")


@router.put(
    _PATH,
    operation_id="set_staleness",
    summary="Set the conditions under which generations are stale",
    response_class=Response,
    responses={
        200: {**json_of(WorldStaleness), "description": "The effect WorldStalenessSet is durable."},
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def set_staleness(request: Request, world: WorldName, body: Staleness) -> Response:
    """Set staleness_threshold, interrupt_policy or max_staleness_threshold, for what begins from now on.

    What is absent stays as it is; a threshold of null never refuses. The settings are an effect of the world.
    """
    inhabited = await services(request).worlds.get(world)
    receipt = await inhabited.set_staleness(**{name: getattr(body, name) for name in body.model_fields_set})
    answer = {**_told(inhabited.staleness), "global_seq": receipt.global_seq}
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")


def _told(settings: staleness.WorldStaleness) -> dict[str, Any]:
    return {
        "staleness_threshold": settings.threshold,
        "interrupt_policy": settings.interrupt_policy,
        "max_staleness_threshold": settings.maximum,
    }
