"""Following a world over HTTP: its effects as server-sent events, as they become durable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Final

import structlog
from fastapi import APIRouter, Depends, Header, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger.canonical import MAX_INT
from worldledger.chain import StoredEffect
from worldledger.errors import SimulationError
from worldledger_service.api.context import Services, services
from worldledger_service.api.errors import InvalidParameterError
from worldledger_service.api.moments import once
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import WorldName, check_reached, whole
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import Stream

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])

EVENT_STREAM: Final = "text/event-stream"
KEEPALIVE: Final = b": still here\n\n"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_SEQ: Final = re.compile(r"[0-9]{1,16}\Z")
#: Most seconds between two tries while the database is away.
_LONGEST_PAUSE: Final = 5.0

log = structlog.get_logger("worldledger.api")


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
    last_event_id: Annotated[
        str | None,
        Header(
            alias="Last-Event-ID",
            description="The last global_seq that the client has; goes before after_seq. Browsers send it.",
            json_schema_extra={"pattern": "^[0-9]{1,16}$"},
        ),
    ] = None,
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
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Stream(_events(found, world, position), EVENT_STREAM, headers, stopping=found.stopping)


def event_id(text: str) -> int:
    """Read the header Last-Event-ID. Raises InvalidParameterError."""
    if not _SEQ.match(text) or int(text) > MAX_INT:
        what = f"must be the global_seq of an effect, a whole number from 0 to {MAX_INT}"
        raise InvalidParameterError("Last-Event-ID", what, "header")
    return int(text)


async def _events(found: Services, world_id: str, position: int) -> AsyncGenerator[bytes, None]:
    """Return chunks of whole events, and a comment where there is nothing to tell for long."""
    yield b": after %d\n\n" % position
    pause = 0.0
    woken = False
    while True:
        before = position
        try:
            async with aclosing(found.store.reader.batches(world_id, after_seq=position)) as batches:
                async for batch in batches:
                    yield b"".join([_event(row) for row in batch])
                    position = batch[-1].global_seq
            pause = 0.0
        except SimulationError as error:
            # What was sent stays sent; the next try goes on after it.
            if not pause:
                log.warning("a tail waits for the database", world_id=world_id, after=position, error=error.message)
            pause = min(max(2 * pause, found.settings.poll_interval), _LONGEST_PAUSE)
        if pause or (woken and position == before):
            # The database is away, or the head names effects that are not there.
            await asyncio.sleep(pause or found.settings.poll_interval)
        woken = await found.watcher.wait_beyond(world_id, position, found.keepalive) > position
        if not woken:
            yield KEEPALIVE


def _event(row: StoredEffect) -> bytes:
    text = row.text
    if b"\n" in text or b"\r" in text:  # not canonical: somebody's hand was in the table, yet framing must hold
        text = b"\ndata: ".join(_LINE_END.split(text))
    return b"event: effect\nid: %d\ndata: %b\n\n" % (row.global_seq, text)
