"""Tables over auctions: the lots as they stand, and the bids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from worldledger_projections.base import (
    ANALYTICS,
    AppendingWorld,
    Changes,
    Column,
    Projection,
    Row,
    View,
    WorldProjection,
    needed,
)

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.rulesets.reading import UnreadableError
from worldledger_auction.rules import BID_PLACED, RULESET, read_whole


class _Lots(WorldProjection):
    """Follows the world's state; ``_changed`` has the lots that are new or other than before, by their ids."""

    def __init__(self, world_id: str, fold: Fold) -> None:
        self._world_id = world_id
        self._fold = fold
        self._changed: dict[str, dict[str, Any]] = {}

    def apply(self, effect: Effect) -> None:
        touched = self._fold.apply(effect)
        if isinstance(touched, str):
            self._changed[touched] = self._fold.state.entities[touched]

    def take_changes(self) -> Changes:
        rows = [self._row(lot) for lot in self._changed.values()]
        self._changed = {}
        return Changes(upserts=rows)

    def _row(self, lot: dict[str, Any]) -> Row:
        title = lot["title"] or "untitled"
        return self._world_id, lot["lot"], title, *(lot[name] for name in _AS_THEY_ARE)


#: Members of a lot that are columns of the same name.
_AS_THEY_ARE: Final = ("seller", "reserve", "status", "bids", "price", "bidder")


class Lots(Projection):
    """One row for each lot, as it stands."""

    name = "auction_lots"
    version = 1
    comment = "The lots of auctions."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("lot", "bigint", "The number of the lot in its auction, from 1."),
        Column("title", "text", "What is sold."),
        Column("seller", "text", "Who sells it."),
        Column("reserve", "bigint", "The least that it is sold for."),
        Column("status", "text", "open, sold, or passed: closed without a bid."),
        Column("bids", "bigint", "How many bids there were."),
        Column("price", "bigint", "The highest bid; null without one.", True),
        Column("bidder", "text", "Who made the highest bid; null without one.", True),
    )
    key = ("world_id", "lot")
    rulesets = frozenset({RULESET.name})
    needs_state = True
    views = (
        View(
            "auction_buyers",
            "select bidder, count(*)::bigint as lots, count(distinct world_id)::bigint as worlds, "
            "sum(price)::bigint as spent from auction_lots where status = 'sold' group by bidder",
            "What each buyer bought, in all auctions.",
            schema=ANALYTICS,
            columns={"lots": "How many lots.", "worlds": "In how many auctions.", "spent": "For how much altogether."},
        ),
    )

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Go on from the world's state."""
        return _Lots(world_id, needed(fold))


class _Bids(AppendingWorld):
    def apply(self, effect: Effect) -> None:
        payload = effect["payload"]
        try:
            lot, amount = read_whole(payload, "lot", 1), read_whole(payload, "amount", 1)
        except UnreadableError:  # only an import brings such a bid
            return
        self._rows.append((self._world_id, effect["global_seq"], lot, effect["source_id"], amount))


class Bids(Projection):
    """One row for each bid in a log."""

    name = "auction_bids"
    version = 1
    comment = "The bids of auctions."
    columns = (
        Column("world_id", "text", "The name of the world."),
        Column("global_seq", "bigint", "The effect that is the bid."),
        Column("lot", "bigint", "The number of the lot."),
        Column("bidder", "text", "Who made the bid."),
        Column("amount", "bigint", "How much was bid."),
    )
    key = ("world_id", "global_seq")
    rulesets = frozenset({RULESET.name})
    kinds = frozenset({BID_PLACED})
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Go on, knowing nothing of what was before."""
        return _Bids(world_id)


PROJECTIONS: Final[tuple[Projection, ...]] = (Lots(), Bids())
