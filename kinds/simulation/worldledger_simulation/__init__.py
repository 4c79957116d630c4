"""Turn-based simulations with typed variables, in which each agent sees its own part."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="simulation",
    ruleset="worldledger_simulation.rules:RULESET",
    units=("turn",),
    policies={"matrix": "worldledger.observability.policy"},
    projections="worldledger_simulation.projections:PROJECTIONS",
    queries=_HERE / "queries",
    analytics=_HERE / "analytics",
    commands="worldledger_simulation.cli:add",
    problems="worldledger_simulation.api:PROBLEMS",
    errors="worldledger_simulation.rules.sections:ERRORS",
    routes="worldledger_simulation.api:ROUTES",
    read_config="worldledger_simulation.rules.config:read_config",
    schemas="worldledger_simulation.api.schemas:SCHEMAS",
    report="worldledger_simulation.report:SECTION",
    measures="worldledger_simulation.rules.measures:MEASURES",
    outcomes="worldledger_simulation.outcomes:OUTCOMES",
    panel=_HERE / "console" / "panel.js",
)
