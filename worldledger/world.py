"""WorldState: what a world is at one moment, and its canonical text and digest.

Source: docs/reference/contracts.md, "World state". One shape serves every ruleset. What grows without limit (messages,
moves, rounds) is not in it: it is in the log and in projections.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any, Final

import orjson
from pydantic import BaseModel, ConfigDict, Field

Point = tuple[float, float, float]


class WorldState(BaseModel):
    """The state of a world: the result of folding the world's effects in order.

    - ``entities``: entity_id -> its data, an object.
    - ``relationships``: entity_id -> the ids it is related to, sorted.
    - ``spatial_index``: entity_id -> (x, y, z); an entity with a ``position`` is here with the same numbers.
    - ``metadata``: ``agents`` (agent_id -> {policy, permissions, weight, registered_seq}, as registered),
      ``relationships`` (from -> to -> type -> {strength, metadata}: the details behind the adjacency),
      ``last_effect_seq``, ``last_effect_time`` (its sim_time), ``last_effect_kind``, ``unknown_effects`` (how many had
      a kind that the ruleset does not know) and ``malformed_effects`` (how many had a payload that cannot be read);
      such effects change nothing else. ``time_authority``: who sets sim_time, once an effect has changed it, and
      ``time_offset`` what is added to its own time; ``time_authority_silent`` {authority, last_tick_seq, reason,
      global_seq} while it is silent.
    """

    model_config = ConfigDict(defer_build=True)

    entities: dict[str, Any] = Field(default_factory=dict)
    relationships: dict[str, list[str]] = Field(default_factory=dict)
    spatial_index: dict[str, tuple[float, ...]] = Field(default_factory=dict, description="entity_id -> (x, y, z)")
    metadata: dict[str, Any] = Field(default_factory=dict)

    @classmethod
    def initial(cls) -> WorldState:
        """Return the state before the first effect."""
        return cls(
            metadata={
                "agents": {},
                "relationships": {},
                "last_effect_seq": 0,
                "last_effect_time": 0.0,
                "last_effect_kind": None,
                "unknown_effects": 0,
                "malformed_effects": 0,
            }
        )

    @classmethod
    def from_text(cls, text: bytes | str) -> WorldState:
        """Read a state's canonical text back. Raises ValueError for anything else."""
        value = orjson.loads(text)
        try:
            index = {name: tuple(point) for name, point in value["spatial_index"].items()}
            return cls.model_construct(
                entities=_object(value["entities"]),
                relationships=_object(value["relationships"]),
                spatial_index=index,
                metadata=_object(value["metadata"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"this is no state ({type(error).__name__}: {error})") from None

    def to_value(self) -> dict[str, Any]:
        """Return the state as the object that its text is made from: not a copy."""
        return {
            "entities": self.entities,
            "relationships": self.relationships,
            "spatial_index": self.spatial_index,
            "metadata": self.metadata,
        }

    def copy_deep(self) -> WorldState:
        """Return a copy that can be changed without changing this state.

        It shares the registrations of agents, which are most of a state with many agents: a registration is never
        changed, only replaced by another one.
        """
        agents = self.metadata.get("agents")
        if not isinstance(agents, dict):
            return self.from_text(orjson.dumps(self.to_value()))
        copy = self.from_text(orjson.dumps({**self.to_value(), "metadata": {**self.metadata, "agents": None}}))
        copy.metadata["agents"] = agents.copy()
        return copy

    def text(self) -> bytes:
        """Write the state in the profile ``state/1``.

        Unlike `state_text`, it lets other threads run in between, however large the state is.
        """
        return _in_pieces(self.to_value()).encode()

    def digest(self) -> str:
        """Return the state's digest: 64 lower-case hex digits."""
        return state_digest(self.text())


def state_text(value: Any) -> bytes:
    """Write a JSON value in the profile ``state/1``: the same bytes for the same value, on every machine.

    Raises ValueError for NaN and infinities, and UnicodeEncodeError for lone surrogates.
    """
    return _encode(value).encode()


_encode: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
#: Members of an object of a state that are written without interruption.
_MEMBERS_AT_ONCE: Final = 32


def _in_pieces(value: Any, level: int = 0) -> str:
    """Return the text of a JSON value, joined from the texts of a few members at a time down to some level."""
    if level > 2 or type(value) is not dict or not value:
        return _encode(value)
    names = sorted(value)
    if len(names) <= _MEMBERS_AT_ONCE and level < 2:
        members = [f"{_encode(name)}:{_in_pieces(value[name], level + 1)}" for name in names]
    else:
        starts = range(0, len(names), _MEMBERS_AT_ONCE)
        members = [_encode({name: value[name] for name in names[at : at + _MEMBERS_AT_ONCE]})[1:-1] for at in starts]
    return "{" + ",".join(members) + "}"


def state_digest(text: bytes) -> str:
    """Return the digest of a text in the profile ``state/1``: SHA-256 as 64 lower-case hex digits."""
    return sha256(text).hexdigest()


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"an object is wanted, not {type(value).__name__}")
    return value
