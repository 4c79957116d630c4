"""Worlds that programs record: effects of any kind, entities that are set, and steps."""

from pathlib import Path

from worldledger.kinds import Kind

_HERE = Path(__file__).parent

KIND = Kind(
    name="recorder",
    ruleset="worldledger_recorder.rules:RULESET",
    analytics=_HERE / "analytics",
    commands="worldledger_recorder.cli:add",
    routes="worldledger_recorder.api:ROUTES",
    tags="worldledger_recorder.api:TAGS",
    problems="worldledger_recorder.api:PROBLEMS",
    errors="worldledger_recorder.rules:ERRORS",
)
