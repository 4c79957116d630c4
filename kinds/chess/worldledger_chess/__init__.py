"""Chess: one world is one game, recorded or live."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="chess",
    ruleset="worldledger_chess.rules:RULESET",
    units=("ply", "move"),
    projections="worldledger_chess.projections:PROJECTIONS",
    queries=_HERE / "queries",
    analytics=_HERE / "analytics",
    commands="worldledger_chess.cli:add",
    routes="worldledger_chess.api:ROUTES",
    tags="worldledger_chess.api:TAGS",
    pictured="worldledger_chess.cli.games:pictured",
    serves="worldledger_chess.api.serving:open_arena",
    problems="worldledger_chess.api.problems:PROBLEMS",
    report="worldledger_chess.report:SECTION",
    measures="worldledger_chess.rules.measures:MEASURES",
    outcomes="worldledger_chess.store.read_models:OUTCOMES",
    panel=_HERE / "console" / "panel.js",
)
