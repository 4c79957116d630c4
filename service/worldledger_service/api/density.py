"""Density over HTTP: how many effects of which kinds there are along a world's log."""

from __future__ import annotations

from hashlib import sha256
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.rulesets import load_ruleset
from worldledger_service.api.answers import REVALIDATE, not_modified, to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import Shape, header, json_of, problems
from worldledger_service.api.parameters import Text, WorldName, once, whole
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.store.density import density, marks_of

MOST_BINS: Final = 2000


class DensityBins(Shape):
    """Columns: an entry for each bin."""

    end_seq: list[int] = Field(description="Its last effect. It begins behind the one before.")
    end_sim_time: list[float] = Field(description="The sim_time of that effect.")
    end: list[float] = Field(description="Where it ends in what the bins are by: a seq, a sim_time, a unit's number.")


class Density(Shape):
    """How many effects of each kind there are along a world's log, in bins."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "by": "seq",
                    "through_seq": 20,
                    "step": 1,
                    "bins": {"end_seq": [10, 20], "end_sim_time": [4.5, 9.5], "end": [10.0, 20.0]},
                    "kinds": {"Move": [8, 7], "Speak": [1, 3], "WorldCreated": [1, 0]},
                    "other_kinds": [0, 0],
                }
            ]
        },
    )

    world_id: str
    by: str
    through_seq: int = Field(description="The last effect that is counted: the head, unless counting is far behind.")
    step: int = Field(description="Bins end at multiples of so many effects.")
    bins: DensityBins
    kinds: dict[str, list[int]] = Field(description="Of each kind, how many effects each bin has; most frequent first.")
    other_kinds: list[int] = Field(description="How many effects each bin has of kinds that are not told apart.")


router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/density",
    operation_id="get_density",
    summary="How many effects of which kinds there are along a world's log",
    response_class=Response,
    responses={
        200: {
            **json_of(Density),
            "description": "Counts by kind, in bins.",
            "headers": {"ETag": header("Stands for the counts.")},
        },
        304: {"description": "The counts are those that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_density(
    request: Request,
    world: WorldName,
    bins: Annotated[int, whole(1), Query(ge=1, le=MOST_BINS, description="Give at most this many.")] = 200,
    by: Annotated[
        Text,
        Query(
            min_length=1,
            max_length=64,
            description="What all bins have as much of: `seq` (effects), `sim_time`, or a unit that the world's "
            "ruleset declares, such as `turn`.",
            json_schema_extra={"pattern": "^[a-z][a-z_]*$"},
        ),
    ] = "seq",
    until_seq: Annotated[
        int | None,
        whole(1),
        Query(ge=1, le=MAX_INT, description="Count effects up to this global_seq; by default, to the head."),
    ] = None,
) -> Response:
    """Return how many effects of each kind a world's log has in each of some bins.

    Of a short log every effect is counted; of one with more than 65,536 effects bins end at multiples of 1,024 of them.
    """
    found = services(request)
    record = await found.store.world(world)
    if until_seq is not None:
        record = record.model_copy(update={"head_seq": min(until_seq, record.head_seq)})
    units: list[tuple[int, int]] = []
    if by not in {"seq", "sim_time"}:
        declared = load_ruleset(record.ruleset).units
        if by not in declared:
            raise InvalidParameterError("by", f"must be one of {', '.join(['seq', 'sim_time', *declared])}")
        units = await found.store.states.units.beginnings(record, by)
    reader = found.store.reader
    marks = await marks_of(reader, record)
    counted = await density(reader, record, marks, bins, by, units)
    body: dict[str, Any] = {
        "world_id": record.world_id,
        "by": by,
        "through_seq": counted.through_seq,
        "step": counted.step,
        "bins": {"end_seq": counted.end_seq, "end_sim_time": counted.end_sim_time, "end": counted.end},
        "kinds": counted.kinds,
        "other_kinds": counted.other_kinds,
    }
    text = to_json(body)
    headers = {"ETag": f'"{sha256(text).hexdigest()[:16]}"', "Cache-Control": REVALIDATE}
    return not_modified(request, headers) or Response(text, 200, headers, "application/json")
