"""Whether the process is alive, and whether it can work."""

from __future__ import annotations

import asyncio
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from service.api.context import services
from service.api.openapi import json_of, problems
from worldledger.errors import StoreUnavailableError

#: Seconds after which a database that does not answer counts as away.
_PATIENCE: Final = 5.0

router = APIRouter(tags=["health"])


@router.get(
    "/livez",
    operation_id="livez",
    summary="Whether the process is alive",
    response_class=Response,
    responses={200: {**json_of("Health"), "description": "It is."}, **problems()},
)
async def livez() -> Response:
    """Answer without looking at the database."""
    return _status("alive")


@router.get(
    "/readyz",
    operation_id="readyz",
    summary="Whether the service can work",
    response_class=Response,
    responses={200: {**json_of("Health"), "description": "It can."}, **problems(503)},
)
async def readyz(request: Request) -> Response:
    """Ask the database, and compare its schema with the one that this program needs."""
    try:
        async with asyncio.timeout(_PATIENCE):
            await services(request).store.ping()
    except TimeoutError:
        raise StoreUnavailableError(f"the database did not answer within {_PATIENCE:g} s") from None
    return _status("ready")


def _status(status: str) -> Response:
    return Response(f'{{"status":"{status}"}}', 200, {"Cache-Control": "no-store"}, "application/json")
