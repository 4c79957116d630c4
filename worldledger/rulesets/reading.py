"""Reading payloads: values that several rulesets have in common, and the reasons why they cannot be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from worldledger.canonical import MAX_INT, child
from worldledger.drafts import MAX_WORD, CheckedDraft
from worldledger.errors import IllegalEffectError, InvalidEffectError
from worldledger.near import meant, near
from worldledger.patches import PatchError, apply_patch
from worldledger.rulesets.base import Check, MalformedEffectError
from worldledger.world import Point, WorldState

#: Most canonical bytes that an entity may have after a patch.
MAX_ENTITY: Final = 2**20
#: The nesting level of an entity in the effect that creates it.
ENTITY_LEVEL: Final = 3


class UnreadableError(MalformedEffectError):
    """A payload that cannot be read: the value's JSON path and the name of the broken rule."""

    def __init__(self, reason: str, path: str, rule: str = "payload") -> None:
        super().__init__(f"{path}: {reason}")
        self.reason = reason
        self.path = path
        self.rule = rule


def refusing(read: Callable[[CheckedDraft, dict[str, Any], WorldState | None], dict[str, Any] | None]) -> Check:
    """Make a check from a reader: an unreadable payload is illegal; one that it returns is written instead."""

    def check(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> dict[str, Any] | None:
        try:
            return read(draft, payload, state)
        except UnreadableError as error:
            raise IllegalEffectError(error.reason, error.path, rule=error.rule) from None

    return check


def read_name(payload: Mapping[str, Any], name: str) -> str:
    """Read a member that is a string of 1 to 200 characters."""
    value = payload.get(name)
    if type(value) is str and 0 < len(value) <= MAX_WORD:
        return value
    raise UnreadableError(f"{name} is a string of 1 to {MAX_WORD} characters", f"$.payload.{name}")


def read_object(payload: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Read a member that is an object."""
    value = payload.get(name)
    if type(value) is dict:
        return value
    raise UnreadableError(f"{name} is an object", f"$.payload.{name}")


def read_patch(payload: Mapping[str, Any]) -> list[Any]:
    """Read ``patch``; its operations are checked when it is applied."""
    operations = payload.get("patch")
    if type(operations) is list:
        return operations
    raise UnreadableError("patch is a list of JSON Patch operations (RFC 6902)", "$.payload.patch")


def patched(entity: Any, operations: list[Any]) -> dict[str, Any]:
    """Return an entity after a patch: an object of its own.

    Raises UnreadableError, rule ``patch``, if the patch fails or its result is not an object.
    """
    path = "$.payload.patch"
    try:
        result = apply_patch(entity, operations, max_bytes=MAX_ENTITY, level=ENTITY_LEVEL)
    except PatchError as error:
        where = path if error.index is None else child(path, error.index)
        raise UnreadableError(error.reason, where, "patch") from None
    if type(result) is not dict:
        raise UnreadableError("the patch would leave something that is no object", path, "patch")
    return result


def read_point(value: Any, path: str) -> Point:
    """Read a list of 2 or 3 finite numbers; a missing z is 0.0 (2D becomes 3D)."""
    if type(value) is list and 2 <= len(value) <= 3:
        x, y, z = value if len(value) == 3 else (*value, 0.0)
        if type(x) is type(y) is type(z) is float and isfinite(x + y + z):  # the fast path; a sum may overflow
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


def change_of(path: str, value: Any, state: WorldState) -> tuple[str, list[dict[str, Any]]]:
    """Read the path of a change, a JSON Pointer into the entities; return the entity and the patch that makes it.

    Raises InvalidEffectError for a path that names no value of an entity of the state.
    """
    entity_id, _, inner = path.removeprefix("/").partition("/")
    entity_id = entity_id.replace("~1", "/").replace("~0", "~")
    where = f"$.changes.{path}"
    if not inner:
        raise InvalidEffectError(f"{path!r} names no value: write ENTITY/FIELD, such as alice/gold", where)
    if entity_id not in state.entities:
        guess = meant(near(entity_id, state.entities))
        raise InvalidEffectError(f"there is no entity {entity_id!r}{guess}", where)
    return entity_id, [{"op": "add", "path": f"/{inner}", "value": value}]
