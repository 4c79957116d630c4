"""Chess: one world is one game, recorded or live."""

from worldledger.kinds import Kind

KIND = Kind(
    name="chess",
    ruleset="worldledger.rulesets.chess:RULESET",
    projections="worldledger_chess.projections:PROJECTIONS",
    commands="worldledger_chess.commands:add",
    routes="worldledger_chess.routes:ROUTES",
    report="service.report.chess:SECTION",
)
