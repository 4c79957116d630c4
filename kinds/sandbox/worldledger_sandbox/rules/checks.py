"""What a sandbox world refuses before it becomes an effect, each rule by its name.

- ``payload``: the payload cannot be read, or a private message has no ``target_id``; the path names the value
- ``entity_exists``: EntityCreated of an entity that is there
- ``unknown_entity``: EntityRemoved or EntityUpdated of one that is not
- ``patch``: the patch of EntityUpdated fails, or what it gives is no entity
- ``self_interaction``: Interact with oneself
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from worldledger.drafts import CheckedDraft
from worldledger.rulesets.base import Check, Knowing, UnknowableError
from worldledger.rulesets.reading import UnreadableError, read_number, read_point, refusing
from worldledger.world import WorldState
from worldledger_sandbox.rules.payloads import (
    audience_of,
    placed,
    read_created,
    read_emitted,
    read_ended,
    read_interaction,
    read_relation,
    read_removed,
    read_said,
    read_target,
    read_updated,
)

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
    """Make a check of a reader: what it cannot read is illegal."""

    def look(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
        read(payload, draft.source_id, state)

    return refusing(look)


def _message(read: Callable[[dict[str, Any], str], object]) -> Check:
    """Make a check of a message's reader: a private one is written with its ``audience``."""

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

#: The kinds whose legality hangs on what is there already.
STATEFUL: Final = frozenset({"EntityCreated", "EntityRemoved", "EntityUpdated"})


# -- what is told of a refusal -------------------------------------------------------------------------------


def as_shown(kind: str, payload: dict[str, Any], shown: WorldState, knowing: Knowing) -> dict[str, Any]:
    """Return the payload of an agent's intent as far as it can be judged by what the agent is shown.

    Operations on fields that are hidden from it are left out, and tests of values that it is not shown exactly. Raises
    UnknowableError for an entity that may be there or not.
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
            raise UnknowableError  # what is shown may come from what is not
        if name == "test" and (any(hidden) or not exact):
            seen.append(_NOTHING)
        else:
            seen.append(_NOTHING if any(hidden) and operation["path"] else operation)
    return {**payload, "patch": seen}


#: An operation that changes nothing.
_NOTHING: Final[Mapping[str, Any]] = {"op": "move", "from": "", "path": ""}


def _field(pointer: str) -> str:
    return pointer.split("/", 2)[1].replace("~1", "/").replace("~0", "~") if pointer.startswith("/") else pointer
