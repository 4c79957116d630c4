"""The shapes of states, their differences and snapshots."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, JsonValue

from worldledger.world import WorldState
from worldledger_service.api.schemas.base import CHECKSUM, HEX64, GlobalSeq, Shape
from worldledger_service.store.snapshots import SnapshotRecord

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
