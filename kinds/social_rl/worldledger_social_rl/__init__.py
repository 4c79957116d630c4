"""Social-RL experiments: one world is one run of rounds."""

from worldledger.kinds import Kind

KIND = Kind(
    name="social_rl",
    ruleset="worldledger.rulesets.social_rl:RULESET",
    policies={"social_rl": "worldledger.rulesets.social_rl.policy"},
    projections="worldledger_social_rl.projections:PROJECTIONS",
    commands="worldledger_social_rl.commands:add",
    routes="worldledger_social_rl.routes:ROUTES",
    shapes="worldledger_social_rl.shapes:SHAPES",
    schemas="service.api.schemas.runs:SCHEMAS",
    report="service.report.social:SECTION",
)
