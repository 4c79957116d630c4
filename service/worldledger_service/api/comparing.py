"""Runs and moments side by side over HTTP."""

from __future__ import annotations

from typing import Annotated, Any, Final

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger.comparing import MOST_WORLDS
from worldledger.drafts import MAX_WORD
from worldledger.moments import AUTO, HEAD, UnreadableMomentError, parse_place
from worldledger_service.api.answers import checksum_at, not_modified, validators
from worldledger_service.api.context import Services, services
from worldledger_service.api.frames import ForkedFrom
from worldledger_service.api.openapi import CHECKSUM, HEX64, GlobalSeq, Shape, header, json_of, problems
from worldledger_service.api.parameters import NAMED, Text, known, once
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.comparing import Wanted, compare
from worldledger_service.runtime.moments import Place, side_by_side

# -- shapes ------------------------------------------------------------------------------------------------


class ComparedWorld(Shape):
    """One of the runs that are compared."""

    world_id: str
    ruleset: str
    experiment: str | None
    head_seq: GlobalSeq
    head_checksum: str = Field(pattern=HEX64, description="The run is compared up to here.")
    fork_of: ForkedFrom | None = Field(description="Of a fork: what lies before its first effect is in this world.")
    outcome: dict[str, JsonValue] | None = Field(description="How it stands in the end, if its kind tells.")
    labels: dict[str, JsonValue] = Field(description="What it may be grouped by, besides its configuration.")


class DifferingField(Shape):
    """A place at which two documents differ.

    A value that is missing has `…_missing`, one of more than 1,000 bytes its size in `…_bytes`.
    """

    path: str = Field(description="Its JSON path.", examples=["$.payload.price"])
    a: JsonValue = None
    b: JsonValue = None
    a_missing: bool = False
    b_missing: bool = False
    a_bytes: int | None = None
    b_bytes: int | None = None


class ComparedEffect(Shape):
    """An effect, named so that it can be looked up; of a fork it may be an ancestor's."""

    world_id: str
    global_seq: GlobalSeq
    kind: str
    source_id: str
    sim_time: float
    checksum: str = Field(pattern=HEX64)


class Parting(Shape):
    """Two effects that differ, or one that only one run has."""

    unit: str = Field(description="What the effects are aligned by.")
    number: float | None = Field(description="The number of the unit; null before the first one.")
    a: ComparedEffect | None
    b: ComparedEffect | None
    fields: list[DifferingField] = Field(
        description="Where the effects differ; of one that only one run has, what its payload says."
    )


class ComparedPair(Shape):
    """Two runs and their first differences."""

    a: str
    b: str
    equal: bool = Field(description="Nothing differs, neither settings nor effects.")
    equal_effects: int = Field(ge=0, description="How many effects they have in common until they part.")
    shared_effects: int = Field(ge=0, description="How many of these are the same effects: the past that forks share.")
    settings: list[DifferingField] = Field(description="Where their genesis effects differ.")
    beginnings: list[Parting] = Field(description="Differences before the first unit, at most 20.")
    divergence: Parting | None = Field(description="The first difference from the first unit on; null for none.")


class MeasureSeries(Shape):
    """A measure side by side."""

    measure: str
    numbers: list[int] = Field(description="The units that any run has a value of.")
    values: list[list[float | None]] = Field(description="For each run a value by unit; null where it has none.")


class GroupSeries(Shape):
    """A measure of a group of runs, by unit."""

    measure: str
    group: str
    numbers: list[int]
    n: list[int] = Field(description="How many runs of the group have a value.")
    mean: list[float]
    q1: list[float]
    median: list[float]
    q3: list[float]


class RunGroups(Shape):
    """The measures by group."""

    by: str
    of: list[str] = Field(description="The group of each run.")
    series: list[GroupSeries]


class OnlyIn(Shape):
    """The names that only one run has, at most 100 of either."""

    a: list[str]
    b: list[str]
    more: int


class Afterwards(Shape):
    """The effects, entities and agents from the divergence on."""

    effects: dict[str, list[int]] = Field(description="How many effects of each kind, in a and in b.")
    entities: OnlyIn
    agents: OnlyIn


class Differing(Shape):
    """Differences of two states or views, at most 100."""

    a_world_id: str | None = Field(default=None, description="In whose log `a_seq` is: a fork, or an ancestor.")
    a_seq: GlobalSeq | None = None
    b_world_id: str | None = None
    b_seq: GlobalSeq | None = None
    equal: bool
    differences: list[DifferingField]
    more: int


class FirstDifference(Differing):
    """The first unit at whose end states, or views, differ."""

    unit: str
    number: float | None = Field(description="Null for what lies before the first unit.")


class GivenUp(Shape):
    """Where the search for the first difference was given up; up to there is none."""

    unit: str
    number: float | None
    effects: int = Field(ge=1, description="How many effects of both runs were folded for it.")


class ComparedStates(Shape):
    """Differences of the states at the divergence, where they first differ at the end of a unit, and at the heads."""

    divergence: Differing | None
    first: FirstDifference | None
    stopped: GivenUp | None = Field(description="Set if so many effects were folded that the search was given up.")
    head: Differing


class ComparedViews(ComparedStates):
    """The same differences of an agent's views."""

    agent_id: str


class Comparison(Shape):
    """Runs side by side."""

    worlds: list[ComparedWorld]
    by: str
    ignored: list[str] = Field(description="JSON paths that make no difference, with those that the kind leaves out.")
    pairs: list[ComparedPair]
    series: list[MeasureSeries] = Field(description="The measures of the kind.")
    series_unit: str | None = Field(description="What they are counted in; null for a kind without measures.")
    groups: RunGroups | None
    after: Afterwards | None = Field(description="Of two runs that part.")
    states: ComparedStates | None = Field(description="Of two runs.")
    views: ComparedViews | None


class PlacedState(Shape):
    """A state, by its place."""

    world_id: str
    global_seq: GlobalSeq
    checksum: str = Field(pattern=HEX64, examples=[CHECKSUM])
    state_digest: str = Field(pattern=HEX64)


class ComparedMoments(Shape):
    """Two moments side by side."""

    a: PlacedState
    b: PlacedState
    agent_id: str | None
    states: Differing | None
    views: Differing | None


# -- routes -------------------------------------------------------------------------------------------------

_TAG: Final = header("Stands for the places in the chains, and the versions of the ruleset and of this program.")
#: Parameters that may stand more than once.
_SEVERAL = frozenset({"world", "ignore"})
#: Longest path of a field that makes no difference, in characters.
_MOST_OF_PATH: Final = 1000


async def _once(request: Request) -> None:
    """Raise InvalidParameterError for a parameter that stands twice and may not, or that is unknown."""
    names = [name for name, _ in request.query_params.multi_items() if name not in _SEVERAL]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameterError(name, "stands more than once")
    await known(request)


router = APIRouter(route_class=ReadingRoute, tags=["states"])


@router.get(
    "/v1/compare",
    operation_id="compare_worlds",
    summary="Where runs part, and what becomes of them",
    response_class=Response,
    dependencies=[Depends(_once)],
    responses={
        200: {**json_of(Comparison), "description": "The runs side by side.", "headers": {"ETag": _TAG}},
        304: {"description": "The heads are those that If-None-Match names; nothing was read."},
        **problems(404, 422, 503),
    },
)
async def compare_worlds(
    request: Request,
    world: Annotated[
        list[Annotated[Text, Field(json_schema_extra=NAMED)]],
        Query(min_length=2, max_length=MOST_WORLDS, description="The worlds, each as one `world=NAME`, of one kind."),
    ],
    by: Annotated[
        Text,
        Query(
            min_length=1, max_length=64, description="What effects are aligned by: auto, seq, step, sim_time or a unit."
        ),
    ] = AUTO,
    ignore: Annotated[
        list[Annotated[Text, Field(min_length=1, max_length=_MOST_OF_PATH)]] | None,
        Query(
            max_length=100,
            description="A field that makes no difference, such as `payload.clock`; may stand several times.",
        ),
    ] = None,
    view: Annotated[
        Text | None,
        Query(min_length=1, max_length=MAX_WORD, description="Compare what this agent saw, too, in two worlds."),
    ] = None,
    group: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=MAX_WORD,
            description="Give mean and quartiles by a label of the kind, `experiment` or a setting.",
        ),
    ] = None,
) -> Response:
    """Return the first effects in which runs of one kind differ, two by two, and their measures side by side.

    Of two runs the answer also has their states and effects after that. Both logs are read, so large worlds take as
    long as it takes to read them. Every answer is of the heads that it names, and its ETag stands for them.
    """
    found = services(request)
    records = [await found.store.world(name) for name in world]
    headers = validators((record, record.head_seq, record.head_checksum) for record in records)
    unchanged = not_modified(request, headers)
    if unchanged is not None:
        return unchanged
    answer = await compare(found.store, records, Wanted(by, ignore or (), view, group))
    return _answer(answer, headers)


@router.get(
    "/v1/compare/moments",
    operation_id="compare_moments",
    summary="Two moments side by side",
    response_class=Response,
    dependencies=[Depends(once)],
    responses={
        200: {
            **json_of(ComparedMoments),
            "description": "Where the states differ or, of an agent, the views.",
            "headers": {"ETag": _TAG},
        },
        304: {"description": "The moments are those that If-None-Match names; nothing was folded."},
        **problems(404, 422, 503),
    },
)
async def compare_moments(
    request: Request,
    a: Annotated[Text, Query(min_length=1, max_length=301, description="`WORLD@MOMENT`, or `WORLD` for its head …")],
    b: Annotated[Text, Query(min_length=1, max_length=301, description="… and another one, of the same world or not.")],
    agent: Annotated[
        Text | None, Query(min_length=1, max_length=MAX_WORD, description="Compare what this agent saw.")
    ] = None,
    truth: Annotated[bool, Query(description="With `agent`: compare the states, too.")] = False,
) -> Response:
    """Return where two states differ, or what an agent saw in one and not in the other.

    The places in their own logs that states have (`last_effect_seq` …) are left out.
    """
    found = services(request)
    places = [await _place(found, name, text) for name, text in (("a", a), ("b", b))]
    headers = validators([(*place, await checksum_at(found.store, *place)) for place in places])
    unchanged = not_modified(request, headers)
    if unchanged is not None:
        return unchanged
    return _answer(await side_by_side(found.store, *places, agent=agent, truth=truth), headers)


async def _place(found: Services, name: str, text: str) -> Place:
    try:
        world, moment = parse_place(text)
    except UnreadableMomentError as error:
        raise InvalidParameterError(name, str(error)) from None
    record = await found.store.world(world)
    return Place(*await found.store.states.place_at(record, moment or HEAD))


def _answer(found: dict[str, Any], headers: dict[str, str]) -> Response:
    return Response(orjson.dumps(found), 200, headers, "application/json")
