"""The report of one world over HTTP: the page that ``worldledger report WORLD --at MOMENT`` writes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from fastapi import APIRouter, Depends
from starlette.requests import Request
from starlette.responses import Response

from worldledger_service.api.answers import checksum_at, not_modified, validators
from worldledger_service.api.context import services
from worldledger_service.api.openapi import header, problems
from worldledger_service.api.parameters import At, WorldName, once, one_moment
from worldledger_service.api.routing import ReadingRoute
from worldledger_service.report.drawing import require_drawing
from worldledger_service.runtime.reporting import report_of

#: As the page itself has it, and no page of others around it: it is served from where the console is.
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
}

router = APIRouter(route_class=ReadingRoute, tags=["states"], dependencies=[Depends(once)])


@router.get(
    "/v1/worlds/{world}/report",
    operation_id="get_report",
    summary="The report of a world up to any moment, as a page",
    response_class=Response,
    responses={
        200: {
            "content": {"text/html": {"schema": {"type": "string"}}},
            "description": "One HTML file with tables and plots, which needs nothing else.",
            "headers": {"ETag": header("Stands for the place in the chain, and the versions of ruleset and program.")},
        },
        304: {"description": "The report is the one that If-None-Match names; nothing was read."},
        **problems(404, 422, 501, 503),
    },
)
async def get_report(request: Request, world: WorldName, at: At = None) -> Response:
    """Return what `worldledger report WORLD --at MOMENT` writes: how the world stood, measures, effects, refusals.

    The log up to the moment is read, that of a fork through its ancestors; so large worlds take as long as it takes to
    read them. A service that is installed without the extra `analytics` cannot draw, and answers 501.
    """
    found = services(request)
    record = await found.store.world(world)
    place = await found.store.states.place_at(record, one_moment(at))
    named = validators([(*place, await checksum_at(found.store, *place)), (record, 0, "")])
    unchanged = not_modified(request, named)
    if unchanged is not None:
        return unchanged
    await asyncio.to_thread(require_drawing)  # loads much the first time

    async def make() -> bytes:
        report = await report_of(found.store, record, place, lambda done, total: None)
        async with found.drawing:
            return await asyncio.to_thread(_drawn, report)

    body = await found.reports.get(named["ETag"], make)
    return Response(body, 200, {**named, **_HEADERS}, "text/html")


def _drawn(report: Mapping[str, Any]) -> bytes:
    from worldledger_service.report.page import write_page  # noqa: PLC0415 - what it needs is not always installed
    from worldledger_service.report.world import page_of  # noqa: PLC0415

    return "".join(write_page(page_of(report), template="runs.html")).encode()
