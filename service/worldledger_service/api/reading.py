"""Reading effects over HTTP: pages, streams and single effects, all made of the stored bytes."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final, Literal, NamedTuple

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger.chain import Position, StoredEffect
from worldledger.errors import EffectNotFoundError
from worldledger.genesis import check_world_name
from worldledger_service.api.caching import IMMUTABLE, REVALIDATE, etag, not_modified
from worldledger_service.api.context import Services, services
from worldledger_service.api.moments import once
from worldledger_service.api.openapi import header, json_of, problems
from worldledger_service.api.parameters import (
    AfterSeq,
    Kind,
    Limit,
    Seq,
    SourceId,
    UntilSeq,
    WorldName,
    check_reached,
    check_text,
    next_link,
)
from worldledger_service.api.projected import near_member
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import Stream
from worldledger_service.store import WorldRecord

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])

NDJSON: Final = "application/x-ndjson"
_DEFAULT: Final = 100
_THROUGH: Final = "Worldledger-Through"
_CHECKSUM: Final = "Worldledger-Checksum"


class _Range(NamedTuple):
    """What was asked for; ``until`` is at most the head of that moment, so that every answer has an end."""

    world_id: str
    after: int
    until: int
    kind: str | None
    source_id: str | None

    def batches(self, found: Services, after: int, limit: int | None) -> AsyncGenerator[list[StoredEffect], None]:
        return found.store.reader.batches(
            self.world_id,
            after_seq=after,
            until_seq=self.until,
            kind=self.kind,
            source_id=self.source_id,
            limit=limit,
        )


@router.get(
    "/v1/worlds/{world}/effects",
    operation_id="read_effects",
    summary="Read effects, as pages or as one stream",
    response_class=Response,
    responses={
        200: {
            "description": "Effects in ascending order.",
            "content": {
                **json_of("EffectPage")["content"],
                NDJSON: {"schema": {"type": "string", "description": "One effect a line, exactly as stored."}},
            },
            "headers": {
                "Link": header('`rel="next"`: the next page, if there is one.'),
                _THROUGH: header(
                    "Of a stream without `limit`: `SEQ:CHECKSUM` of the last effect in its range, as `verify` takes it."
                ),
            },
        },
        **problems(404, 409, 422, 503),
    },
)
async def read_effects(
    request: Request,
    world: WorldName,
    after_seq: AfterSeq = 0,
    until_seq: UntilSeq = None,
    limit: Limit = None,
    kind: Kind = None,
    source_id: SourceId = None,
    format: Annotated[  # noqa: A002 - the parameter's name
        Literal["json", "ndjson"] | None, Query(description="The same choice as with the Accept header.")
    ] = None,
) -> Response:
    """Return a world's effects with after_seq < global_seq <= until_seq, ascending, each exactly as stored.

    As JSON it is a page of at most `limit` effects (100 if not given) and a few MiB; `Link` leads to the next. With
    `Accept: application/x-ndjson` it is a stream of the whole range, up to the head of this moment; if something
    goes wrong on the way, the connection is cut and the response has no proper end. What has a fixed `until_seq`
    that the world has reached may be cached for ever.
    """
    check_text("kind", kind)
    check_text("source_id", source_id)
    found = services(request)
    record = await found.store.world(world)
    check_reached("after_seq", after_seq, record)
    until = record.head_seq if until_seq is None else min(until_seq, record.head_seq)
    asked = _Range(world, after_seq, until, kind, source_id)
    headers = {
        "Cache-Control": REVALIDATE if until_seq is None or until_seq > record.head_seq else IMMUTABLE,
        "Vary": "Accept",
    }
    if format == "ndjson" or (format is None and _prefers_ndjson(request)):
        if limit is None and until > 0:
            headers[_THROUGH] = str(await position(found, record, until))
        return Stream(_lines(found, asked, limit), NDJSON, headers)
    most = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    return await _page(request, found, record, asked, most, headers)


async def _page(
    request: Request, found: Services, record: WorldRecord, asked: _Range, limit: int, headers: dict[str, str]
) -> Response:
    rows = await _first_batch(found, asked, asked.after, limit)
    through = rows[-1].global_seq if rows else asked.after
    more = through < asked.until and bool(rows) and bool(await _first_batch(found, asked, through, 1))
    if more:
        headers |= next_link(request, after_seq=through)
    else:
        through = max(asked.after, asked.until)
    # Who follows a log gets many empty pages; only the first tells what may have been meant.
    is_first = not rows and asked.after == 0
    guesses = await found.store.near_effects(record, asked.kind, asked.source_id) if is_first else []
    if guesses:
        headers["Cache-Control"] = REVALIDATE
    body = b'{"world_id":"%b","effects":[%b],"checksums":[%b],"through_seq":%d,"next_after_seq":%b%b}' % (
        asked.world_id.encode(),
        b",".join([row.text for row in rows]),
        ",".join([f'"{row.checksum.hex()}"' for row in rows]).encode(),
        through,
        b"%d" % through if more else b"null",
        near_member(guesses),
    )
    return Response(body, 200, headers, "application/json")


async def _first_batch(found: Services, asked: _Range, after: int, limit: int) -> list[StoredEffect]:
    async with aclosing(asked.batches(found, after, limit)) as batches:
        async for batch in batches:
            return batch
    return []


async def _lines(found: Services, asked: _Range, limit: int | None) -> AsyncGenerator[bytes, None]:
    async with aclosing(asked.batches(found, asked.after, limit)) as batches:
        async for batch in batches:
            yield b"\n".join([row.text for row in batch]) + b"\n"


async def position(found: Services, record: WorldRecord, seq: int) -> Position:
    """Return the chain's position at a seq that the world has reached."""
    if seq == record.head_seq:
        return record.head.position
    return Position(seq, (await found.store.reader.effect(record.world_id, seq)).checksum)


def _prefers_ndjson(request: Request) -> bool:
    """Tell whether the Accept header names NDJSON, before JSON if that too."""
    for asked in request.headers.get("accept", "").split(","):
        media_type = asked.partition(";")[0].strip().lower()
        if media_type in {NDJSON, "application/ndjson", "application/jsonl"}:
            return True
        if media_type == "application/json":
            return False
    return False


@router.get(
    "/v1/worlds/{world}/effects/{seq}",
    operation_id="read_effect",
    summary="Read one effect",
    response_class=Response,
    responses={
        200: {
            **json_of("Effect"),
            "description": "The stored bytes, exactly as they were hashed.",
            "headers": {
                _CHECKSUM: header("The effect's chain checksum: 64 hex digits."),
                "ETag": header('`"<world>:<seq>:<first 8 digits of the checksum>"`'),
            },
        },
        304: {"description": "The effect is the one that If-None-Match names."},
        **problems(404, 422, 503),
    },
)
async def read_effect(request: Request, world: WorldName, seq: Seq) -> Response:
    """Return one effect; the body is what was hashed, byte for byte."""
    store = services(request).store
    check_world_name(world)
    try:
        row = await store.reader.effect(world, seq)
    except EffectNotFoundError:
        await store.world(world)  # is it the world that is not there?
        raise
    checksum = row.checksum.hex()
    headers = {"ETag": etag(world, seq, checksum), _CHECKSUM: checksum, "Cache-Control": IMMUTABLE}
    return not_modified(request, headers) or Response(row.text, 200, headers, "application/json")
