"""Social-RL experiments: one world is one run of rounds."""

from worldledger.kinds import Kind

KIND = Kind(
    name="social_rl",
    ruleset="worldledger_social_rl.rules:RULESET",
    units=("round",),
    policies={"social_rl": "worldledger_social_rl.rules.config"},
    projections="worldledger_social_rl.projections:PROJECTIONS",
    queries="worldledger_social_rl.queries:FOLDER",
    analytics="worldledger_social_rl.analytics:FOLDER",
    commands="worldledger_social_rl.cli:add",
    routes="worldledger_social_rl.api:ROUTES",
    tags="worldledger_social_rl.api:TAGS",
    problems="worldledger_social_rl.api.rounds:PROBLEMS",
    errors="worldledger_social_rl.rules.errors:ERRORS",
    schemas="worldledger_social_rl.api.schemas:SCHEMAS",
    report="worldledger_social_rl.report:SECTION",
    measures="worldledger_social_rl.rules.measures:MEASURES",
    outcomes="worldledger_social_rl.outcomes:OUTCOMES",
    panel="worldledger_social_rl.console:PANEL",
)
