"""The sandbox's vocabulary: reading the payload of each kind.

Every reader takes a payload and the effect's source_id. Optional fields may also be null; fields that the vocabulary
does not know are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from worldledger.drafts import MAX_WORD
from worldledger.rulesets.reading import (
    UnreadableError,
    patched,
    read_name,
    read_number,
    read_object,
    read_patch,
    read_point,
)
from worldledger.world import Point


class Created(NamedTuple):
    """A new entity, and its position if it has one."""

    entity_id: str
    data: dict[str, Any]
    position: Point | None


class Relation(NamedTuple):
    """A relationship in one direction (source: docs/reference/contracts.md, "Space")."""

    from_entity: str
    to_entity: str
    relationship_type: str
    strength: float
    metadata: dict[str, Any]


# -- entities ------------------------------------------------------------------------------------------------


def read_created(payload: Mapping[str, Any], _: str) -> Created:
    """Read EntityCreated ``{entity_id, entity_data, position?}``; a position may also be in entity_data."""
    entity_id = read_name(payload, "entity_id")
    data = read_object(payload, "entity_data")
    position = payload.get("position")
    if position is not None:
        return Created(entity_id, data, read_point(position, "$.payload.position"))
    if "position" in data:
        return Created(entity_id, data, read_point(data["position"], "$.payload.entity_data.position"))
    return Created(entity_id, data, None)


def read_removed(payload: Mapping[str, Any], _: str) -> str:
    """Read EntityRemoved ``{entity_id}``."""
    return read_name(payload, "entity_id")


def read_updated(payload: Mapping[str, Any], _: str) -> tuple[str, list[Any]]:
    """Read EntityUpdated ``{entity_id, patch}``; the operations are checked when the patch is applied."""
    operations = read_patch(payload)
    return read_name(payload, "entity_id"), operations


def placed(entity: Any, operations: list[Any]) -> dict[str, Any]:
    """Return an entity after a patch, with its position (if it has one) as three floats.

    Raises UnreadableError, rule ``patch``, if the patch fails or its result is not an entity.
    """
    result = patched(entity, operations)
    if "position" in result:
        try:
            result["position"] = list(read_point(result["position"], "$.payload.patch"))
        except UnreadableError:
            what = "the patch would leave a position that is no list of 2 or 3 numbers"
            raise UnreadableError(what, "$.payload.patch", "patch") from None
    return result


# -- movement and messages -----------------------------------------------------------------------------------


def read_mover(payload: Mapping[str, Any], source_id: str) -> str:
    """Read the moving entity: ``agent_id`` if it is given, else the source."""
    agent_id = payload.get("agent_id")
    if type(agent_id) is not str or not agent_id:
        return source_id
    return agent_id if len(agent_id) <= MAX_WORD else read_name(payload, "agent_id")


def read_target(payload: Mapping[str, Any], _: str) -> Point:
    """Read the target of a Move ``{to | position, from?, speed?, agent_id?}``."""
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


def audience_of(payload: Mapping[str, Any], source_id: str) -> list[str] | None:
    """Return a private message's audience, sorted: its source and its ``target_id``; None for a public one."""
    private = payload.get("private")
    if private is None or private is False:
        return None
    if private is not True:
        raise UnreadableError("private is true or false", "$.payload.private")
    if payload.get("target_id") is None:
        raise UnreadableError("a private message has a target_id", "$.payload.target_id")
    return sorted({source_id, read_name(payload, "target_id")})


# -- relationships -------------------------------------------------------------------------------------------


def read_interaction(payload: Mapping[str, Any], source_id: str) -> str:
    """Read the target of an Interact ``{target_id}``."""
    target = read_name(payload, "target_id")
    if target == source_id:
        raise UnreadableError("nobody interacts with itself", "$.payload.target_id", "self_interaction")
    return target


def read_relation(payload: Mapping[str, Any], source_id: str) -> Relation:
    """Read RelationshipSet ``{from_entity?, to_entity, relationship_type, strength?, metadata?}``."""
    strength = payload.get("strength")
    return Relation(
        source_id if payload.get("from_entity") is None else read_name(payload, "from_entity"),
        read_name(payload, "to_entity"),
        read_name(payload, "relationship_type"),
        1.0 if strength is None else read_number(strength, "$.payload.strength", "strength"),
        {} if payload.get("metadata") is None else read_object(payload, "metadata"),
    )


def read_ended(payload: Mapping[str, Any], source_id: str) -> tuple[str, str, str | None]:
    """Read RelationshipRemoved ``{from_entity?, to_entity, relationship_type?}``; no type means all types."""
    return (
        source_id if payload.get("from_entity") is None else read_name(payload, "from_entity"),
        read_name(payload, "to_entity"),
        None if payload.get("relationship_type") is None else read_name(payload, "relationship_type"),
    )
