"""The agents of a world over HTTP: registering them, who is registered, and what all routes about agents share."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import contextmanager
from heapq import nsmallest
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import orjson
from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, JsonValue, PlainValidator
from pydantic_core import PydanticCustomError
from starlette.requests import Request
from starlette.responses import Response

from worldledger import observation
from worldledger.aio import first_of
from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.errors import MomentNotFoundError, UnknownAgentError
from worldledger.intents import DEFAULT_PERMISSIONS, MAX_PERMISSIONS, MAX_WEIGHT, check_agent_id
from worldledger.near import near
from worldledger.observation import ObservationPolicy, View
from worldledger.policies import policy_from_spec
from worldledger.staleness import MAX_ABOUT, NOT_GIVEN, InterruptPolicy
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import (
    CHECKSUM,
    HEX64,
    Body,
    GlobalSeq,
    PatchOperation,
    Shape,
    Word,
    header,
    json_of,
    problems,
)
from worldledger_service.api.parameters import NO_NUL, Limit, Text, WorldName, finite, held, next_link, once
from worldledger_service.api.problems import PositionAheadError
from worldledger_service.api.routing import EscapedRoute, segment
from worldledger_service.api.streaming import disconnected
from worldledger_service.runtime.guarding import guarded

if TYPE_CHECKING:
    from worldledger_service.runtime import Orchestrator


# -- shared by the routes about the agents of a world: finding agents, and waiting for them ---------------


# -- shapes ------------------------------------------------------------------------------------------------

ContextSeq = Annotated[int, Field(ge=0, le=MAX_INT)]
StalenessThreshold = Annotated[int, Field(ge=0, le=MAX_INT)]
About = Annotated[list[Word], Field(max_length=MAX_ABOUT)]
_VIEW: dict[str, Any] = {
    "agent_id": "alice",
    "view_seq": 42,
    "context_digest": CHECKSUM,
    "visible_entities": {"alice": {"position": [1.0, 2.5, 0.0]}},
    "visible_relationships": {},
}
_EVENT: dict[str, Any] = {
    "global_seq": 42,
    "kind": "Speak",
    "source_id": "bob",
    "sim_time": 12.5,
    "payload": {"text": "Good morning"},
    "schema_version": "1.0.0",
}
_DELTA: dict[str, Any] = {
    "view_seq": 42,
    "patches": [{"op": "replace", "path": "/visible_entities/bob/position", "value": [1.0, 2.5, 0.0]}],
    "context_digest": CHECKSUM,
    "schema_version": "1.0.0",
    "events": [],
}


class AgentView(Shape):
    """The view that an agent has of the world."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_VIEW]})

    agent_id: Word
    view_seq: GlobalSeq = Field(description="The effect that last changed the view.")
    context_digest: str = Field(
        pattern=HEX64, description="SHA-256 of the view without `view_seq` and itself, in the profile `state/1`."
    )
    visible_entities: dict[str, JsonValue] = Field(description="Each entity without the fields that are hidden.")
    visible_relationships: dict[str, list[str]] = Field(description="Each entity's related ones, sorted.")


class ObservedEvent(Shape):
    """Something that happened, as an agent may know it: parts of the effect of that `global_seq`."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_EVENT]})

    global_seq: GlobalSeq
    kind: Word
    source_id: Word
    sim_time: float
    payload: dict[str, JsonValue]
    schema_version: Word


class ObservationDelta(Shape):
    """The change of an agent's view by one effect, or by several that were merged."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_DELTA]})

    view_seq: GlobalSeq = Field(description="The view's own, after the patches.")
    patches: list[PatchOperation] = Field(description="To be applied to the view (RFC 6902).")
    context_digest: str = Field(pattern=HEX64, description="The view's own, after the patches.")
    schema_version: Word
    events: list[ObservedEvent] = Field(description="Events that the patches do not show.")
    collapsed: int = Field(default=1, ge=1, description="The number of deltas that were merged into this one.")
    events_dropped: int = Field(default=0, ge=0, description="How many of their events it does not have.")


# -- routes -------------------------------------------------------------------------------------------------

_T = TypeVar("_T")

#: Most seconds that a request waits for what may never come.
LONGEST_WAIT: Final = 30.0
#: Seconds that a request waits for this process to have seen what another one has written, or to write itself.
PATIENCE: Final = 2.0
#: Answers end with the item that brings them to so many bytes.
PAGE_BYTES: Final = 4 * 1024 * 1024


def word(text: str) -> str:
    """Return a text that an agent or a request may have as its name; others are refused."""
    if not 0 < len(text) <= MAX_WORD:
        raise PydanticCustomError("word", "must have 1 to {most} characters", {"most": MAX_WORD})
    return held(text)


def _word(description: str) -> Any:
    schema = {"minLength": 1, "maxLength": MAX_WORD, **NO_NUL}
    return Path(description=f"{description}, percent-encoded (`/` is `%2F`).", json_schema_extra=schema)


AgentId = Annotated[str, AfterValidator(word), _word("The agent's id")]
ReqId = Annotated[str, AfterValidator(word), _word("The generation's req_id")]
Wait = Annotated[
    float,
    BeforeValidator(finite),
    Query(ge=0, le=LONGEST_WAIT, description="Seconds to wait until there is something to tell."),
]


async def known_agent(found: Services, world: Orchestrator, agent_id: str) -> Mapping[str, Any]:
    """Return what is known of an agent, also where another process has registered it a moment ago.

    Raises UnknownAgentError.
    """
    known = (await world.agents()).get(agent_id)
    if known is None:
        record = await guarded(found.store.outages, found.store.world(world.world_id))
        await world.reached(record.head_seq, PATIENCE)
        known = (await world.agents()).get(agent_id)
    if known is None:
        raise UnknownAgentError(agent_id, world.world_id, near=near(agent_id, await world.agents()))
    return known


@contextmanager
def reading_on(parameter: str, where: str = "query") -> Iterator[None]:
    """Turn a position to go on from that the world has not come to into the error that other routes have for it."""
    try:
        yield
    except MomentNotFoundError as error:
        head_seq = error.details.get("head_seq")
        what = f"{parameter}: {error.message}"
        raise PositionAheadError(what, parameter=parameter, head_seq=head_seq, **{"in": where}) from None


async def within(
    request: Request, stopping: asyncio.Event, seconds: float, awaited: Coroutine[Any, Any, _T]
) -> _T | None:
    """Await something for so many seconds; return None if it has not come, the client has left or the service stops.

    It is cancelled then.
    """
    wanted, *_ = await first_of(awaited, disconnected(request.receive), stopping.wait(), timeout=seconds)
    return None if wanted is None else wanted.result()


# -- views and deltas as they are written: the same bytes for the same one ---------------------------------


def view_of(view: View) -> dict[str, Any]:
    """Return a view as an object for orjson to write."""
    return {
        "agent_id": view.agent_id,
        "view_seq": view.view_seq,
        "context_digest": view.context_digest,
        "visible_entities": in_order(view.visible_entities),
        "visible_relationships": in_order(view.visible_relationships),
    }


def delta_of(delta: observation.ObservationDelta) -> dict[str, Any]:
    """Return a delta as an object for orjson to write."""
    return {**delta, "patches": in_order(delta["patches"])}


def in_order(value: Any) -> orjson.Fragment:
    """Return a value that is written with its members in order.

    In memory they are in the order of the fold, which differs in a state that was read from a snapshot; but the same
    request is to get the same bytes.
    """
    return orjson.Fragment(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))


def etag_of(view: View) -> str:
    """Return the entity tag of a view: ``"<view_seq>:<first 16 hex digits of context_digest>"``."""
    return f'"{view.view_seq}:{view.context_digest[:16]}"'


def sse(name: str, view_seq: int, data: bytes) -> bytes:
    """Return one server-sent event; compact JSON has no line ends."""
    return b"event: %b\nid: %d\ndata: %b\n\n" % (name.encode(), view_seq, data)


def observation_event(delta: observation.ObservationDelta) -> bytes:
    """Return the server-sent event of a delta."""
    return sse("observation", delta["view_seq"], orjson.dumps(delta_of(delta)))


# -- shapes ------------------------------------------------------------------------------------------------

_POLICY: dict[str, Any] = {"name": "default", "version": 2, "config": {"distance_limit": 50.0}}
_AGENT: dict[str, Any] = {
    "agent_id": "alice",
    "policy": _POLICY,
    "permissions": sorted(DEFAULT_PERMISSIONS),
    "weight": 1,
    "registered_seq": 7,
}


class PolicySpec(Shape):
    """A registered observation policy."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_POLICY]})

    name: Word = Field(description="The name that it is registered under; `default` is the one of every installation.")
    version: Annotated[int, Field(ge=1, le=MAX_INT)] | None = Field(default=None, description="The newest if null.")
    config: dict[str, JsonValue] | None = Field(
        default=None,
        description="Of `default`: `distance_limit`, `visibility_range`, `view_cone`, `relationship_filter`, "
        "`field_visibility`, `latency_model`, `remove_operations`, `rules`.",
    )


def _policy(spec: Any) -> ObservationPolicy | None:
    return None if spec is None else policy_from_spec(spec, path="$.policy")


Policy = Annotated[ObservationPolicy | None, PlainValidator(_policy, json_schema_input_type=PolicySpec | None)]


class Registration(Body):
    """An agent to be registered."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"agent_id": "alice", "policy": _POLICY}]}
    )

    agent_id: Word
    policy: Annotated[ObservationPolicy | None, PlainValidator(_policy, json_schema_input_type=PolicySpec | None)] = (
        Field(default=None, description="The part of the world that it sees; everything if null.")
    )
    permissions: Annotated[list[Word], Field(max_length=MAX_PERMISSIONS)] | None = Field(
        default=None, description="The kinds of actions that it may take; the usual five if null."
    )
    weight: Annotated[int, Field(ge=1, le=MAX_WEIGHT)] | None = Field(
        default=None, description="Its share among those that wait; 1 if null."
    )
    staleness_threshold: StalenessThreshold | None = Field(
        default=None,
        description="Sightings after which what it is about to do is stale; null: it never is. The world's if absent.",
    )
    interrupt_policy: InterruptPolicy | None = Field(
        default=None, description="The sightings that count; those of the world's setting if null."
    )


class WorldAgent(Shape):
    """An agent that is registered in a world."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_AGENT]})

    agent_id: Word
    policy: PolicySpec
    permissions: list[Word]
    weight: int
    registered_seq: GlobalSeq = Field(description="The effect that registered it first.")
    staleness_threshold: StalenessThreshold | None = Field(
        default=None, description="Its own, where it has one; null: what it is about to do is never stale."
    )
    interrupt_policy: InterruptPolicy | None = Field(default=None, description="Its own, if it has one.")


class WorldAgentPage(Shape):
    """A page of a world's agents by name."""

    agents: list[WorldAgent]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")


class ObservingAgent(WorldAgent):
    """A registered agent, and where its observations go on."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{**_AGENT, "view_seq": 42}]})

    view_seq: GlobalSeq = Field(description="The view that it has acknowledged; at first, that of its registration.")


class RegisteredAgent(ObservingAgent):
    """A registered agent, with its view where its observations go on."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{**_AGENT, "view_seq": 42, "view": _VIEW}]}
    )

    view: AgentView


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=EscapedRoute, tags=["agents"], dependencies=[Depends(once)])

_DEFAULT: Final = 100


@router.post(
    "/v1/worlds/{world}/agents",
    operation_id="register_agent",
    summary="Register an agent in a world",
    status_code=201,
    response_class=Response,
    responses={
        200: {
            **json_of(RegisteredAgent),
            "description": "It was registered so already; nothing is written.",
            "headers": {"Location": header("The address of the agent.")},
        },
        201: {
            **json_of(RegisteredAgent),
            "description": "The agent, with its view at which its observations continue.",
            "headers": {"Location": header("The address of the agent.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def register_agent(request: Request, world: WorldName, body: Registration) -> Response:
    """Register an agent, or give a registered one this policy, these permissions, this weight and these settings.

    The registration is an effect of the world, so it outlives every process. `view` is the agent's view where it
    goes on: of a new agent at its registration, of one that comes back where it acknowledged last.
    """
    found = services(request)
    agent_id = check_agent_id(body.agent_id)
    threshold = body.staleness_threshold if "staleness_threshold" in body.model_fields_set else NOT_GIVEN
    inhabited = await found.worlds.get(world)
    before = (await inhabited.agents()).get(agent_id)
    handle = await inhabited.register_agent(
        agent_id,
        body.policy,
        body.permissions,
        weight=1 if body.weight is None else body.weight,
        staleness_threshold=threshold,
        interrupt_policy=body.interrupt_policy,
    )
    handle.close()
    assert handle.initial_view is not None  # noqa: S101 - a handle begins with a view
    registered = (await inhabited.agents())[agent_id]
    headers = {"Location": f"/v1/worlds/{world}/agents/{segment(agent_id)}", "Cache-Control": "no-store"}
    answer = {
        **_told_to_itself(agent_id, registered),
        "view_seq": handle.initial_view.view_seq,
        "view": view_of(handle.initial_view),
    }
    return Response(to_json(answer), 200 if registered == before else 201, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/agents",
    operation_id="list_world_agents",
    summary="The agents of a world by name",
    response_class=Response,
    responses={
        200: {
            **json_of(WorldAgentPage),
            "description": "A page of agents.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(404, 422, 503),
    },
)
async def list_world_agents(
    request: Request,
    world: WorldName,
    after: Annotated[Text, Query(max_length=MAX_WORD, description="Agents whose names come after this.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of the agents that are registered in a world, sorted by name."""
    found = services(request)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    inhabited = await found.worlds.get(world)
    await inhabited.fold_known(PATIENCE)
    agents = await inhabited.agents()
    names = nsmallest(wanted + 1, (name for name in agents if name > after))
    position = names[wanted - 1] if len(names) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after=position))}
    shown = [_told(name, agents[name]) for name in names[:wanted]]
    return Response(to_json({"agents": shown, "next_after": position}), 200, headers, "application/json")


@router.get(
    "/v1/worlds/{world}/agents/{agent_id}",
    operation_id="get_world_agent",
    summary="One agent of a world",
    response_class=Response,
    responses={200: {**json_of(ObservingAgent), "description": "The agent."}, **problems(404, 422, 503)},
)
async def get_world_agent(request: Request, world: WorldName, agent_id: AgentId) -> Response:
    """Return an agent's policy, permissions and weight as they stand, and the `view_seq` that it has acknowledged."""
    found = services(request)
    inhabited = await found.worlds.get(world)
    known = await known_agent(found, inhabited, agent_id)
    answer = {**_told_to_itself(agent_id, known), "view_seq": await inhabited.acknowledged(agent_id)}
    return Response(to_json(answer), 200, {"Cache-Control": REVALIDATE}, "application/json")


def _told(agent_id: str, known: Mapping[str, Any]) -> dict[str, Any]:
    names = ("policy", "permissions", "weight", "registered_seq", "staleness_threshold", "interrupt_policy")
    return {"agent_id": agent_id, **{name: known[name] for name in names if name in known}}


def _told_to_itself(agent_id: str, known: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an agent may know of itself: all but the key by which the noise of its observations is drawn."""
    told = _told(agent_id, known)
    policy = told["policy"]
    config = {name: value for name, value in policy["config"].items() if name != "noise_key"}
    return {**told, "policy": {**policy, "config": config}}
