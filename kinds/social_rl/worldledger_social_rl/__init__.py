"""Social-RL experiments: one world is one run of rounds."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="social_rl",
    ruleset="worldledger_social_rl.rules:RULESET",
    units=("round",),
    policies={"social_rl": "worldledger_social_rl.rules.config"},
    projections="worldledger_social_rl.projections:PROJECTIONS",
    queries=_HERE / "queries",
    analytics=_HERE / "analytics",
    commands="worldledger_social_rl.cli:add",
    routes="worldledger_social_rl.api:ROUTES",
    tags="worldledger_social_rl.api:TAGS",
    problems="worldledger_social_rl.api.rounds:PROBLEMS",
    errors="worldledger_social_rl.rules.errors:ERRORS",
    schemas="worldledger_social_rl.api.shapes:SCHEMAS",
    report="worldledger_social_rl.report:SECTION",
    measures="worldledger_social_rl.rules.measures:MEASURES",
    outcomes="worldledger_social_rl.outcomes:OUTCOMES",
    panel=_HERE / "console" / "panel.js",
)
