"""The shapes of requests and answers as OpenAPI shows them.

They document; no effect passes through them. What is accepted is decided by `worldledger.drafts.check_draft` and
`NewWorld`, and answers about effects are made of the stored bytes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from service.api.schemas.agents import (
    AcceptedIntent,
    AgentView,
    Generation,
    Intent,
    IntentList,
    IntentResults,
    Intents,
    NewGeneration,
    ObservationDelta,
    Observations,
    ObservedEvent,
    ObservedEvents,
    ObservingAgent,
    PolicySpec,
    RegisteredAgent,
    Registration,
    Tick,
    TimeAuthority,
    TimeAuthoritySet,
    WorldAgent,
    WorldAgentPage,
)
from service.api.schemas.base import Health, Problem, SchemaList
from service.api.schemas.games import (
    Game,
    GameSession,
    MoveOutcome,
    MoveRequest,
    NewGame,
    Resignation,
    ResignOutcome,
    SessionList,
)
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
    GamePage,
    GameSummary,
    MovePage,
    Projection,
    ProjectionList,
    Readiness,
    Released,
)
from service.api.schemas.states import Snapshot, SnapshotPage, State, StateDiff, Turn
from service.store import WorldRecord
from worldledger.rulesets import known_rulesets

ALL: tuple[type[BaseModel], ...] = (
    AcceptedIntent,
    AgentPage,
    AgentStats,
    AgentView,
    Effect,
    EffectDraft,
    EffectDrafts,
    EffectPage,
    Game,
    GamePage,
    GameSession,
    GameSummary,
    Generation,
    Health,
    Intent,
    IntentList,
    IntentResults,
    Intents,
    MoveOutcome,
    MovePage,
    MoveRequest,
    NewGame,
    NewGeneration,
    NewWorld,
    ObservationDelta,
    Observations,
    ObservingAgent,
    ObservedEvent,
    ObservedEvents,
    PolicySpec,
    Problem,
    Projection,
    ProjectionList,
    Readiness,
    Receipt,
    Receipts,
    RegisteredAgent,
    Registration,
    Released,
    ResignOutcome,
    Resignation,
    SchemaList,
    SessionList,
    Snapshot,
    SnapshotPage,
    State,
    StateDiff,
    Tick,
    TimeAuthority,
    TimeAuthoritySet,
    Turn,
    Verification,
    WorldAgent,
    WorldAgentPage,
    WorldPage,
    WorldRecord,
)

__all__ = [
    "ALL",
    "AcceptedIntent",
    "AgentPage",
    "AgentStats",
    "AgentView",
    "Effect",
    "EffectDraft",
    "EffectDrafts",
    "EffectPage",
    "Game",
    "GamePage",
    "GameSession",
    "GameSummary",
    "Generation",
    "Health",
    "Intent",
    "IntentList",
    "IntentResults",
    "Intents",
    "MoveOutcome",
    "MovePage",
    "MoveRequest",
    "NewGame",
    "NewGeneration",
    "NewWorld",
    "ObservationDelta",
    "Observations",
    "ObservedEvent",
    "ObservedEvents",
    "ObservingAgent",
    "PolicySpec",
    "Problem",
    "Projection",
    "ProjectionList",
    "Readiness",
    "Receipt",
    "Receipts",
    "RegisteredAgent",
    "Registration",
    "Released",
    "ResignOutcome",
    "Resignation",
    "SchemaList",
    "SessionList",
    "Snapshot",
    "SnapshotPage",
    "State",
    "StateDiff",
    "Tick",
    "TimeAuthority",
    "TimeAuthoritySet",
    "Turn",
    "Verification",
    "WorldAgent",
    "WorldAgentPage",
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
