"""The free sandbox: entities, positions, messages and relationships, without rules beyond its vocabulary."""

from worldledger.kinds import Kind

KIND = Kind(
    name="sandbox",
    ruleset="worldledger_sandbox.rules:RULESET",
    analytics="worldledger_sandbox.analytics:FOLDER",
    panel="worldledger_sandbox.console:PANEL",
)
