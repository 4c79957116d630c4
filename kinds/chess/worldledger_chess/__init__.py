"""Chess: one world is one game, recorded or live."""

from worldledger.kinds import Kind

KIND = Kind(
    name="chess",
    ruleset="worldledger.rulesets.chess:RULESET",
    projections="worldledger_chess.projections:PROJECTIONS",
    commands="worldledger_chess.commands:add",
    routes="worldledger_chess.routes:ROUTES",
    pictured="service.cli.boards:pictured",
    serves="service.api.game_serving:open_arena",
    problems="service.api.game_problems:PROBLEMS",
    shapes="worldledger_chess.shapes:SHAPES",
    report="service.report.chess:SECTION",
)
