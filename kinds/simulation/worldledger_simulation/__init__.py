"""Turn-based simulations whose variables are typed and whose agents each see their own part of it."""

from worldledger.kinds import Kind

KIND = Kind(
    name="simulation",
    ruleset="worldledger.rulesets.simulation:RULESET",
    policies={"matrix": "worldledger.observability.policy"},
    projections="worldledger_simulation.projections:PROJECTIONS",
    commands="worldledger_simulation.commands:add",
    routes="worldledger_simulation.routes:ROUTES",
    report="service.report.simulation:SECTION",
)
