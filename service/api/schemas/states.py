"""The shapes of states, their differences and snapshots."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from service.api.schemas.base import CHECKSUM, HEX64, GlobalSeq, Shape
from service.store.snapshots import SnapshotRecord
from worldledger.canonical import MAX_INT
from worldledger.world import WorldState

_STATE: dict[str, Any] = {
    "world_id": "market-town",
    "global_seq": 42,
    "checksum": CHECKSUM,
    "ruleset": "sandbox",
    "ruleset_version": 1,
    "state_digest": CHECKSUM,
    "state": {
        "entities": {"alice": {"position": [1.0, 2.5, 0.0]}},
        "metadata": {"last_effect_seq": 42},
        "relationships": {},
        "spatial_index": {"alice": [1.0, 2.5, 0.0]},
    },
}
_TURN: dict[str, Any] = {
    "world_id": "market",
    "turn": 3,
    "status": "ended",
    "first_seq": 20,
    "ended_seq": 26,
    "last_seq": 26,
    "checksum": CHECKSUM,
    "first_sim_time": 12.5,
    "first_wall_time": 1764277353.25,
    "last_sim_time": 14.0,
    "last_wall_time": 1764277354.75,
    "acted": {"Trader_1": 1},
    "paused": [],
    "agents": {"Trader_1": {"name": "Trader_1", "inventory": {"food": 10.5}}},
    "global_state": {"price": 2.0},
}


class State(Shape):
    """The state of a world at a place in its chain."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_STATE]})

    world_id: str
    global_seq: GlobalSeq = Field(description="The effect after which the world had this state.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    ruleset: str = Field(description="What folded the state …")
    ruleset_version: int = Field(description="… in this version.")
    state_digest: str = Field(pattern=HEX64, description="SHA-256 of the bytes of `state`, as they stand here.")
    state: WorldState = Field(description="In the canonical profile `state/1`.")


class Turn(Shape):
    """A turn of a simulation, and the values at its end."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [_TURN]})

    world_id: str
    turn: int = Field(ge=0, le=MAX_INT)
    status: Literal["open", "ended"]
    first_seq: GlobalSeq = Field(description="The effect that started it.")
    ended_seq: GlobalSeq | None = Field(description="The effect that ended it, if there is one.")
    last_seq: GlobalSeq = Field(description="The last effect before the next turn, or of all: the values are of there.")
    checksum: str = Field(pattern=HEX64, description="The chain checksum of that effect.")
    first_sim_time: float
    first_wall_time: float
    last_sim_time: float
    last_wall_time: float
    acted: dict[str, int] = Field(description="How often each agent has changed its variables in this turn.")
    paused: list[str] = Field(description="The agents that were paused, sorted.")
    agents: dict[str, dict[str, JsonValue]] = Field(description="Each agent's variables, its `name` among them.")
    global_state: dict[str, JsonValue] = Field(description="The global variables.")


class PatchOperation(Shape):
    """An operation of a JSON Patch (RFC 6902)."""

    op: Literal["add", "remove", "replace"]
    path: str = Field(description="JSON Pointer (RFC 6901).")
    value: JsonValue = Field(default=None, description="Not with `remove`.")


class StateDiff(Shape):
    """What turns one state of a world into another."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "world_id": "market-town",
                    "from_seq": 41,
                    "to_seq": 42,
                    "from_digest": CHECKSUM,
                    "to_digest": CHECKSUM,
                    "patch": [{"op": "replace", "path": "/entities/alice/position", "value": [1.0, 2.5, 0.0]}],
                }
            ]
        },
    )

    world_id: str
    from_seq: GlobalSeq
    to_seq: GlobalSeq
    from_digest: str = Field(pattern=HEX64, description="The digest of the state that the patch applies to.")
    to_digest: str = Field(pattern=HEX64, description="The digest of the state that it gives.")
    patch: list[PatchOperation]


class Snapshot(SnapshotRecord):
    """A state that is kept: see `state`."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SnapshotPage(Shape):
    """A page of a world's snapshots, ascending."""

    world_id: str
    snapshots: list[Snapshot]
    next_after_seq: int | None = Field(description="The after_seq of the next page; null when this is the last.")
