"""Worlds that programs record: effects of any kind, entities that are set, and steps."""

from worldledger.kinds import Kind

KIND = Kind(
    name="recorder",
    ruleset="worldledger_recorder.rules:RULESET",
    analytics="worldledger_recorder.analytics:FOLDER",
    commands="worldledger_recorder.cli:add",
    routes="worldledger_recorder.api:ROUTES",
    tags="worldledger_recorder.api:TAGS",
    problems="worldledger_recorder.api:PROBLEMS",
    errors="worldledger_recorder.rules:ERRORS",
)
