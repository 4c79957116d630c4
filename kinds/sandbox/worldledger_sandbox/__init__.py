"""The free sandbox: entities, positions, messages and relationships, without rules beyond its vocabulary."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="sandbox",
    ruleset="worldledger_sandbox.rules:RULESET",
    analytics=_HERE / "analytics",
    panel=_HERE / "console" / "panel.js",
)
