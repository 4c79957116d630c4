"""``worldledger auction show``: an auction and its lots."""

from __future__ import annotations

from typing import Any

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.options import DatabaseUrl, Home, World, examples
from worldledger_service.cli.output import put

from worldledger_auction.reading import read_auction

EXAMPLES = examples("worldledger auction show spring")


def command(ctx: typer.Context, world: World, database_url: DatabaseUrl = None, home: Home = None) -> None:
    """Show the lots of an auction, one a line."""
    auction = with_store(target(ctx, database_url, home), lambda store: read_auction(store, world))
    for lot in auction["lots"]:
        put(f"{lot['lot']}. {lot['title'] or 'untitled'}: {_standing(lot)}")


def _standing(lot: dict[str, Any]) -> str:
    bids = f"{lot['bids']} bid{'' if lot['bids'] == 1 else 's'}"
    if lot["bidder"] is None:
        return f"{lot['status']}, {bids}"
    return f"{lot['status']}, {bids}, {lot['price']} by {lot['bidder']}"
