"""The free sandbox: entities, positions, messages and relationships, without rules beyond its vocabulary.

Below stand how each payload is read, what is refused before it becomes an effect (decide), and how effects change the
state (evolve).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD, CheckedDraft
from worldledger.effects import Effect, EffectDraft, is_private, own_draft
from worldledger.rulesets.base import Check, Handler, Knowing, Ruleset, Touched, UnknowableError
from worldledger.rulesets.payloads import (
    INTENTS,
    NAME,
    NUMBER,
    OBJECT,
    PATCH,
    POINT,
    PRIVATE,
    TEXT,
    Schema,
    payload,
    says,
)
from worldledger.rulesets.reading import (
    UnreadableError,
    change_of,
    patched,
    read_name,
    read_number,
    read_object,
    read_patch,
    read_point,
    refusing,
)
from worldledger.world import Point, WorldState

# -- the sandbox's vocabulary: reading the payload of each kind -------------------------------------------
#
# Every reader takes a payload and the effect's source_id. Optional fields may also be null; fields that the vocabulary
# does not know are ignored.


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


# -- the checks of sandbox worlds, by the name of the rule, and how effects change the state --------------
#
# - ``payload``: the payload cannot be read, or a private message has no ``target_id``; the path names the value
# - ``entity_exists``: EntityCreated of an existing entity
# - ``unknown_entity``: EntityRemoved or EntityUpdated of one that does not exist
# - ``patch``: the patch of EntityUpdated fails, or its result is not an entity
# - ``self_interaction``: Interact with oneself


#: Reads a payload, or raises UnreadableError.
_Reader = Callable[[dict[str, Any], str, WorldState | None], object]


def _create(payload: dict[str, Any], source_id: str, state: WorldState | None) -> None:
    entity_id = read_created(payload, source_id).entity_id
    if state is not None and entity_id in state.entities:
        raise UnreadableError(f"there is an entity {entity_id!r} already", "$.payload.entity_id", "entity_exists")


def _remove(payload: dict[str, Any], source_id: str, state: WorldState | None) -> None:
    _must_exist(read_removed(payload, source_id), state)


def _update(payload: dict[str, Any], source_id: str, state: WorldState | None) -> None:
    entity_id, operations = read_updated(payload, source_id)
    _must_exist(entity_id, state)
    if state is not None:
        placed(state.entities[entity_id], operations)


def _must_exist(entity_id: str, state: WorldState | None) -> None:
    if state is not None and entity_id not in state.entities:
        raise UnreadableError(f"there is no entity {entity_id!r}", "$.payload.entity_id", "unknown_entity")


def _move(payload: dict[str, Any], source_id: str, _: WorldState | None) -> None:
    read_target(payload, source_id)
    start = payload.get("from")
    if start is not None:
        read_point(start, "$.payload.from")
    speed = payload.get("speed")
    if speed is not None and read_number(speed, "$.payload.speed", "speed") < 0:
        raise UnreadableError("speed is a number from 0 on", "$.payload.speed")


def _without_state(read: Callable[[dict[str, Any], str], object]) -> _Reader:
    return lambda payload, source_id, _: read(payload, source_id)


def _check(read: _Reader) -> Check:
    """Make a check from a reader: an unreadable payload is illegal."""

    def look(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
        read(payload, draft.source_id, state)

    return refusing(look)


def _message(read: Callable[[dict[str, Any], str], object]) -> Check:
    """Make a check from a message's reader: a private message is written with its ``audience``."""

    def look(draft: CheckedDraft, payload: dict[str, Any], _: WorldState | None) -> dict[str, Any] | None:
        read(payload, draft.source_id)
        audience = audience_of(payload, draft.source_id)
        return None if audience is None else {**payload, "audience": audience}

    return refusing(look)


CHECKS: Final[Mapping[str, Check]] = {
    "EntityCreated": _check(_create),
    "EntityRemoved": _check(_remove),
    "EntityUpdated": _check(_update),
    "Interact": _check(_without_state(read_interaction)),
    "MessageEmitted": _message(read_emitted),
    "Move": _check(_move),
    "RelationshipRemoved": _check(_without_state(read_ended)),
    "RelationshipSet": _check(_without_state(read_relation)),
    "Speak": _message(read_said),
    "SpeakResponse": _message(read_said),
}

_RELATED: Final = {"from_entity": says(NAME, "The source of the effect, unless it is named.")}
PAYLOADS: Final[Mapping[str, Schema]] = {
    **INTENTS,
    "EntityCreated": payload(
        "A new entity.", {"entity_id": NAME, "entity_data": says(OBJECT, "Its fields.")}, {"position": POINT}
    ),
    "EntityRemoved": payload("An entity is removed, and its relationships with it.", {"entity_id": NAME}),
    "EntityUpdated": payload("An entity is changed by a JSON Patch.", {"entity_id": NAME, "patch": PATCH}),
    "MessageEmitted": payload(
        "Say something.",
        {},
        {"text": says(TEXT, "What is said."), "message": says(TEXT, "The same by another name."), **PRIVATE},
        anyOf=[{"required": ["text"]}, {"required": ["message"]}],
    ),
    "RelationshipRemoved": payload(
        "A relationship ends.",
        {"to_entity": NAME},
        {**_RELATED, "relationship_type": says(NAME, "Which one; all, if left out.")},
    ),
    "RelationshipSet": payload(
        "A relationship in one direction.",
        {"to_entity": NAME, "relationship_type": NAME},
        {**_RELATED, "strength": NUMBER, "metadata": OBJECT},
    ),
    "SpeakResponse": INTENTS["Speak"],
}

#: The kinds whose legality depends on the state.
STATEFUL: Final = frozenset({"EntityCreated", "EntityRemoved", "EntityUpdated"})


# -- judging by what an agent is shown -----------------------------------------------------------------------


def as_shown(kind: str, payload: dict[str, Any], shown: WorldState, knowing: Knowing) -> dict[str, Any]:
    """Return the payload of an agent's intent as far as it can be judged by what the agent is shown.

    Operations on fields that are hidden from it are left out, and so are tests of values that it is not shown exactly.
    Raises UnknowableError for an entity that may or may not exist.
    """
    if kind not in ("EntityRemoved", "EntityUpdated"):
        return payload
    entity_id = payload.get("entity_id")
    if not isinstance(entity_id, str):
        return payload
    entity = shown.entities.get(entity_id)
    if entity is None:
        if knowing.is_absent(entity_id):
            return payload
        raise UnknowableError
    operations = payload.get("patch")
    if kind == "EntityRemoved" or not isinstance(operations, list):
        return payload
    exact = knowing.is_exact(entity_id)
    seen: list[Any] = []
    for operation in operations:
        name = operation.get("op") if isinstance(operation, dict) else None
        hidden = [
            not pointer or not knowing.is_shown(entity_id, _field(pointer))
            for pointer in ((operation.get("path"), operation.get("from")) if name is not None else ())
            if isinstance(pointer, str)
        ]
        if name in ("copy", "move") and any(hidden):
            raise UnknowableError  # what is shown may come from what is hidden
        if name == "test" and (any(hidden) or not exact):
            seen.append(_NOTHING)
        else:
            seen.append(_NOTHING if any(hidden) and operation["path"] else operation)
    return {**payload, "patch": seen}


#: An operation that changes nothing.
_NOTHING: Final[Mapping[str, Any]] = {"op": "move", "from": "", "path": ""}


def _field(pointer: str) -> str:
    return pointer.split("/", 2)[1].replace("~1", "/").replace("~0", "~") if pointer.startswith("/") else pointer


# -- handlers: how each kind of effect changes the state -----------------------------------------------------
#
# Invariants: ``entity["position"]`` and ``spatial_index`` agree; ``relationships`` has for each entity exactly the
# sorted keys of its details in ``metadata["relationships"]``, without empty ones. A handler reads the whole payload
# before it changes anything, and never changes the payload: an entity is an object of the state's own, and the values
# in it are replaced, not changed. A change of a relationship touches both ends, because it may decide whether an agent
# sees an entity.
#
# A message with an ``audience`` is private: it is an event for these agents alone, and leaves the state as it is. Older
# messages have no audience.

INTERACT: Final = "interact"


# -- entities ------------------------------------------------------------------------------------------------


def create(state: WorldState, effect: Effect) -> Touched:
    """EntityCreated: add the entity, replacing any other of that id."""
    entity_id, data, position = read_created(effect["payload"], effect["source_id"])
    if position is None:
        state.entities[entity_id] = data.copy()
        state.spatial_index.pop(entity_id, None)
    else:
        state.entities[entity_id] = {**data, "position": list(position)}
        state.spatial_index[entity_id] = position
    return entity_id


def update(state: WorldState, effect: Effect) -> Touched:
    """EntityUpdated: apply the patch to the entity."""
    entity_id, operations = read_updated(effect["payload"], effect["source_id"])
    if entity_id not in state.entities:
        raise UnreadableError("there is no such entity", "$.payload.entity_id", "unknown_entity")
    entity = placed(state.entities[entity_id], operations)
    state.entities[entity_id] = entity
    if "position" in entity:
        x, y, z = entity["position"]
        state.spatial_index[entity_id] = (x, y, z)
    else:
        state.spatial_index.pop(entity_id, None)
    return entity_id


def remove(state: WorldState, effect: Effect) -> Touched:
    """EntityRemoved: remove the entity, and every relationship from or to it."""
    entity_id = read_removed(effect["payload"], effect["source_id"])
    if state.entities.pop(entity_id, None) is None:
        return ()
    state.spatial_index.pop(entity_id, None)
    details = state.metadata["relationships"]
    others = [*state.relationships.get(entity_id, ())]
    others += [other for other, ends in details.items() if entity_id in ends]
    details.pop(entity_id, None)
    state.relationships.pop(entity_id, None)
    for other in others:
        _unrelate(state, other, entity_id, None)
    return (entity_id, *dict.fromkeys(others)) if others else entity_id


# -- movement and messages -----------------------------------------------------------------------------------


def move(state: WorldState, effect: Effect) -> Touched:
    """Move: put the entity at the target."""
    payload = effect["payload"]
    point = payload.get("to")
    # By far the most frequent kind: its usual form is read right here, in half the time.
    if not (type(point) is list and len(point) == 3 and type(point[0]) is type(point[1]) is type(point[2]) is float):
        point = read_target(payload, "")
    entity_id = read_mover(payload, effect["source_id"]) if "agent_id" in payload else effect["source_id"]
    entity = state.entities.get(entity_id)
    if entity is None:
        entity = state.entities[entity_id] = {}
    x, y, z = point
    entity["position"] = [x, y, z]
    entity["last_move_time"] = effect["sim_time"]
    state.spatial_index[entity_id] = (x, y, z)
    return entity_id


def speak(state: WorldState, effect: Effect) -> Touched:
    """Speak and SpeakResponse: note the source's last message."""
    text = read_said(effect["payload"], effect["source_id"])
    return _note_message(state, effect, text, "last_speak_time", "message_count")


def emit(state: WorldState, effect: Effect) -> Touched:
    """MessageEmitted: note the source's last message."""
    text = read_emitted(effect["payload"], effect["source_id"])
    return _note_message(state, effect, text, "last_emit_time", "emit_count")


def _note_message(state: WorldState, effect: Effect, text: str, time: str, count: str) -> Touched:
    entity_id = effect["source_id"]
    payload = effect["payload"]
    target = payload.get("target_id")
    if is_private(effect) and isinstance(target, str) and payload.get("audience") == sorted({entity_id, target}):
        return ()
    entity = state.entities.get(entity_id)
    if entity is None:
        entity = state.entities[entity_id] = {}
    entity["last_message"] = text
    entity[time] = effect["sim_time"]
    # Entities may have been created or patched with anything here: an unusable value is replaced.
    before = entity.get(count)
    entity[count] = before + 1 if type(before) is int and 0 <= before < MAX_INT else 1
    return entity_id


# -- relationships -------------------------------------------------------------------------------------------


def interact(state: WorldState, effect: Effect) -> Touched:
    """Interact: relate source and target, in both directions."""
    source_id = effect["source_id"]
    target = read_interaction(effect["payload"], source_id)
    _relate(state, Relation(source_id, target, INTERACT, 1.0, {}))
    _relate(state, Relation(target, source_id, INTERACT, 1.0, {}))
    return source_id, target


def set_relation(state: WorldState, effect: Effect) -> Touched:
    """RelationshipSet: relate one entity to another, in one direction."""
    relation = read_relation(effect["payload"], effect["source_id"])
    _relate(state, relation)
    return relation.from_entity, relation.to_entity


def end_relation(state: WorldState, effect: Effect) -> Touched:
    """RelationshipRemoved: end an entity's relationship to another, of one type or of all."""
    from_entity, to_entity, relationship_type = read_ended(effect["payload"], effect["source_id"])
    _unrelate(state, from_entity, to_entity, relationship_type)
    return from_entity, to_entity


def _relate(state: WorldState, relation: Relation) -> None:
    from_entity, to_entity, relationship_type, strength, metadata = relation
    ends = state.metadata["relationships"].setdefault(from_entity, {})
    types = ends.get(to_entity)
    if types is None:
        types = ends[to_entity] = {}
        insort(state.relationships.setdefault(from_entity, []), to_entity)
    types[relationship_type] = {"strength": strength, "metadata": metadata}


def _unrelate(state: WorldState, from_entity: str, to_entity: str, relationship_type: str | None) -> None:
    """Remove the relationships of one type, or of any, if there are some."""
    details: dict[str, dict[str, Any]] = state.metadata["relationships"]
    ends = details.get(from_entity, {})
    if to_entity not in ends:
        return
    if relationship_type is not None:
        ends[to_entity].pop(relationship_type, None)
        if ends[to_entity]:
            return
    del ends[to_entity]
    adjacent = state.relationships[from_entity]
    del adjacent[bisect_left(adjacent, to_entity)]
    if not ends:
        del details[from_entity]
        del state.relationships[from_entity]


HANDLERS: Final[Mapping[str, Handler]] = {
    "EntityCreated": create,
    "EntityRemoved": remove,
    "EntityUpdated": update,
    "Interact": interact,
    "MessageEmitted": emit,
    "Move": move,
    "RelationshipRemoved": end_relation,
    "RelationshipSet": set_relation,
    "Speak": speak,
    "SpeakResponse": speak,
}


class Sandbox(Ruleset):
    """Worlds of the ruleset ``sandbox``: the kinds of its vocabulary have a meaning, and any other is allowed."""

    name = "sandbox"
    version = 1
    handlers = HANDLERS
    checks = CHECKS
    stateful = STATEFUL
    payloads = PAYLOADS

    def as_shown(
        self, kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing
    ) -> dict[str, Any]:
        """Leave out an EntityUpdated's statements about hidden fields, and entities that may or may not exist."""
        return as_shown(kind, payload, shown, knowing)

    def change(self, path: str, value: Any, state: WorldState) -> EffectDraft:
        """Return the EntityUpdated that sets a value of an entity."""
        entity_id, patch = change_of(path, value, state)
        return own_draft("EntityUpdated", {"entity_id": entity_id, "patch": patch})


RULESET = Sandbox()
