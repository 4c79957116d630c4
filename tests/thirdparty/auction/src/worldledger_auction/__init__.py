"""Auctions: one world is one auction, whose lots are sold one after the other."""

from worldledger.kinds import Kind

KIND = Kind(
    name="auction",
    ruleset="worldledger_auction.rules:RULESET",
    units=("lot",),
    projections="worldledger_auction.projections:PROJECTIONS",
    queries="worldledger_auction.queries:FOLDER",
    analytics="worldledger_auction.analytics:FOLDER",
    commands="worldledger_auction.cli:add",
    routes="worldledger_auction.api:ROUTES",
    tags="worldledger_auction.api:TAGS",
    problems="worldledger_auction.api:PROBLEMS",
    report="worldledger_auction.report:SECTION",
    outcomes="worldledger_auction.reading:OUTCOMES",
    panel="worldledger_auction.console:PANEL",
)
