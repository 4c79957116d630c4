"""Creating, listing and looking at worlds over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Annotated, Any, Final, Literal, TypeAlias

import structlog
from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger import genesis
from worldledger.chain import Finding
from worldledger.errors import InvalidConfigError, InvalidDefinitionError
from worldledger.kinds import DEFAULT
from worldledger.moments import UnreadableMomentError, moment_rule, parse_moment
from worldledger_service.api.answers import REVALIDATE, etag, near_member, not_modified, to_json
from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import Near, Shape, header, json_of, problems
from worldledger_service.api.parameters import NAMED, Limit, Text, WorldName, next_link, once, whole
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store import WorldRecord, density
from worldledger_service.store.forking import NewFork
from worldledger_service.store.outcomes import outcomes
from worldledger_service.store.records import WorldFilter

# -- shapes ------------------------------------------------------------------------------------------------


class ForkOf(BaseModel):
    """The world that a fork goes on from, and the moment."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    world_id: str = Field(min_length=1, max_length=200, description="The parent's name.", json_schema_extra=NAMED)
    at: str = Field(default="head", min_length=1, max_length=200, description=f"The moment: {moment_rule()}.")
    label: str | None = Field(default=None, min_length=1, max_length=1000, description="Your own words about it.")
    changes: dict[str, Any] = Field(
        default_factory=dict,
        description="What the fork begins with otherwise: ENTITY/FIELD -> value, by the rules of the world.",
    )
    same_noise: bool = Field(default=False, description="Let its agents see through the noise of the parent.")
    verify: bool = Field(default=False, description="Verify all of the parent and its ancestors first.")
    anyway: bool = Field(default=False, description="Fork although the parent does not verify; the genesis says so.")


class NewWorld(genesis.UnforkedWorld):
    """A world to be created, or a fork of another one: then only `world_id` and `experiment` go with `fork_of`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"world_id": "market-town", "ruleset": DEFAULT, "experiment": "trial-1"}],
            "anyOf": [
                {"required": ["world_id"]},
                {"required": ["fork_of"], "properties": {"fork_of": {"type": "object"}}},
            ],
        }
    )

    world_id: str = Field(
        default="",
        description="Its name. That of a fork may be left out: then it is the parent's, with ~ and the seq.",
        json_schema_extra={"pattern": genesis.NAME_PATTERN, "maxLength": 200},
    )
    fork_of: ForkOf | None = Field(default=None, description="Where it goes on from, if it is a fork.")


class WorldChoice(Shape):
    """A value that worlds can be narrowed down to."""

    value: str | None
    worlds: int = Field(description="How many worlds it would leave.")


class WorldFacets(Shape):
    """How many worlds each choice of a filter would leave, with the other filters as they are."""

    total: int = Field(description="How many worlds there are with all filters.")
    live: int = Field(description="How many would be live.")
    rulesets: list[WorldChoice] = Field(description="Most worlds first; at most 100.")
    experiments: list[WorldChoice] = Field(description="Likewise; null are worlds without an experiment.")


class WorldOrigin(Shape):
    """The effect that a fork goes on from, which is its parent's."""

    world_id: str = Field(description="The parent's name when the fork was made.")
    world_uuid: str
    global_seq: int = Field(ge=1)
    depth: int = Field(ge=1, description="How many ancestors the fork has.")


class WorldWithOrigin(WorldRecord):
    """A world, and of a fork where it goes on from."""

    fork_of: WorldOrigin | None = Field(description="Where it goes on from; null for a world that is no fork.")
    outcome: str | None = Field(
        default=None,
        description="Where it is asked for: how it stands, in a line of its kind's, as far as projections have come. "
        "Null where there is nothing to say.",
    )


class ListedWorld(WorldWithOrigin):
    """A world as a page of worlds has it."""

    activity: list[int] | None = Field(
        default=None,
        description="Where it is asked for: about how many effects there are in each of as many equal spans of its "
        "sim_time.",
    )


class WorldPage(Shape):
    """A page of worlds."""

    worlds: list[ListedWorld]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")
    facets: WorldFacets | None = Field(default=None, description="Where they are asked for.")
    near: Near = None


# -- routes -------------------------------------------------------------------------------------------------

log = structlog.get_logger("worldledger.api")


class _WorldRoute(ReadingRoute):
    """One whose body is a world's configuration."""

    @staticmethod
    def refused(reason: str, path: str) -> InvalidConfigError:
        """Make the error for a body."""
        return InvalidConfigError(f"{path}: {reason}", path=path)


router = APIRouter(route_class=_WorldRoute, tags=["worlds"], dependencies=[Depends(once)])

_DEFAULT: Final = 100
_ORIGIN: Final = set(WorldOrigin.model_fields)
Outcome: TypeAlias = Annotated[bool, Query(description="Say how each world stands, in a line of its kind's.")]
#: Seconds since its last effect up to which a world is live.
_LIVE_SECONDS: Final = 300.0
#: Worlds are read so many at a time, until a page has this many bytes: configs may be large.
_AT_ONCE: Final = 100
_PAGE_BYTES: Final = 4 * 1024 * 1024
#: Spans of a world's activity.
_MOST_SPANS: Final = 100


@router.post(
    "/v1/worlds",
    operation_id="create_world",
    summary="Create a world",
    status_code=201,
    response_class=Response,
    responses={
        200: {**json_of(WorldWithOrigin), "description": "The fork that the same request made before."},
        201: {
            **json_of(WorldWithOrigin),
            "description": "The world, with its genesis at global_seq 1.",
            "headers": {"Location": header("The address of the world."), "ETag": header("The head's tag.")},
        },
        **problems(404, 409, 413, 415, 422, 503),
    },
)
async def create_world(request: Request, body: NewWorld) -> Response:
    """Create a world: its genesis `WorldCreated` says once what it is, and can never be changed.

    Its ruleset may open it with further effects, which have all of its configuration or its checkpoint, and with the
    registrations of its agents. Where these are refused, `problems` has everything that is wrong, and `path`
    says whether it is wrong in `$.config` or in `$.checkpoint`.

    With `fork_of` the world goes on from another one's state at a moment; nothing of the parent is copied. The same
    request again finds the same fork.
    """
    found = services(request)
    if body.fork_of is not None:
        return await _fork(found, body, body.fork_of)
    if "world_id" not in body.model_fields_set:
        raise InvalidConfigError("$.world_id: is missing", path="$.world_id")
    try:
        work = found.store.create_world(genesis.NewWorld(**body.model_dump(exclude={"fork_of"})))
        record = await guarded(found.store.outages, work, again="look for the world before you make it again")
    except InvalidDefinitionError as error:
        error.details.setdefault("path", "$.checkpoint")  # the configuration's own errors say so
        raise
    return _made(record, 201, _with_origin(record, None))


async def _fork(found: Services, body: NewWorld, fork_of: ForkOf) -> Response:
    for name in sorted(body.model_fields_set - {"world_id", "experiment", "fork_of"}):
        raise InvalidConfigError(f"$.{name}: a fork has that of its parent", path=f"$.{name}")
    fork = NewFork(
        world_id=body.world_id or None,
        experiment=body.experiment,
        **fork_of.model_dump(include={"label", "changes", "same_noise", "anyway"}),
    )
    try:
        moment = parse_moment(fork_of.at)
    except UnreadableMomentError as error:
        raise InvalidConfigError(f"$.fork_of.at: {error}", path="$.fork_of.at") from None
    work = found.store.fork(fork_of.world_id, moment, fork, verify=fork_of.verify)
    again = "send the same request again: it finds the fork"
    record, is_new = await guarded(found.store.outages, work, again=again)
    return _made(record, 201 if is_new else 200, await _told(found, record))


def _made(record: WorldRecord, status: int, text: bytes) -> Response:
    headers = {"Location": f"/v1/worlds/{record.world_id}", **_headers(record)}
    return Response(text, status, headers, "application/json")


@router.get(
    "/v1/worlds",
    operation_id="list_worlds",
    summary="List worlds",
    response_class=Response,
    responses={
        200: {
            **json_of(WorldPage),
            "description": "A page of worlds.",
            "headers": {"Link": header('`rel="next"`: the next page, if there is one.')},
        },
        **problems(422, 503),
    },
)
async def list_worlds(
    request: Request,
    experiment: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=200,
            description="Give the worlds of this experiment only.",
        ),
    ] = None,
    q: Annotated[
        Text | None,
        Query(
            min_length=1,
            max_length=200,
            description="Give the worlds with this in their name or experiment, A-Z without regard to case.",
        ),
    ] = None,
    ruleset: Annotated[
        Text | None, Query(min_length=1, max_length=200, description="Give the worlds of this ruleset only.")
    ] = None,
    live: Annotated[
        bool | None, Query(description="Give the worlds in which something happened in the last 5 minutes; or others.")
    ] = None,
    order: Annotated[
        Literal["name", "created", "active", "effects"],
        Query(description="By name; or first those that were made last, were active last, have the most effects."),
    ] = "name",
    activity: Annotated[
        int | None,
        whole(1),
        Query(ge=1, le=_MOST_SPANS, description="Say how many effects there are in so many equal spans of sim_time."),
    ] = None,
    outcome: Outcome = False,
    facets: Annotated[bool, Query(description="Say how many worlds each choice of a filter would leave.")] = False,
    after: Annotated[Text, Query(max_length=200, description="Give worlds that come after the one of this name.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of worlds, sorted by name unless asked otherwise. Large configs make a page shorter than `limit`.

    A world whose row cannot be read is left out, and named in the service's log; `worldledger verify` reports it. So is
    a fork whose genesis does not say properly where it begins, but it is listed, as if it were none.
    """
    found = services(request)
    asked = WorldFilter(q, ruleset, experiment, live, found.clock() - _LIVE_SECONDS)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    texts: list[bytes] = []
    size = 0
    position, more = after, True
    while more and len(texts) < wanted and size < _PAGE_BYTES:
        few = min(wanted - len(texts), _AT_ONCE)
        records = await found.store.find_worlds(asked, order=order, after=position, limit=few + 1)
        more = len(records) > few
        origins = await found.store.fork_points([record.world_id for record in records[:few]])
        readable = [record for record in records[:few] if isinstance(record, WorldRecord)]
        heads = {record.world_id: record.head_seq for record in readable}
        active = {} if activity is None else await density.activity(found.store.reader, heads, activity)
        stand = await outcomes(found.store.reader, readable) if outcome else {}
        for record in records[:few]:
            position = record.world_id
            if isinstance(record, Finding):
                log.error("a world is not listed", world_id=position, error=record.what)
                continue
            told: dict[str, Any] = {} if position not in active else {"activity": active[position]}
            if outcome:
                told["outcome"] = stand.get(position)
            texts.append(_with_origin(record, origins.get(position), told))
            size += len(texts[-1])
    following = b'"%b"' % position.encode() if more else b"null"
    headers = {"Cache-Control": REVALIDATE, **(next_link(request, after=position) if more else {})}
    is_empty = experiment is not None and not texts and not after
    guesses = near_member(await found.store.near_experiments(experiment) if is_empty and experiment else [])
    counts = b',"facets":%b' % to_json(_facets(await found.store.world_facets(asked))) if facets else b""
    body = b'{"worlds":[%b],"next_after":%b%b%b}' % (b",".join(texts), following, counts, guesses)
    return Response(body, 200, headers, "application/json")


def _facets(found: dict[str, list[tuple[str | None, int]]]) -> dict[str, Any]:
    numbers: dict[str, Any] = {name: found[name][0][1] for name in ("total", "live")}
    for name in ("rulesets", "experiments"):
        numbers[name] = [{"value": value, "worlds": worlds} for value, worlds in found[name]]
    return numbers


@router.get(
    "/v1/worlds/{world}",
    operation_id="get_world",
    summary="Look at a world and its head",
    response_class=Response,
    responses={
        200: {
            **json_of(WorldWithOrigin),
            "description": "The world with its present head.",
            "headers": {"ETag": header('`"<world>:<head_seq>:<first 8 digits of head_checksum>"`')},
        },
        304: {"description": "The head is still the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_world(request: Request, world: WorldName, outcome: Outcome = False) -> Response:
    """Return what a world is and where its log ends now.

    With `outcome` the ETag ends in 8 further digits, for projections come to the head after it has moved.
    """
    found = services(request)
    record = await found.store.world(world)
    headers = _headers(record)
    told: dict[str, Any] = {}
    if outcome:
        told["outcome"] = line = (await outcomes(found.store.reader, [record])).get(world)
        headers["ETag"] = f'{headers["ETag"][:-1]}:{sha256(to_json(line)).hexdigest()[:8]}"'
    if (unchanged := not_modified(request, headers)) is not None:
        return unchanged
    return Response(await _told(found, record, told), 200, headers, "application/json")


async def _told(found: Services, record: WorldRecord, told: Mapping[str, Any] | None = None) -> bytes:
    origins = await found.store.fork_points([record.world_id])
    return _with_origin(record, origins.get(record.world_id), told)


def _with_origin(
    record: WorldRecord, origin: genesis.ForkPoint | Finding | None, told: Mapping[str, Any] | None = None
) -> bytes:
    if isinstance(origin, Finding):
        log.error("where a fork begins cannot be read", world_id=record.world_id, error=origin.what)
    fork_of = origin.model_dump(include=_ORIGIN) if isinstance(origin, genesis.ForkPoint) else None
    return to_json({**dict(record), "fork_of": fork_of, **(told or {})})


def _headers(record: WorldRecord) -> dict[str, str]:
    return {"ETag": etag(record.world_id, record.head_seq, record.head_checksum), "Cache-Control": REVALIDATE}
