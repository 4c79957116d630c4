"""Chess: one world is one game, recorded or live."""

from worldledger.kinds import Kind

KIND = Kind(
    name="chess",
    ruleset="worldledger_chess.rules:RULESET",
    units=("ply", "move"),
    projections="worldledger_chess.projections:PROJECTIONS",
    queries="worldledger_chess.queries:FOLDER",
    analytics="worldledger_chess.analytics:FOLDER",
    commands="worldledger_chess.cli:add",
    routes="worldledger_chess.api:ROUTES",
    tags="worldledger_chess.api:TAGS",
    pictured="worldledger_chess.cli.games:pictured",
    serves="worldledger_chess.api.serving:open_arena",
    problems="worldledger_chess.api.problems:PROBLEMS",
    report="worldledger_chess.report:SECTION",
    measures="worldledger_chess.rules.measures:MEASURES",
    outcomes="worldledger_chess.store.outcomes:OUTCOMES",
    panel="worldledger_chess.console:PANEL",
)
