"""The sandbox's vocabulary: what the payload of each kind says, or why it cannot be read.

Every reader takes a payload and the effect's source_id. A field that may be left out may also be null; fields that
the vocabulary does not know are no concern of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any, Final, NamedTuple

from worldledger.canonical import MAX_INT, child
from worldledger.drafts import MAX_WORD
from worldledger.patches import PatchError, apply_patch
from worldledger.rulesets.base import MalformedEffectError
from worldledger.world import Point

#: Most canonical bytes that an entity may have after a patch.
MAX_ENTITY: Final = 2**20
#: The nesting level at which an entity stands in the effect that creates it.
ENTITY_LEVEL: Final = 3


class UnreadableError(MalformedEffectError):
    """A payload that the vocabulary cannot read: the value's JSON path and the name of the rule that it breaks."""

    def __init__(self, reason: str, path: str, rule: str = "payload") -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path
        self.rule = rule


class Created(NamedTuple):
    """An entity that comes into the world, and where, if it is anywhere."""

    entity_id: str
    data: dict[str, Any]
    position: Point | None


class Relation(NamedTuple):
    """A relationship, one way (source: seeds/simulation_core.md, ``Relationship``)."""

    from_entity: str
    to_entity: str
    relationship_type: str
    strength: float
    metadata: dict[str, Any]


# -- values --------------------------------------------------------------------------------------------------


def read_point(value: Any, path: str) -> Point:
    """Read a list of 2 or 3 finite numbers; z is 0.0 where it is left out (seed: 2D becomes 3D)."""
    if type(value) is list and 2 <= len(value) <= 3:
        x, y, z = value if len(value) == 3 else (*value, 0.0)
        if type(x) is type(y) is type(z) is float and isfinite(x + y + z):  # at a glance; a sum may overflow
            return x, y, z
        return (
            read_number(x, f"{path}[0]", "a coordinate"),
            read_number(y, f"{path}[1]", "a coordinate"),
            read_number(z, f"{path}[2]", "a coordinate"),
        )
    raise UnreadableError("a position is a list of 2 or 3 numbers", path)


def read_number(value: Any, path: str, what: str) -> float:
    """Read a finite number."""
    if type(value) is float and isfinite(value):
        return value
    if type(value) is int and abs(value) <= MAX_INT:
        return float(value)
    raise UnreadableError(f"{what} is a finite number", path)


def _word(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    if type(value) is str and 0 < len(value) <= MAX_WORD:
        return value
    raise UnreadableError(f"{name} is a string of 1 to {MAX_WORD} characters", f"$.payload.{name}")


def _object(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = payload.get(name)
    if type(value) is dict:
        return value
    raise UnreadableError(f"{name} is an object", f"$.payload.{name}")


# -- entities ------------------------------------------------------------------------------------------------


def read_created(payload: Mapping[str, Any], _: str) -> Created:
    """Read EntityCreated ``{entity_id, entity_data, position?}``; a position may also stand in entity_data."""
    entity_id = _word(payload, "entity_id")
    data = _object(payload, "entity_data")
    position = payload.get("position")
    if position is not None:
        return Created(entity_id, data, read_point(position, "$.payload.position"))
    if "position" in data:
        return Created(entity_id, data, read_point(data["position"], "$.payload.entity_data.position"))
    return Created(entity_id, data, None)


def read_removed(payload: Mapping[str, Any], _: str) -> str:
    """Read EntityRemoved ``{entity_id}``."""
    return _word(payload, "entity_id")


def read_updated(payload: Mapping[str, Any], _: str) -> tuple[str, list[Any]]:
    """Read EntityUpdated ``{entity_id, patch}``; the operations are looked at when the patch is applied."""
    operations = payload.get("patch")
    if type(operations) is not list:
        raise UnreadableError("patch is a list of JSON Patch operations (RFC 6902)", "$.payload.patch")
    return _word(payload, "entity_id"), operations


def patched(entity: Any, operations: list[Any]) -> dict[str, Any]:
    """Give what an entity becomes by a patch, its position (if it has one) written as three floats.

    Raises UnreadableError, rule ``patch``, if the patch fails or what it gives is no entity.
    """
    path = "$.payload.patch"
    try:
        result = apply_patch(entity, operations, max_bytes=MAX_ENTITY, level=ENTITY_LEVEL)
    except PatchError as error:
        where = path if error.index is None else child(path, error.index)
        raise UnreadableError(error.reason, where, "patch") from None
    if type(result) is not dict:
        raise UnreadableError("the patch would leave something that is no object", path, "patch")
    if "position" in result:
        try:
            result["position"] = list(read_point(result["position"], path))
        except UnreadableError:
            what = "the patch would leave a position that is no list of 2 or 3 numbers"
            raise UnreadableError(what, path, "patch") from None
    return result


# -- movement and messages -----------------------------------------------------------------------------------


def read_mover(payload: Mapping[str, Any], source_id: str) -> str:
    """Read who moves: ``agent_id`` if it names anybody, else the source."""
    agent_id = payload.get("agent_id")
    if type(agent_id) is not str or not agent_id:
        return source_id
    return agent_id if len(agent_id) <= MAX_WORD else _word(payload, "agent_id")


def read_target(payload: Mapping[str, Any], _: str) -> Point:
    """Read where a Move ``{to | position, from?, speed?, agent_id?}`` leads."""
    target = payload.get("to")
    if target is not None:
        return read_point(target, "$.payload.to")
    target = payload.get("position")
    if target is not None:
        return read_point(target, "$.payload.position")
    raise UnreadableError("a Move needs a position to move to", "$.payload.to")


def read_said(payload: Mapping[str, Any], _: str) -> str:
    """Read Speak and SpeakResponse ``{text}``."""
    text = payload.get("text")
    if type(text) is str:
        return text
    raise UnreadableError("text is a string", "$.payload.text")


def read_emitted(payload: Mapping[str, Any], source_id: str) -> str:
    """Read MessageEmitted ``{text | message}``."""
    if payload.get("text") is not None:
        return read_said(payload, source_id)
    message = payload.get("message")
    if type(message) is str:
        return message
    if message is None:
        raise UnreadableError("a message needs a text", "$.payload.text")
    raise UnreadableError("message is a string", "$.payload.message")


# -- relationships -------------------------------------------------------------------------------------------


def read_interaction(payload: Mapping[str, Any], source_id: str) -> str:
    """Read whom an Interact ``{target_id}`` is with."""
    target = _word(payload, "target_id")
    if target == source_id:
        raise UnreadableError("nobody interacts with itself", "$.payload.target_id", "self_interaction")
    return target


def read_relation(payload: Mapping[str, Any], source_id: str) -> Relation:
    """Read RelationshipSet ``{from_entity?, to_entity, relationship_type, strength?, metadata?}``."""
    strength = payload.get("strength")
    return Relation(
        source_id if payload.get("from_entity") is None else _word(payload, "from_entity"),
        _word(payload, "to_entity"),
        _word(payload, "relationship_type"),
        1.0 if strength is None else read_number(strength, "$.payload.strength", "strength"),
        {} if payload.get("metadata") is None else _object(payload, "metadata"),
    )


def read_ended(payload: Mapping[str, Any], source_id: str) -> tuple[str, str, str | None]:
    """Read RelationshipRemoved ``{from_entity?, to_entity, relationship_type?}``; without a type all are meant."""
    return (
        source_id if payload.get("from_entity") is None else _word(payload, "from_entity"),
        _word(payload, "to_entity"),
        None if payload.get("relationship_type") is None else _word(payload, "relationship_type"),
    )
