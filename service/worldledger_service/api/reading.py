"""Reading effects over HTTP: pages, one effect, all of a world, of many worlds, following a world, and searching it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal, NamedTuple

import orjson
from fastapi import APIRouter, Depends, Query
from pydantic import ConfigDict, Field, JsonValue
from starlette.requests import Request
from starlette.responses import Response

from worldledger.aio import first_of
from worldledger.canonical import MAX_INT
from worldledger.chain import Position, StoredEffect
from worldledger.errors import EffectNotFoundError
from worldledger.genesis import check_world_name
from worldledger_service.api.answers import IMMUTABLE, REVALIDATE, etag, near_member, not_modified
from worldledger_service.api.context import Services, services
from worldledger_service.api.effects import _DRAFT
from worldledger_service.api.openapi import CHECKSUM, UUID, GlobalSeq, Near, Shape, Word, header, json_of, problems
from worldledger_service.api.parameters import (
    NAMED,
    AfterSeq,
    Kind,
    LastEventId,
    Limit,
    Seq,
    SourceId,
    Text,
    UntilSeq,
    WorldName,
    check_reached,
    next_link,
    once,
    whole,
)
from worldledger_service.api.problems import InvalidParameterError
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import StoppingError, Stream
from worldledger_service.arrow.choosing import WorldSpan, choose
from worldledger_service.arrow.pool import needed
from worldledger_service.runtime.following import Tail
from worldledger_service.store import WorldRecord
from worldledger_service.store.searching import Wanted, search

# -- shapes ------------------------------------------------------------------------------------------------

_EFFECT: dict[str, Any] = {
    **_DRAFT,
    "uuid": UUID,
    "global_seq": 42,
    "sim_time": 12.5,
    "world_id": "market-town",
    "priority": 0,
    "wall_time": 1764277353.25,
}


class Effect(Shape):
    """An effect of the log: the stored bytes, exactly as they were hashed."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_EFFECT]})

    uuid: str
    kind: Word
    payload: dict[str, JsonValue]
    global_seq: GlobalSeq
    sim_time: float
    source_id: Word
    schema_version: Word
    world_id: str
    priority: int
    req_id: str | None
    wall_time: float
    caused_by: int | None = None
    source_metadata: dict[str, JsonValue] | None = None


class EffectPage(Shape):
    """A page of effects in ascending order, each exactly as stored, with their checksums beside them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "effects": [_EFFECT],
                    "checksums": [CHECKSUM],
                    "through_seq": 42,
                    "next_after_seq": 42,
                }
            ]
        },
    )

    world_id: str
    effects: list[Effect]
    checksums: list[str] = Field(description="The chain checksum of each effect, hex, in the same order.")
    through_seq: int = Field(
        description="Up to here the page has everything that was asked for: the after_seq with which to ask for later "
        "effects."
    )
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")
    near: Near = None


# -- routes -------------------------------------------------------------------------------------------------

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])

NDJSON: Final = "application/x-ndjson"
_DEFAULT: Final = 100
_THROUGH: Final = "Worldledger-Through"
_CHECKSUM: Final = "Worldledger-Checksum"


class _Range(NamedTuple):
    """The requested effects; ``until`` is at most the head of that moment, so that every answer has an end."""

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
                **json_of(EffectPage)["content"],
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
    # A client that follows a log gets many empty pages; only the first suggests other names.
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
    """Return whether the Accept header names NDJSON, before JSON if that too."""
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
            **json_of(Effect),
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


# -- following a world: its effects as server-sent events --------------------------------------------------


EVENT_STREAM: Final = "text/event-stream"
KEEPALIVE: Final = b": still here\n\n"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_SEQ: Final = re.compile(r"[0-9]{1,16}\Z")


@router.get(
    "/v1/worlds/{world}/tail",
    operation_id="tail_effects",
    summary="Follow a world's effects",
    response_class=Response,
    responses={
        200: {
            "description": "Events named `effect`: `id` is the global_seq, `data` the effect exactly as stored.",
            "content": {
                EVENT_STREAM: {
                    "schema": {"type": "string"},
                    "example": 'event: effect\nid: 42\ndata: {"global_seq":42,"kind":"SpeakSent"}\n\n',
                }
            },
        },
        **problems(404, 409, 422, 503),
    },
)
async def tail_effects(
    request: Request,
    world: WorldName,
    after_seq: Annotated[
        int | None,
        whole(0),
        Query(ge=0, le=MAX_INT, description="Begin after this global_seq; by default, with what comes now."),
    ] = None,
    last_event_id: LastEventId = None,
) -> Response:
    """Send every effect after a position, in order, none twice, and then each new one once it is durable.

    The stream does not end by itself. While the database is away it stays open; comments keep it alive. A client that
    was cut off continues after the last `id` it got; a position beyond the head is refused, naming the head.
    """
    found = services(request)
    record = await found.store.world(world)
    if last_event_id is not None:
        position = event_id(last_event_id)
        check_reached("Last-Event-ID", position, record, "header")
    else:
        position = record.head_seq if after_seq is None else after_seq
        check_reached("after_seq", position, record)
    found.watcher.moved(world, record.head_seq)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(_events(found, world, position), EVENT_STREAM, headers, stopping=found.stopping, endless=True)


def event_id(text: str) -> int:
    """Read the header Last-Event-ID. Raises InvalidParameterError."""
    if not _SEQ.match(text) or int(text) > MAX_INT:
        what = f"must be the global_seq of an effect, a whole number from 0 to {MAX_INT}"
        raise InvalidParameterError("Last-Event-ID", what, "header")
    return int(text)


async def _events(found: Services, world_id: str, position: int) -> AsyncGenerator[bytes, None]:
    """Return chunks of whole events, and a comment where there is nothing to tell for long."""
    yield b": after %d\n\n" % position
    tail = Tail(found.store, found.watcher, world_id, position)
    while True:
        rows = await tail.next(found.keepalive)
        yield b"".join([_event(row) for row in rows]) or KEEPALIVE


def _event(row: StoredEffect) -> bytes:
    text = row.text
    if b"\n" in text or b"\r" in text:  # not canonical: the table was tampered with, yet framing must hold
        text = b"\ndata: ".join(_LINE_END.split(text))
    return b"event: effect\nid: %d\ndata: %b\n\n" % (row.global_seq, text)


# -- effects of many worlds in one stream ------------------------------------------------------------------


ARROW: Final = "application/vnd.apache.arrow.stream"


@router.get(
    "/v1/effects",
    operation_id="stream_effects",
    summary="Read the effects of many worlds, as Arrow or as lines",
    response_class=Response,
    responses={
        200: {
            "description": "Effects, ordered by world_id and global_seq.",
            "content": {
                NDJSON: {"schema": {"type": "string", "description": "One effect a line, exactly as stored."}},
                ARROW: {"schema": {"type": "string", "format": "binary", "description": "An Arrow IPC stream."}},
            },
            "headers": {
                "Worldledger-Through": header("Of one world: `SEQ:CHECKSUM` of the last effect in its range."),
            },
        },
        **problems(404, 409, 422, 501, 503),
    },
)
async def stream_effects(
    request: Request,
    world: Annotated[
        str | None, Query(min_length=1, description="Give effects of this world only.", json_schema_extra=NAMED)
    ] = None,
    experiment: Annotated[
        Text | None,
        Query(min_length=1, max_length=200, description="Give effects of the worlds of this experiment only."),
    ] = None,
    kind: Kind = None,
    source_id: SourceId = None,
    after_seq: AfterSeq = 0,
    until_seq: UntilSeq = None,
    format: Annotated[  # noqa: A002 - the parameter's name
        Literal["arrow", "ndjson"] | None, Query(description="The same choice as with the Accept header.")
    ] = None,
) -> Response:
    """Return all effects of the requested worlds, ascending, without a gap, as of one moment.

    That is the moment of the request: each world's part ends at its head. With
    `Accept: application/vnd.apache.arrow.stream` the answer is an Arrow IPC stream of record batches, and else one
    effect a line. `after_seq` and `until_seq` go with `world`. If something goes wrong on the way, or the service
    stops, the connection is cut and the response has no proper end; a client that leaves ends the query.
    """
    found = services(request)
    headers = {"Cache-Control": REVALIDATE, "Vary": "Accept"}
    if world is not None:
        record = await found.store.world(world)
        check_reached("after_seq", after_seq, record)
        until = record.head_seq if until_seq is None else min(until_seq, record.head_seq)
        spans = [WorldSpan(world, record.experiment, after_seq, until)]
        if experiment not in {None, record.experiment}:
            spans = []
        elif until:
            headers["Worldledger-Through"] = str(await position(found, record, until))
    elif after_seq or until_seq is not None:
        name = "after_seq" if after_seq else "until_seq"
        raise InvalidParameterError(name, "is a place in one world's log; give world, too")
    else:
        spans = [chosen.span() for chosen in await choose(found.store.reader, experiment=experiment)]
    if format == "arrow" or (format is None and accepts_arrow(request)):
        source = await begun(_arrow(found, spans, kind, source_id), 2)  # the schema, and the first batch
        return Stream(until_stopped(source, found.stopping), ARROW, headers)
    source = await begun(_arrow_lines(found, spans, kind, source_id), 1)
    return Stream(until_stopped(source, found.stopping), NDJSON, headers)


def accepts_arrow(request: Request) -> bool:
    """Return whether the Accept header names Arrow."""
    asked = request.headers.get("accept", "").split(",")
    return any(media_type.partition(";")[0].strip().lower() == ARROW for media_type in asked)


def _arrow(
    found: Services, spans: list[WorldSpan], kind: str | None, source_id: str | None
) -> AsyncGenerator[bytes, None]:
    effects = found.arrow.effects()
    with needed():
        from worldledger_service.arrow.ipc import encoded  # noqa: PLC0415
        from worldledger_service.arrow.reading import SCHEMA  # noqa: PLC0415 - large, and not always installed

    return encoded(SCHEMA, effects.batches(spans, kind=kind, source_id=source_id))


async def _arrow_lines(
    found: Services, spans: list[WorldSpan], kind: str | None, source_id: str | None
) -> AsyncGenerator[bytes, None]:
    for world_id, _, after_seq, until_seq in spans:
        rows = found.store.reader.batches(
            world_id, after_seq=after_seq, until_seq=until_seq, kind=kind, source_id=source_id
        )
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield b"\n".join([row.text for row in batch]) + b"\n"


async def begun(source: AsyncGenerator[bytes, None], chunks: int, least: int = 0) -> AsyncGenerator[bytes, None]:
    """Read the first chunks of a stream, and so many bytes at least.

    What goes wrong as early as that is answered with a problem instead of a stream that breaks off.
    """
    first: list[bytes] = []
    size = 0
    try:
        while len(first) < chunks or size < least:
            chunk = await anext(source, None)
            if chunk is None:
                break
            first.append(chunk)
            size += len(chunk)
    except BaseException:
        await source.aclose()
        raise

    async def rest() -> AsyncGenerator[bytes, None]:
        async with aclosing(source):
            yield b"".join(first)
            async for chunk in source:
                yield chunk

    return rest()


async def until_stopped(source: AsyncGenerator[bytes, None], stopping: asyncio.Event) -> AsyncGenerator[bytes, None]:
    """Return the chunks of a stream; raises StoppingError once the service stops: what is cut must not look whole."""
    async with aclosing(source):
        while not stopping.is_set():
            coming, _ = await first_of(_next(source), stopping.wait())
            if coming is None:
                break
            chunk = coming.result()
            if chunk is None:
                return
            yield chunk
    raise StoppingError("the service stops")


async def _next(source: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(source, None)


# -- effects whose payload has a text, as a stream of lines --------------------------------------------------

#: Seconds between two lines of progress.
_PROGRESS_SECONDS: Final = 0.1


@router.get(
    "/v1/worlds/{world}/search",
    operation_id="search_effects",
    summary="Search the payloads of a world's effects",
    response_class=Response,
    responses={
        200: {
            "description": "Lines, each an object with one member: `hit`, `progress`, and at last `end`.",
            "content": {
                NDJSON: {
                    "schema": {"type": "string"},
                    "example": '{"hit":{"global_seq":812,"kind":"Speak","source_id":"alice","sim_time":12.5,'
                    '"excerpt":"{\\"text\\":\\"figs for two\\"}"}}\n'
                    '{"progress":{"through_seq":600,"scanned":256,"of":855}}\n'
                    '{"end":{"hits":1,"complete":true,"next":null}}\n',
                }
            },
        },
        **problems(404, 409, 422, 503),
    },
)
async def search_effects(
    request: Request,
    world: WorldName,
    q: Annotated[
        Text,
        Query(
            min_length=1,
            max_length=200,
            description="The text, which is looked for in the JSON of payloads as it is: A-Z without regard to case.",
            examples=["figs"],
        ),
    ],
    kind: Kind = None,
    source_id: SourceId = None,
    order: Annotated[Literal["newest", "oldest"], Query(description="Which effects come first.")] = "newest",
    limit: Limit = None,
    after_seq: AfterSeq = 0,
    until_seq: UntilSeq = None,
) -> Response:
    """Stream the effects whose payload has a text, newest or oldest first, while the log is read through.

    A `hit` has the effect's facts and what stands around the text. `progress` says how far the search has come:
    `scanned` of `of` effects, the last at `through_seq`. The last line is `end`: with `complete` the whole range was
    searched; else there are `limit` hits (100 if not given), and `next` has the parameter that goes on. A stream
    without `end` was cut off. A client that has enough closes the connection, which ends the search.
    """
    found = services(request)
    record = await found.store.world(world)
    check_reached("after_seq", after_seq, record)
    until = record.head_seq if until_seq is None else min(until_seq, record.head_seq)
    most = min(_DEFAULT if limit is None else limit, found.settings.page_limit)
    wanted = Wanted(q, after_seq, max(until, after_seq), most, order == "newest", kind, source_id)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(_found_lines(found, record.world_id, wanted), NDJSON, headers, stopping=found.stopping)


async def _found_lines(found: Services, world_id: str, wanted: Wanted) -> AsyncGenerator[bytes, None]:
    """Return chunks of whole lines."""
    told, hits = time.monotonic(), 0
    end: dict[str, Any] = {"complete": True, "next": None}
    async with aclosing(search(found.store.reader, world_id, wanted)) as slices:
        async for reached in slices:
            lines = [_line("hit", hit._asdict()) for hit in reached.hits]
            hits += len(lines)
            now = time.monotonic()
            if lines or now - told >= _PROGRESS_SECONDS:
                told = now
                progress = {
                    "through_seq": reached.seq,
                    "scanned": reached.scanned,
                    "of": wanted.until - wanted.after,
                }
                lines.append(_line("progress", progress))
            if lines:
                yield b"".join(lines)
            if reached.full:
                following = {"until_seq": reached.seq - 1} if wanted.newest_first else {"after_seq": reached.seq}
                end = {"complete": False, "next": following}
    yield _line("end", {"hits": hits, **end})


def _line(name: str, value: dict[str, Any]) -> bytes:
    return orjson.dumps({name: value}) + b"\n"
