"""Auctions, read from their logs, and what the projections have of them: for the command and for the routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from worldledger_service.store.outcomes import Outcomes
from worldledger_service.store.reader import Row, fetch_views

from worldledger_auction.errors import NoAuctionError
from worldledger_auction.rules import RULESET

if TYPE_CHECKING:
    from worldledger_service.store import Store

#: What each buyer bought in all auctions, who spent most first: $1 limit.
BUYERS: Final = """
select bidder, lots, worlds, spent from analytics.auction_buyers order by spent desc, bidder limit $1
"""
SOLD: Final = """
select world_id, count(*) as lots, count(*) filter (where status = 'sold') as sold
from projections.auction_lots where world_id = any($1::text[]) group by world_id
"""
#: How auctions stand, in a line each.
OUTCOMES: Final = Outcomes(SOLD, lambda row: f"{row['sold']} of {row['lots']} lots sold")


async def read_buyers(store: Store, limit: int) -> list[Row]:
    """Return who bought most. Raises ViewMissingError."""
    return await fetch_views(store.reader, BUYERS, limit)


async def read_auction(store: Store, world: str) -> dict[str, Any]:
    """Return an auction as it stands. Raises NoAuctionError, and WorldNotFoundError."""
    record = await store.world(world)
    if record.ruleset != RULESET.name:
        what = f"world {world!r} is no auction; its ruleset is {record.ruleset}"
        raise NoAuctionError(what, world_id=world, ruleset=record.ruleset)
    found = await store.states.state_at(world, record.head_seq)
    lots = sorted(found.state.entities.values(), key=lambda lot: lot["lot"])
    return {"world_id": world, "global_seq": found.global_seq, "lots": lots}
