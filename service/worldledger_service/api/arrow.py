"""Effects of many worlds over HTTP in one stream: as Arrow, or as the stored bytes, one effect a line."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger_service.api.caching import REVALIDATE
from worldledger_service.api.context import Services, services
from worldledger_service.api.errors import InvalidParameterError
from worldledger_service.api.moments import once
from worldledger_service.api.openapi import header, problems
from worldledger_service.api.parameters import (
    NAMED,
    NO_NUL,
    AfterSeq,
    Kind,
    SourceId,
    UntilSeq,
    check_reached,
    check_text,
)
from worldledger_service.api.reading import NDJSON, position
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import Stream
from worldledger_service.arrow.choosing import WorldSpan, choose
from worldledger_service.arrow.extras import needed

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])

ARROW: Final = "application/vnd.apache.arrow.stream"


class StoppingError(Exception):
    """The service stops before a stream is at its end."""


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
        str | None,
        Query(
            min_length=1, description="Give effects of the worlds of this experiment only.", json_schema_extra=NO_NUL
        ),
    ] = None,
    kind: Kind = None,
    source_id: SourceId = None,
    after_seq: AfterSeq = 0,
    until_seq: UntilSeq = None,
    format: Annotated[  # noqa: A002 - the parameter's name
        Literal["arrow", "ndjson"] | None, Query(description="The same choice as with the Accept header.")
    ] = None,
) -> Response:
    """Return all effects of the worlds that are asked for, ascending, none left out: all of one moment.

    That moment is the one of the request: each world's part ends where its head stood. With
    `Accept: application/vnd.apache.arrow.stream` the answer is an Arrow IPC stream of record batches, and else one
    effect a line. `after_seq` and `until_seq` go with `world`. If something goes wrong on the way, or the service
    stops, the connection is cut and the response has no proper end; whoever leaves ends the query.
    """
    for name, value in (("experiment", experiment), ("kind", kind), ("source_id", source_id)):
        check_text(name, value)
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
    source = await begun(_lines(found, spans, kind, source_id), 1)
    return Stream(until_stopped(source, found.stopping), NDJSON, headers)


def accepts_arrow(request: Request) -> bool:
    """Tell whether the Accept header names Arrow."""
    asked = request.headers.get("accept", "").split(",")
    return any(media_type.partition(";")[0].strip().lower() == ARROW for media_type in asked)


def _arrow(
    found: Services, spans: list[WorldSpan], kind: str | None, source_id: str | None
) -> AsyncGenerator[bytes, None]:
    effects = found.arrow.effects()
    with needed():
        from worldledger_service.arrow.cutting import SCHEMA  # noqa: PLC0415 - large, and not always installed
        from worldledger_service.arrow.ipc import encoded  # noqa: PLC0415

    return encoded(SCHEMA, effects.batches(spans, kind=kind, source_id=source_id))


async def _lines(
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
    stopped = asyncio.get_running_loop().create_task(stopping.wait())
    coming: asyncio.Task[bytes | None] | None = None
    try:
        while True:
            coming = asyncio.get_running_loop().create_task(_next(source))
            await asyncio.wait({coming, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not coming.done():
                raise StoppingError("the service stops")
            chunk = coming.result()
            if chunk is None:
                return
            yield chunk
    finally:
        tasks = {stopped} if coming is None else {stopped, coming}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await source.aclose()


async def _next(source: AsyncGenerator[bytes, None]) -> bytes | None:
    return await anext(source, None)
