"""Auctions over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from worldledger_service.api.answers import to_json, viewed
from worldledger_service.api.context import services
from worldledger_service.api.openapi import json_of, problems
from worldledger_service.api.parameters import Limit, WorldName
from worldledger_service.api.problems import Answer
from worldledger_service.api.routing import ReadingRoute

from worldledger.errors import SimulationError
from worldledger_auction.errors import NoAuctionError
from worldledger_auction.reading import read_auction, read_buyers

_MOST: Final = 100

router = APIRouter(route_class=ReadingRoute, tags=["auctions"])


class Lot(BaseModel):
    """A lot of an auction."""

    lot: int = Field(ge=1)
    title: str | None
    seller: str
    reserve: int = Field(ge=0)
    status: Literal["open", "sold", "passed"]
    bids: int = Field(ge=0)
    price: int | None = Field(description="The highest bid.")
    bidder: str | None = Field(description="Who made it.")


class Buyer(BaseModel):
    """What a buyer bought, in all auctions."""

    bidder: str
    lots: int = Field(ge=1)
    worlds: int = Field(ge=1, description="In how many auctions.")
    spent: int = Field(ge=1)


class Buyers(BaseModel):
    """Buyers, who spent most first."""

    buyers: list[Buyer]


class Auction(BaseModel):
    """An auction as it stands."""

    world_id: str
    global_seq: int = Field(ge=1, description="The last effect of its log.")
    lots: list[Lot]


@router.get(
    "/v1/auctions/{world}",
    operation_id="get_auction",
    summary="An auction and its lots",
    response_class=Response,
    responses={200: {**json_of(Auction), "description": "The auction."}, **problems(404, 422, 503)},
)
async def get_auction(request: Request, world: WorldName) -> Response:
    """Give the lots of an auction, as they stand at the head of its log."""
    found: dict[str, Any] = await read_auction(services(request).store, world)
    return Response(to_json(found), media_type="application/json")


@router.get(
    "/v1/auction-buyers",
    operation_id="list_auction_buyers",
    summary="Who bought most",
    response_class=Response,
    responses={200: {**json_of(Buyers), "description": "The buyers."}, **problems(422, 503)},
)
async def list_auction_buyers(request: Request, limit: Limit = None) -> Response:
    """Give the buyers of all auctions, as the projection `auction_lots` has them; at most 100."""
    found = services(request)
    wanted = min(limit or _MOST, _MOST)
    rows = await viewed(found, lambda: read_buyers(found.store, wanted))
    return Response(to_json({"buyers": rows}), media_type="application/json")


ROUTES: Final[tuple[BaseRoute, ...]] = (*router.routes,)
PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {NoAuctionError: Answer(404, "The world is no auction")}
TAGS: Final = ({"name": "auctions", "description": "Auctions, their lots and their buyers."},)
