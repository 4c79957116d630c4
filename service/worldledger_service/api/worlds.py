"""Creating, listing and looking at worlds over HTTP."""

from __future__ import annotations

from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from worldledger import genesis
from worldledger.chain import Finding
from worldledger.errors import InvalidConfigError, InvalidDefinitionError
from worldledger_service.api.answers import REVALIDATE, etag, near_member, not_modified, to_json
from worldledger_service.api.context import services
from worldledger_service.api.openapi import Near, Shape, header, json_of, problems
from worldledger_service.api.parameters import Limit, Text, WorldName, next_link, once
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.runtime.guarding import guarded
from worldledger_service.store import WorldRecord

# -- shapes ------------------------------------------------------------------------------------------------


class NewWorld(genesis.UnforkedWorld):
    """A world to be created."""


class WorldPage(Shape):
    """A page of worlds by name."""

    worlds: list[WorldRecord]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")
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
#: Worlds are read so many at a time, until a page has this many bytes: configs may be large.
_AT_ONCE: Final = 100
_PAGE_BYTES: Final = 4 * 1024 * 1024


@router.post(
    "/v1/worlds",
    operation_id="create_world",
    summary="Create a world",
    status_code=201,
    response_class=Response,
    responses={
        201: {
            **json_of(WorldRecord),
            "description": "The world, with its genesis at global_seq 1.",
            "headers": {"Location": header("Where the world is."), "ETag": header("The head's tag.")},
        },
        **problems(409, 413, 415, 422, 503),
    },
)
async def create_world(request: Request, body: NewWorld) -> Response:
    """Create a world: its genesis `WorldCreated` says once what it is, and can never be changed.

    Its ruleset may open it with further effects, which have all of its configuration or its checkpoint, and with the
    registrations of its agents. Where these are refused, `problems` has everything that is wrong, and `path`
    says whether it is wrong in `$.config` or in `$.checkpoint`.
    """
    found = services(request)
    try:
        work = found.store.create_world(genesis.NewWorld(**dict(body)))
        record = await guarded(found.store.outages, work, again="look for the world before you make it again")
    except InvalidDefinitionError as error:
        error.details.setdefault("path", "$.checkpoint")  # the configuration's own errors say so
        raise
    return _answer(record, 201, {"Location": f"/v1/worlds/{record.world_id}", **_headers(record)})


@router.get(
    "/v1/worlds",
    operation_id="list_worlds",
    summary="List worlds by name",
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
    after: Annotated[Text, Query(max_length=200, description="Give worlds whose names come after this one.")] = "",
    limit: Limit = None,
) -> Response:
    """Return a page of worlds, sorted by name. A page may be shorter than `limit` when configs are large.

    A world whose row cannot be read is left out, and named in the service's log; `worldledger verify` reports it.
    """
    found = services(request)
    wanted = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    texts: list[bytes] = []
    size = 0
    position, more = after, True
    while more and len(texts) < wanted and size < _PAGE_BYTES:
        few = min(wanted - len(texts), _AT_ONCE)
        records = await found.store.worlds(experiment=experiment, after=position, limit=few + 1)
        more = len(records) > few
        for record in records[:few]:
            position = record.world_id
            if isinstance(record, Finding):
                log.error("a world is not listed", world_id=position, error=record.what)
                continue
            texts.append(to_json(dict(record)))
            size += len(texts[-1])
    following = b'"%b"' % position.encode() if more else b"null"
    headers = {"Cache-Control": REVALIDATE, **(next_link(request, after=position) if more else {})}
    is_empty = experiment is not None and not texts and not after
    guesses = near_member(await found.store.near_experiments(experiment) if is_empty and experiment else [])
    body = b'{"worlds":[%b],"next_after":%b%b}' % (b",".join(texts), following, guesses)
    return Response(body, 200, headers, "application/json")


@router.get(
    "/v1/worlds/{world}",
    operation_id="get_world",
    summary="Look at a world and its head",
    response_class=Response,
    responses={
        200: {
            **json_of(WorldRecord),
            "description": "The world with its present head.",
            "headers": {"ETag": header('`"<world>:<head_seq>:<first 8 digits of head_checksum>"`')},
        },
        304: {"description": "The head is still the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def get_world(request: Request, world: WorldName) -> Response:
    """Return what a world is and where its log ends now."""
    record = await services(request).store.world(world)
    headers = _headers(record)
    return not_modified(request, headers) or _answer(record, 200, headers)


def _headers(record: WorldRecord) -> dict[str, str]:
    return {"ETag": etag(record.world_id, record.head_seq, record.head_checksum), "Cache-Control": REVALIDATE}


def _answer(record: WorldRecord, status: int, headers: dict[str, str]) -> Response:
    return Response(to_json(dict(record)), status, headers, "application/json")
