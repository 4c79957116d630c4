"""The kinds of a world's effects over HTTP: how many there are of each along the log, and which its ruleset knows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.rulesets import load_ruleset
from worldledger.rulesets.payloads import INTENTS
from worldledger_service.api.answers import tagged, to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import Text, WorldName, once, whole
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.published import plain
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.store.density import density, marks_of

if TYPE_CHECKING:
    from worldledger_service.store import WorldRecord

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])

# -- how many effects of which kinds there are along a log ---------------------------------------------------

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
    return tagged(request, to_json(body))


# -- which kinds a ruleset knows, each with the JSON Schema of its payload -------------------------------------

_SPEAK: dict[str, Any] = {
    "kind": "Speak",
    "payload": {
        "type": "object",
        "description": "Say something.",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
    },
}


class KindOfPayload(Shape):
    """A kind of effects or intents, and what its payload holds."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_SPEAK]})

    kind: Word
    payload: dict[str, JsonValue] = Field(
        description="A JSON Schema (2020-12). Members that it does not name are allowed; `readOnly` ones are filled in."
    )


class Vocabulary(Shape):
    """The kinds of effects and intents that a world's ruleset knows, by name."""

    world_id: str
    ruleset: str
    ruleset_version: int
    effects: list[KindOfPayload] = Field(description="Kinds of drafts. Any other kind is allowed, with any payload.")
    intents: list[KindOfPayload] = Field(
        description="Kinds of intents besides Custom, whose payload is that of an effect and its `kind`."
    )


@router.get(
    "/v1/worlds/{world}/kinds",
    operation_id="get_kinds",
    summary="The kinds of effects and intents of a world, with schemas of their payloads",
    response_class=Response,
    responses={
        200: {
            **json_of(Vocabulary),
            "description": "The kinds by name.",
            "headers": {"ETag": header("Stands for the answer.")},
        },
        304: {"description": "The answer is still the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_kinds(request: Request, world: WorldName) -> Response:
    """Return what a world's ruleset knows: for each kind the JSON Schema of its payload.

    What a schema refuses the world refuses, too; where a kind has strict worlds, those. The world knows rules beyond
    it: whether an entity exists, whose turn it is, whether a move is legal.
    """
    return tagged(request, to_json(vocabulary_of(await services(request).store.world(world))))


def vocabulary_of(record: WorldRecord) -> dict[str, Any]:
    """Return the kinds of effects and intents of a world, as `Vocabulary` has them."""
    return {
        "world_id": record.world_id,
        "ruleset": record.ruleset,
        "ruleset_version": record.ruleset_version,
        "effects": _told(load_ruleset(record.ruleset).payloads),
        "intents": _told(INTENTS),
    }


def _told(payloads: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{"kind": kind, "payload": plain(dict(schema))} for kind, schema in sorted(payloads.items())]
