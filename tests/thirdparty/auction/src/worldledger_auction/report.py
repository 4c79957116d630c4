"""What a report says of auctions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from worldledger_service.report.blocks import Block, Column, KindSection, Note, Section, Table

if TYPE_CHECKING:
    from worldledger_service.report.snapshot import Snapshot

_MOST: Final = 50
_LOTS: Final = """
select world_id, lot, title, status, bids, price, bidder, count(*) over () as lots
from analytics.auction_lots
where experiment = $1
order by price desc nulls last, world_id, lot
limit $2
"""
_COLUMNS: Final = (
    Column("world_id", "Auction", "code"),
    Column("lot", "Lot", "whole"),
    Column("title", "Title"),
    Column("status", "Status"),
    Column("bids", "Bids", "whole"),
    Column("price", "Highest bid", "whole"),
    Column("bidder", "By", "code"),
)


async def _section(snapshot: Snapshot, experiment: str) -> Section:
    rows = await snapshot.rows(_LOTS, experiment, _MOST)
    blocks: list[Block] = [Note("No lot has been opened yet.")]
    if rows:
        sql = "select * from analytics.auction_lots where experiment = $1"
        blocks = [Table.of("auction_lots", "Lots, the dearest first", _COLUMNS, rows, rows[0]["lots"], sql)]
    return Section("auction", "Auctions", blocks)


SECTION: Final = KindSection(_section, ("auction_lots",))
