"""The agents of a world over HTTP: registering them, and who is registered."""

from __future__ import annotations

from collections.abc import Mapping
from heapq import nsmallest
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger.drafts import MAX_WORD
from worldledger.intents import check_agent_id, check_permissions, check_weight
from worldledger.policies import policy_from_spec
from worldledger.staleness import NOT_GIVEN, Threshold, check_interrupt_policy, check_threshold
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.bodies import read_object
from worldledger_service.api.context import services
from worldledger_service.api.inhabitants import PATIENCE, AgentId, known_agent, view_of
from worldledger_service.api.openapi import body_of, header, json_of, problems
from worldledger_service.api.parameters import NO_NUL, Limit, WorldName, check_text, next_link, once
from worldledger_service.api.routing import EscapedRoute, segment

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
            **json_of("RegisteredAgent"),
            "description": "It was registered so already; nothing is written.",
            "headers": {"Location": header("Where the agent is.")},
        },
        201: {
            **json_of("RegisteredAgent"),
            "description": "The agent, with its view where its observations go on.",
            "headers": {"Location": header("Where the agent is.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
    openapi_extra={"requestBody": body_of("Registration")},
)
async def register_agent(request: Request, world: WorldName) -> Response:
    """Register an agent, or give a registered one this policy, these permissions, this weight and these settings.

    The registration is an effect of the world, so it outlives every process. `view` is the agent's view where it
    goes on: of a new agent at its registration, of one that comes back where it acknowledged last.
    """
    found = services(request)
    body = await read_object(
        request,
        found.settings.max_body_bytes,
        "a registration",
        required=("agent_id",),
        optional=("policy", "permissions", "weight", "staleness_threshold", "interrupt_policy"),
    )
    agent_id = check_agent_id(body["agent_id"])
    policy, permissions, weight = (body.get(name) for name in ("policy", "permissions", "weight"))
    shown = None if policy is None else policy_from_spec(policy, path="$.policy")
    allowed = check_permissions(permissions)
    share = 1 if weight is None else check_weight(weight)
    threshold: Threshold = NOT_GIVEN
    if "staleness_threshold" in body:
        threshold = check_threshold(body["staleness_threshold"])
    interrupted = body.get("interrupt_policy")
    interrupt_policy = None if interrupted is None else check_interrupt_policy(interrupted)
    inhabited = await found.worlds.get(world)
    before = (await inhabited.agents()).get(agent_id)
    handle = await inhabited.register_agent(
        agent_id, shown, allowed, weight=share, staleness_threshold=threshold, interrupt_policy=interrupt_policy
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
            **json_of("WorldAgentPage"),
            "description": "A page of agents.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(404, 422, 503),
    },
)
async def list_world_agents(
    request: Request,
    world: WorldName,
    after: Annotated[
        str, Query(max_length=MAX_WORD, description="Agents whose names come after this.", json_schema_extra=NO_NUL)
    ] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of the agents that are registered in a world, sorted by name."""
    check_text("after", after)
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
    responses={200: {**json_of("ObservingAgent"), "description": "The agent."}, **problems(404, 422, 503)},
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
