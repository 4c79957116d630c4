"""The agents that are online in a world and the generations they have under way, for operators of the service."""

from __future__ import annotations

from itertools import islice
from typing import Any, Final

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger_service.api.agents_of_worlds import ContextSeq
from worldledger_service.api.answers import to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import GlobalSeq, Shape, Word, json_of, problems
from worldledger_service.api.parameters import WorldName, once
from worldledger_service.api.routing import ReadingRoute

#: Agents of an answer.
_MOST: Final = 1000


class GenerationUnderWay(Shape):
    """A generation that has begun and has not ended."""

    req_id: Word
    context_seq: ContextSeq = Field(description="The view that it is made from.")
    is_here: bool = Field(description="Whether it was begun in this process; others the log tells of.")


class OnlineAgent(Shape):
    """An agent that is connected, or that has a generation under way."""

    agent_id: Word
    readers: int = Field(description="Its sockets, streams and waiting requests at this process.")
    queued: int = Field(description="Observations that wait for these.")
    view_seq: GlobalSeq | None = Field(description="The latest view that it may know; null without a reader here.")
    generations: list[GenerationUnderWay]


class Online(Shape):
    """The agents that are online in a world, as far as this process of the service knows."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "time": 1767225600.5,
                    "is_open": True,
                    "seq": 42,
                    "agents_online": 1,
                    "agents": [
                        {
                            "agent_id": "alice",
                            "readers": 1,
                            "queued": 0,
                            "view_seq": 42,
                            "generations": [{"req_id": "turn-17", "context_seq": 41, "is_here": True}],
                        }
                    ],
                    "intents_waiting": 0,
                    "refused": {"stale_context": 3},
                    "generations_cancelled": 1,
                }
            ]
        },
    )

    world_id: str
    time: float = Field(description="The service's clock, in seconds since 1970: what `wall_time` is compared with.")
    is_open: bool = Field(description="Whether this process follows the world for agents; if not, nobody is online.")
    seq: int = Field(ge=0, description="The effect up to which this answer knows the log; 0 where it is not open.")
    agents_online: int
    agents: list[OnlineAgent] = Field(description="By name, the first 1,000.")
    intents_waiting: int = Field(description="Intents that wait for their turn, or for a tick.")
    refused: dict[str, int] = Field(
        description="Intents refused by this process since it opened the world, by the problem's code."
    )
    generations_cancelled: int = Field(description="Cancelled by this process since it opened the world.")


router = APIRouter(route_class=ReadingRoute, tags=["agents"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/online",
    operation_id="get_online",
    summary="Who is online in a world",
    response_class=Response,
    responses={200: {**json_of(Online), "description": "Who is online now."}, **problems(404, 422, 503)},
)
async def get_online(request: Request, world: WorldName) -> Response:
    """Return the agents that are connected or have a generation under way, and what was refused. For operators.

    It is what this process knows: each process of a service tells its own. A world that no agent uses is not opened
    for this.
    """
    found = services(request)
    await found.store.world(world)
    inhabited = found.worlds.opened(world)
    answer: dict[str, Any] = {"world_id": world, "time": found.clock(), "is_open": inhabited is not None}
    if inhabited is None:
        answer |= {"seq": 0, "agents_online": 0, "agents": [], "intents_waiting": 0}
        answer |= {"refused": {}, "generations_cancelled": 0}
    else:
        online = inhabited.online()
        agents = [
            {
                **agent._asdict(),
                "generations": [
                    {"req_id": req_id, "context_seq": context_seq, "is_here": is_here}
                    for _, req_id, context_seq, is_here in agent.generations
                ],
            }
            for agent in islice(online, _MOST)
        ]
        answer |= {"seq": inhabited.seq, "agents_online": len(online), "agents": agents}
        answer |= {"intents_waiting": inhabited.waiting, "refused": dict(sorted(inhabited.refused.items()))}
        answer |= {"generations_cancelled": inhabited.generations_cancelled}
    return Response(to_json(answer), 200, {"Cache-Control": "no-store"}, "application/json")
