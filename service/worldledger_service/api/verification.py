"""Verifying a world over HTTP."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.chain import ORIGIN, InheritedState
from worldledger.genesis import check_world_name
from worldledger_service.api.context import services
from worldledger_service.api.openapi import CHECKSUM, Shape, json_of, problems
from worldledger_service.api.parameters import WorldName, known, position
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.store.verification import verify_world

# -- shapes ------------------------------------------------------------------------------------------------


class ChainPosition(Shape):
    """A place in a chain."""

    global_seq: int = Field(ge=0)
    checksum: str = Field(description="Hex; empty at seq 0.")


class FindingShape(Shape):
    """The first thing that does not hold."""

    global_seq: int
    what: str


class InheritedShape(Shape):
    """What a fork has from an ancestor: the ancestor's log up to the fork point."""

    world_id: str
    until_seq: int = Field(description="The fork point.")
    until_checksum: str = Field(description="Hex.")
    state: InheritedState = Field(
        description="`verified`; `left out`, because that was asked for; `missing`: the ancestor is not in this "
        "database; `tampered`. `compared` is only used where many worlds are verified at once."
    )
    effects: int = Field(description="How many of the ancestor's effects were checked.")
    finding: FindingShape | None


class Verification(Shape):
    """The outcome of a verification. Keep `position`: given as `head` (or `from`) it ties later ones to this one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "verified": True,
                    "effects": 42,
                    "position": {"global_seq": 42, "checksum": CHECKSUM},
                    "finding": None,
                    "inherited": [],
                }
            ]
        },
    )

    world_id: str
    verified: bool
    effects: int = Field(description="How many effects were checked.")
    position: ChainPosition = Field(description="The last place up to which everything holds.")
    finding: FindingShape | None = Field(description="What does not hold in the world's own log.")
    inherited: list[InheritedShape] = Field(description="What a fork has from its ancestors, the parent first.")


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=ReadingRoute, tags=["verification"], dependencies=[Depends(known)])

_POSITION = r"^[1-9][0-9]{0,14}:[0-9a-fA-F]{64}$"
_EXAMPLE = "42:6f2c0f0e5b1de0b1a7b0f0e0d9c8b7a6958473625140302f1e0d0c0b0a090807"


@router.get(
    "/v1/worlds/{world}/verification",
    operation_id="verify_world",
    summary="Verify a world's whole chain",
    response_class=Response,
    responses={
        200: {**json_of(Verification), "description": "The outcome, whether everything holds or not."},
        **problems(404, 422, 503),
    },
)
async def verification(
    request: Request,
    world: WorldName,
    start: Annotated[
        str | None,
        Query(
            alias="from",
            description="`SEQ:CHECKSUM`: a position known to be good, after which to begin.",
            json_schema_extra={"pattern": _POSITION},
        ),
    ] = None,
    head: Annotated[
        list[str] | None,
        Query(
            description="`SEQ:CHECKSUM`, repeatable: a position noted earlier, through which the chain must pass.",
            json_schema_extra={"items": {"type": "string", "pattern": _POSITION}},
        ),
    ] = None,
    full: Annotated[
        bool, Query(description="Also hold every text to the canonical profile, and every effect to its shape.")
    ] = False,
    own: Annotated[bool, Query(description="Of a fork only its own log, not what it has from its ancestors.")] = False,
) -> Response:
    """Check chain, query columns, order, requests, genesis and head; of a fork also its ancestors, each up to the fork.

    Order: times never decrease, causes lie in the past, no uuid and no req_id is repeated.

    Without noted positions a log is checked against itself. To detect a chain that was rewritten as a whole, or cut off
    at its end, keep the `position` of an earlier answer elsewhere and send it as `head`.
    """
    begin = ORIGIN if start is None else position("from", start)
    noted = [position("head", text) for text in head or []]
    if any(each.global_seq < begin.global_seq for each in noted):
        raise InvalidParameterError("head", f"it lies before the position in `from`, seq {begin.global_seq}")
    reader = services(request).store.reader
    verdict = await verify_world(reader, check_world_name(world), start=begin, noted=noted, is_full=full, is_own=own)
    finding = verdict.finding
    outcome = {
        "world_id": verdict.world_id,
        "verified": verdict.verified,
        "effects": verdict.effects,
        "position": {
            "global_seq": verdict.position.global_seq,
            "checksum": verdict.position.checksum.hex(),
        },
        "finding": None if finding is None else {"global_seq": finding.global_seq, "what": finding.what},
        "inherited": [part.told() for part in verdict.inherited],
    }
    return Response(orjson.dumps(outcome), 200, {"Cache-Control": "no-store"}, "application/json")
