"""The shapes of requests and answers as OpenAPI shows them.

They document; no effect passes through them. What is accepted is decided by `worldledger.drafts.check_draft` and
`NewWorld`, and answers about effects are made of the stored bytes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.api.schemas.base import Health, Problem
from service.api.schemas.log import (
    Effect,
    EffectDraft,
    EffectDrafts,
    EffectPage,
    NewWorld,
    Receipt,
    Receipts,
    Verification,
    WorldPage,
)
from service.api.schemas.projections import (
    AgentPage,
    AgentStats,
    Game,
    GamePage,
    MovePage,
    Projection,
    ProjectionList,
    Readiness,
    Released,
)
from service.api.schemas.states import Snapshot, SnapshotPage, State, StateDiff
from service.store import WorldRecord
from worldledger.rulesets import known_rulesets

ALL: tuple[type[BaseModel], ...] = (
    AgentPage,
    AgentStats,
    Effect,
    EffectDraft,
    EffectDrafts,
    EffectPage,
    Game,
    GamePage,
    Health,
    MovePage,
    NewWorld,
    Problem,
    Projection,
    ProjectionList,
    Readiness,
    Receipt,
    Receipts,
    Released,
    Snapshot,
    SnapshotPage,
    State,
    StateDiff,
    Verification,
    WorldPage,
    WorldRecord,
)

__all__ = [
    "ALL",
    "AgentPage",
    "AgentStats",
    "Effect",
    "EffectDraft",
    "EffectDrafts",
    "EffectPage",
    "Game",
    "GamePage",
    "Health",
    "MovePage",
    "NewWorld",
    "Problem",
    "Projection",
    "ProjectionList",
    "Readiness",
    "Receipt",
    "Receipts",
    "Released",
    "Snapshot",
    "SnapshotPage",
    "State",
    "StateDiff",
    "Verification",
    "WorldPage",
    "WorldRecord",
    "components",
]


def components() -> dict[str, Any]:
    """Give every shape's JSON schema by name, as they stand under ``#/components/schemas``."""
    _, document = models_json_schema(
        [(shape, "validation") for shape in ALL], ref_template="#/components/schemas/{model}"
    )
    found: dict[str, Any] = document["$defs"]
    found["NewWorld"]["properties"]["ruleset"]["enum"] = known_rulesets()
    return found
