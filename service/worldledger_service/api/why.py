"""Causes over HTTP: what an effect came of, and what came of it."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Query
from pydantic import AfterValidator, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.causes import Direction, LinkKind
from worldledger.genesis import check_world_name
from worldledger.moments import parse_moment
from worldledger_service.api.answers import REVALIDATE, to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, Shape, json_of, problems
from worldledger_service.api.parameters import WorldName, once, seq_of_history, whole
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.store.why import MOST_DEPTH, MOST_EFFECTS, MOST_WIDTH, MOST_WINDOW, Asked, document, why

# -- shapes ------------------------------------------------------------------------------------------------

_DEFAULT: Final = Asked()
_LINK: Final[dict[str, Any]] = {
    "kind": "context",
    "world_id": "market-town",
    "global_seq": 40,
    "checksum": CHECKSUM,
    "entities": ["alice", "gate"],
}
_FACTS: Final[dict[str, Any]] = {
    "world_id": "market-town",
    "checksum": CHECKSUM,
    "sim_time": 12.5,
    "refused": None,
    "problem": None,
    "left_out": {},
}
_WHY: Final[dict[str, Any]] = {
    "world_id": "market-town",
    "global_seq": 42,
    "direction": "back",
    "depth": 1,
    "width": 3,
    "limit": 100,
    "head_seq": 50,
    "from_seq": 1,
    "to_seq": 42,
    "told_to_seq": None,
    "forks": [],
    "notes": [],
    "effects": [
        {
            **_FACTS,
            "global_seq": 42,
            "kind": "Speak",
            "source_id": "bob",
            "depth": 0,
            "context": {"agent_id": "bob", "view_seq": 40},
            "is_expanded": True,
            "links": [_LINK],
        },
        {
            **_FACTS,
            "global_seq": 40,
            "kind": "Move",
            "source_id": "alice",
            "depth": 1,
            "context": None,
            "is_expanded": False,
            "links": [],
        },
    ],
}


class CausalLink(Shape):
    """A link to another effect."""

    kind: LinkKind = Field(
        description="How it is known. `told`: the effect names its cause. `request`: the same agent and req_id. "
        "`context`: the view that was decided from, and the effects that showed what was in it. `same entity`: the "
        "last effect before it that may have changed the same entity."
    )
    world_id: str
    global_seq: GlobalSeq
    checksum: str = Field(pattern=HEX64, description="The chain checksum of the effect that the link leads to.")
    entities: list[str] = Field(description="The entities that it is about, sorted.")


class DecidedFrom(Shape):
    """The view that an intent or a generation was made from."""

    agent_id: str
    view_seq: GlobalSeq


class Refused(Shape):
    """Why an intent was refused, or a generation cancelled."""

    code: str | None
    reason: str | None


class CausalEffect(Shape):
    """An effect that was found, with its links."""

    world_id: str
    global_seq: GlobalSeq
    checksum: str = Field(pattern=HEX64)
    kind: str
    source_id: str
    sim_time: float
    depth: int = Field(ge=0, description="How many links it lies from the effect that was asked about.")
    context: DecidedFrom | None
    refused: Refused | None
    problem: str | None = Field(
        description="What is wrong with it in a log that was tampered with: its checksum, a column, what it records."
    )
    is_expanded: bool = Field(description="Whether its links were followed; not at the end of the depth.")
    links: list[CausalLink]
    left_out: dict[LinkKind, int] = Field(description="How many links of each kind were too many.")


class ForkOnTheWay(Shape):
    """A fork that the way forward goes on in."""

    world_id: str
    head_seq: GlobalSeq = Field(description="Its head; of one that is left again, that fork point.")
    to_seq: int = Field(
        ge=0, description="Up to here it is known what was touched and what agents were shown; 0: nowhere."
    )
    told_to_seq: int = Field(ge=0, description="Up to here effects were looked at for `caused_by`.")


class WhyAnswer(Shape):
    """The way back or forward from an effect: the effects, the nearest first."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_WHY]})

    world_id: str
    global_seq: GlobalSeq
    direction: Direction
    depth: int
    width: int
    limit: int
    head_seq: int = Field(description="The head of the effect's log; of an ancestor's, the fork point.")
    from_seq: GlobalSeq = Field(description="From here …")
    to_seq: GlobalSeq = Field(description="… to here it is known what was touched and what agents were shown.")
    told_to_seq: int | None = Field(
        description="Forward: up to here effects were looked at for `caused_by`; null backward."
    )
    forks: list[ForkOnTheWay] = Field(
        description="Forward from an effect before a fork point: the forks that the way goes on in, the nearest first."
    )
    notes: list[str] = Field(description="What could not be looked at.")
    effects: list[CausalEffect]


# -- routes ------------------------------------------------------------------------------------------------

SeqOfHistory = Annotated[
    str,
    AfterValidator(seq_of_history),
    Path(
        max_length=1000,
        description="The effect's global_seq. In a fork, `parent:` before it names one of the parent's, up to the fork "
        "point, `parent:parent:` one of the parent's parent, and so on.",
        examples=["42", "parent:42"],
        json_schema_extra={"pattern": "^(parent:)*[1-9][0-9]{0,14}$"},
    ),
]

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/effects/{seq}/why",
    operation_id="get_why",
    summary="What an effect came of, and what came of it",
    response_class=Response,
    responses={
        200: {**json_of(WhyAnswer), "description": "The effects on the way, and the links between them."},
        **problems(404, 422, 503),
    },
)
async def get_why(
    request: Request,
    world: WorldName,
    seq: SeqOfHistory,
    direction: Annotated[Direction, Query(description="Back to its causes, or forward to what came of it.")] = "back",
    depth: Annotated[int, whole(0), Query(ge=0, le=MOST_DEPTH, description="Go so many links far.")] = _DEFAULT.depth,
    width: Annotated[
        int, whole(1), Query(ge=1, le=MOST_WIDTH, description="Of each kind, follow so many links of an effect.")
    ] = _DEFAULT.width,
    limit: Annotated[
        int, whole(1), Query(ge=1, le=MOST_EFFECTS, description="Give at most so many effects.")
    ] = _DEFAULT.limit,
    window: Annotated[
        int,
        whole(1),
        Query(
            ge=1,
            le=MOST_WINDOW,
            description="In so many effects before it (forward: after it), find out what was touched and shown.",
        ),
    ] = _DEFAULT.window,
) -> Response:
    """Return the way back from an effect to the outside, or forward to all that came of it.

    Links are made from what is recorded, and from nothing else; each carries the checksum of the effect that it leads
    to. What was too much is counted, and what could not be looked at is said. From an effect before the fork point of a
    fork (`parent:42`), the way forward goes on in the fork.
    """
    store = services(request).store
    record, moment = await store.world(check_world_name(world)), parse_moment(seq)
    of, at_seq = record, moment.seq or 0
    if moment.parents:
        of, at_seq = await store.states.place_at(record, moment)
    found = await why(store, record, at_seq, Asked(direction, depth, width, limit, window), of.world_id)
    return Response(to_json(document(found)), 200, {"Cache-Control": REVALIDATE}, "application/json")
