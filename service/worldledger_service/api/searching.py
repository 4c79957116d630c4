"""Searching over HTTP: effects of a world whose payload has a text, as a stream of lines."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated, Any, Final, Literal

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.requests import Request
from starlette.responses import Response

from worldledger_service.api.context import Services, services
from worldledger_service.api.openapi import problems
from worldledger_service.api.parameters import (
    AfterSeq,
    Kind,
    Limit,
    SourceId,
    Text,
    UntilSeq,
    WorldName,
    check_reached,
    once,
)
from worldledger_service.api.reading import NDJSON
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.api.streaming import Stream
from worldledger_service.store.searching import Wanted, search

_DEFAULT: Final = 100
#: Seconds between two lines of progress.
_PROGRESS_SECONDS: Final = 0.1

router = APIRouter(route_class=ReadingRoute, tags=["effects"], dependencies=[Depends(once)])


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
    return Stream(_lines(found, record.world_id, wanted), NDJSON, headers, stopping=found.stopping)


async def _lines(found: Services, world_id: str, wanted: Wanted) -> AsyncGenerator[bytes, None]:
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
