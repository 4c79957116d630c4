"""Auctions: one world is one auction, whose lots are sold one after the other."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="auction",
    ruleset="worldledger_auction.rules:RULESET",
    units=("lot",),
    projections="worldledger_auction.projections:PROJECTIONS",
    queries=_HERE / "queries",
    analytics=_HERE / "analytics",
    commands="worldledger_auction.cli:add",
    routes="worldledger_auction.api:ROUTES",
    tags="worldledger_auction.api:TAGS",
    problems="worldledger_auction.api:PROBLEMS",
    report="worldledger_auction.report:SECTION",
    outcomes="worldledger_auction.reading:OUTCOMES",
    panel=_HERE / "panel.js",
)
