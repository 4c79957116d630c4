"""The agents of a world over HTTP: registering them, and who is registered."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field, JsonValue, PlainValidator
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD
from worldledger.intents import (
    DEFAULT_PERMISSIONS,
    MAX_PERMISSIONS,
    MAX_WEIGHT,
    check_agent_id,
)
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_from_spec
from worldledger.staleness import NOT_GIVEN, InterruptPolicy
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.context import services
from worldledger_service.api.inhabitants import (
    _VIEW,
    PATIENCE,
    AgentId,
    AgentView,
    StalenessThreshold,
    known_agent,
    view_of,
)
from worldledger_service.api.openapi import Body, GlobalSeq, Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import Limit, Text, WorldName, next_link, once
from worldledger_service.api.routing import EscapedRoute, segment

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

    name: str = Field(description="The name that it is registered under; `default` is the one of every installation.")
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
