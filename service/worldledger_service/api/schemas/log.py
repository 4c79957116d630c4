"""The shapes of worlds, effects and verification."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, JsonValue, RootModel

from worldledger.config import OrchestratorConfig
from worldledger.drafts import MAX_PRIORITY
from worldledger_service.api.schemas.base import (
    CHECKSUM,
    HEX32,
    HEX64,
    GlobalSeq,
    Near,
    SemanticVersion,
    Shape,
    Word,
    WorldName,
)
from worldledger_service.store import WorldRecord

_DRAFT: dict[str, Any] = {
    "kind": "SpeakSent",
    "payload": {"text": "Good morning", "to": ["bob"]},
    "source_id": "alice",
    "schema_version": "1.0.0",
    "req_id": "turn-17-alice",
}
_UUID = "0b9a1f7c5d3e4f60a1b2c3d4e5f60718"
_RECEIPT: dict[str, Any] = {"global_seq": 42, "uuid": _UUID, "checksum": CHECKSUM, "replayed": False}
_EFFECT: dict[str, Any] = {
    **_DRAFT,
    "uuid": _UUID,
    "global_seq": 42,
    "sim_time": 12.5,
    "world_id": "market-town",
    "priority": 0,
    "wall_time": 1764277353.25,
}


class NewWorld(Shape):
    """A world to be created."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={"examples": [{"world_id": "market-town", "ruleset": "sandbox", "experiment": "trial-1"}]},
    )

    world_id: WorldName
    ruleset: str = Field(default="sandbox", description="The rules of this kind of world.")
    config: dict[str, JsonValue] = Field(
        default_factory=dict,
        description="The ruleset's own settings; of `simulation` its configuration: `/v1/schemas/simulation-config`.",
    )
    experiment: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        default=None, description="A label under which worlds are found together."
    )
    time_authority: str = Field(
        default="wall",
        pattern=r"^[a-z][a-z0-9_-]{0,62}$",
        description="Who sets sim_time: `wall` (the clock), `client` (any draft) or the name of an adapter, whose "
        "drafts (source_id equal to that name) alone may; `worldledger` is reserved.",
    )
    order: Literal["arrival", "tick"] = Field(
        default="arrival",
        description="`arrival`: each intent is decided as it arrives; `tick`: intents are held, and the next tick "
        "decides all of them in one order.",
    )
    snapshot_every: Annotated[int, Field(ge=2, le=999_999_999)] | None = Field(
        default=None, description="Effects between two snapshots of the state, at least; the service's own if null."
    )
    orchestrator: OrchestratorConfig | None = Field(
        default=None, description="How its agents are served; left to the service if null."
    )
    checkpoint: dict[str, JsonValue] | None = Field(
        default=None, description="What a `simulation` begins with instead of its defaults: `/v1/schemas/checkpoint`."
    )


class EffectDraft(Shape):
    """An effect to be accepted. Kinds that begin with World, Intent or Generation are the service's own."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_DRAFT]})

    kind: Word
    payload: dict[str, JsonValue] = Field(
        description="Any JSON object that survives unchanged: no integers beyond ±(2^53-1), no -0.0, no NUL characters "
        "or lone surrogates, no key twice, nested at most 100 deep."
    )
    source_id: Word = Field(description="Who or what the effect comes from, such as an agent_id.")
    schema_version: SemanticVersion
    sim_time: float | None = Field(
        default=None,
        description="Seconds of the world's own time; only where its time_authority is `client` or this source. "
        "Never lower than the world's.",
    )
    priority: int = Field(
        default=0,
        ge=-MAX_PRIORITY,
        le=MAX_PRIORITY,
        description="Higher goes first among drafts that wait together; the world's `default_priority` if left out.",
    )
    req_id: Word | None = Field(default=None, description="Idempotency key, unique per (world, source_id).")
    caused_by: GlobalSeq | None = Field(default=None, description="global_seq of an earlier effect of this world.")
    source_metadata: dict[str, JsonValue] | None = Field(default=None, description="Facts about the source.")


class EffectDrafts(RootModel[Annotated[list[EffectDraft], Field(min_length=1, max_length=1000)]]):
    """Drafts that are written whole or not at all, in this order."""

    model_config = ConfigDict(json_schema_extra={"examples": [[_DRAFT]]})


class Receipt(Shape):
    """What is told about an accepted effect, once it is durable."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_RECEIPT]})

    global_seq: GlobalSeq
    uuid: str = Field(pattern=HEX32)
    checksum: str = Field(pattern=HEX64, description="SHA-256 over the previous checksum (hex) and the effect's bytes.")
    replayed: bool = Field(description="Whether an earlier request with this req_id made the effect.")


class Receipts(Shape):
    """The receipts of a list, in its order."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"receipts": [_RECEIPT]}]})

    receipts: list[Receipt]


class Effect(Shape):
    """An effect of the log: the stored bytes, exactly as they were hashed."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [_EFFECT]})

    uuid: str
    kind: Word
    payload: dict[str, JsonValue]
    global_seq: GlobalSeq
    sim_time: float
    source_id: Word
    schema_version: Word
    world_id: str
    priority: int
    req_id: str | None
    wall_time: float
    caused_by: int | None = None
    source_metadata: dict[str, JsonValue] | None = None


class EffectPage(Shape):
    """A page of effects in ascending order, each exactly as stored, with their checksums beside them."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "effects": [_EFFECT],
                    "checksums": [CHECKSUM],
                    "through_seq": 42,
                    "next_after_seq": 42,
                }
            ]
        },
    )

    world_id: str
    effects: list[Effect]
    checksums: list[str] = Field(description="The chain checksum of each effect, hex, in the same order.")
    through_seq: int = Field(
        description="Up to here the page has everything that was asked for: the after_seq with which to ask for later "
        "effects."
    )
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")
    near: Near = None


class WorldPage(Shape):
    """A page of worlds by name."""

    worlds: list[WorldRecord]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")
    near: Near = None


class ChainPosition(Shape):
    """A place in a chain."""

    global_seq: int = Field(ge=0)
    checksum: str = Field(description="Hex; empty at seq 0.")


class FindingShape(Shape):
    """The first thing that does not hold."""

    global_seq: int
    what: str


class Verification(Shape):
    """The outcome of a verification. Keep `position`: given as `head` (or `from`) it ties later ones to this one."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "verified": True,
                    "effects": 42,
                    "position": {"global_seq": 42, "checksum": CHECKSUM},
                    "finding": None,
                }
            ]
        },
    )

    world_id: str
    verified: bool
    effects: int = Field(description="How many effects were checked.")
    position: ChainPosition = Field(description="The last place up to which everything holds.")
    finding: FindingShape | None
