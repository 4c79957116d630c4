"""Agents over HTTP: who acts in the worlds, and how they did in games."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator
from starlette.requests import Request
from starlette.responses import Response
from worldledger_service.api.agents_of_worlds import word
from worldledger_service.api.answers import REVALIDATE, to_json, viewed
from worldledger_service.api.context import services
from worldledger_service.api.openapi import header, json_of, problems
from worldledger_service.api.parameters import NO_NUL, Limit, Text, next_link, once

from worldledger.drafts import MAX_WORD
from worldledger.near import meant
from worldledger_chess.api.problems import AgentNotFoundError
from worldledger_chess.api.shapes import AgentPage, AgentStats
from worldledger_chess.store.read_models import ReadModels

router = APIRouter(tags=["games"], dependencies=[Depends(once)])

_DEFAULT: Final = 100


@router.get(
    "/v1/agents",
    operation_id="list_agents",
    summary="Agents by name",
    response_class=Response,
    responses={
        200: {
            **json_of(AgentPage),
            "description": "A page of agents.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(422, 503),
    },
)
async def list_agents(
    request: Request,
    after: Annotated[Text, Query(max_length=MAX_WORD, description="Agents whose names come after this.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of agents, sorted by name: the sources of effects in all worlds, and chess players."""
    found = services(request)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    rows = await viewed(found, lambda: ReadModels(found.store.reader).agents(after=after, limit=wanted + 1))
    shown = rows[:wanted]
    position = shown[-1]["agent_id"] if len(rows) > wanted else None
    headers = {"Cache-Control": REVALIDATE, **({} if position is None else next_link(request, after=position))}
    return Response(to_json({"agents": shown, "next_after": position}), 200, headers, "application/json")


@router.get(
    "/v1/agents/{agent_id:path}/stats",
    operation_id="get_agent_stats",
    summary="An agent's results in its games",
    response_class=Response,
    responses={200: {**json_of(AgentStats), "description": "The totals over all games."}, **problems(404, 422, 503)},
)
async def get_agent_stats(
    request: Request,
    agent_id: Annotated[
        str,
        AfterValidator(word),
        Path(
            description="The agent's id, percent-encoded where it has characters that a path cannot.",
            json_schema_extra={"minLength": 1, "maxLength": MAX_WORD, **NO_NUL},
        ),
    ],
    experiment: Annotated[
        Text | None,
        Query(min_length=1, max_length=200, description="Games of this experiment only."),
    ] = None,
) -> Response:
    """Return an agent's AgentStats: a game counts once it has ended, and who played none has zeros.

    They are over all worlds, or those of an experiment: a game that was imported into two experiments is two worlds.
    """
    found = services(request)
    models = ReadModels(found.store.reader)
    stats = await viewed(found, lambda: models.agent_stats(agent_id, experiment=experiment))
    if stats is None:
        alike = await viewed(found, lambda: models.near_agents(agent_id))
        more = {"near": alike} if alike else {}
        what = f"no agent {agent_id!r} has acted in any world{meant(alike)}"
        raise AgentNotFoundError(what, agent_id=agent_id, **more)
    return Response(to_json(stats), 200, {"Cache-Control": REVALIDATE}, "application/json")
