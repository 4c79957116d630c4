"""The shapes of requests and answers as OpenAPI shows them.

They document; no effect passes through them. What is accepted is decided by `worldledger.drafts.check_draft` and
`NewWorld`, and answers about effects are made of the stored bytes.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from worldledger.kinds import parts
from worldledger.rulesets import known_rulesets
from worldledger_service.api.schemas.agents import (
    AcceptedIntent,
    AgentView,
    ClosedTick,
    Generation,
    HeldIntent,
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
    Staleness,
    Tick,
    TickClosing,
    TimeAuthority,
    TimeAuthorityNow,
    TimeAuthoritySet,
    WorldAgent,
    WorldAgentPage,
    WorldStaleness,
)
from worldledger_service.api.schemas.base import Health, Problem, SchemaList
from worldledger_service.api.schemas.log import (
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
from worldledger_service.api.schemas.projections import (
    Projection,
    ProjectionList,
    Readiness,
    Released,
)
from worldledger_service.api.schemas.sql import (
    NamedQuery,
    QueryList,
    QueryParameter,
    SqlAnswer,
    SqlColumn,
    SqlQuestion,
)
from worldledger_service.api.schemas.states import Snapshot, SnapshotPage, State, StateDiff
from worldledger_service.store import WorldRecord

ALL: tuple[type[BaseModel], ...] = (
    AcceptedIntent,
    AgentView,
    ClosedTick,
    Effect,
    EffectDraft,
    EffectDrafts,
    EffectPage,
    Generation,
    Health,
    HeldIntent,
    Intent,
    IntentList,
    IntentResults,
    Intents,
    NamedQuery,
    NewGeneration,
    NewWorld,
    ObservationDelta,
    Observations,
    ObservedEvent,
    ObservedEvents,
    ObservingAgent,
    PolicySpec,
    Problem,
    Projection,
    ProjectionList,
    QueryList,
    QueryParameter,
    Readiness,
    Receipt,
    Receipts,
    RegisteredAgent,
    Registration,
    Released,
    SchemaList,
    Snapshot,
    SnapshotPage,
    SqlAnswer,
    SqlColumn,
    SqlQuestion,
    State,
    StateDiff,
    Tick,
    TickClosing,
    Staleness,
    TimeAuthority,
    TimeAuthorityNow,
    TimeAuthoritySet,
    Verification,
    WorldAgent,
    WorldAgentPage,
    WorldStaleness,
    WorldPage,
    WorldRecord,
)

__all__ = [
    "ALL",
    "AcceptedIntent",
    "AgentView",
    "ClosedTick",
    "Effect",
    "EffectDraft",
    "EffectDrafts",
    "EffectPage",
    "Generation",
    "Health",
    "HeldIntent",
    "Intent",
    "IntentList",
    "IntentResults",
    "Intents",
    "NamedQuery",
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
    "QueryList",
    "QueryParameter",
    "Readiness",
    "Receipt",
    "Receipts",
    "RegisteredAgent",
    "Registration",
    "Released",
    "SchemaList",
    "Snapshot",
    "SnapshotPage",
    "SqlAnswer",
    "SqlColumn",
    "SqlQuestion",
    "Staleness",
    "State",
    "StateDiff",
    "Tick",
    "TickClosing",
    "TimeAuthority",
    "TimeAuthorityNow",
    "TimeAuthoritySet",
    "Verification",
    "WorldAgent",
    "WorldAgentPage",
    "WorldPage",
    "WorldRecord",
    "WorldStaleness",
    "components",
    "every",
]


def every() -> list[type[BaseModel]]:
    """Return the shapes, those of installed kinds among them."""
    return [*ALL, *(shape for shapes in parts("shapes").values() for shape in shapes)]


def components() -> dict[str, Any]:
    """Return the JSON schema of every shape, by the name that it has under ``#/components/schemas``.

    The shapes of installed kinds are among them.
    """
    _, document = models_json_schema(
        [(shape, "validation") for shape in every()], ref_template="#/components/schemas/{model}"
    )
    found: dict[str, Any] = document["$defs"]
    found["NewWorld"]["properties"]["ruleset"]["enum"] = known_rulesets()
    return found
