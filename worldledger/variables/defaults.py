"""Reading a default as it was written, whatever its type says: within limits, with lists for tuples.

Source: docs/reference/simulations.md, "Values".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worldledger.canonical import gate
from worldledger.errors import InvalidEffectError
from worldledger.variables.limits import MAX_DEFAULT_DEPTH, MAX_DEFAULT_VALUES


class DefaultError(ValueError):
    """A default that cannot be read: the way to what is wrong in it, and why."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path
        self.reason = reason


def plain_default(value: Any, definition: Mapping[str, Any]) -> Any:
    """Return a default as JSON value: tuples as lists, and the keys of a dict with whole numbers as strings.

    ``definition`` is the normal form of what the default belongs to. Raises DefaultError for what JSON or the log
    cannot hold, for keys that are not what the definition says, and for values too many or too deep.
    """
    result = _Copier().copy(value, definition, ())
    try:
        gate(result)
    except InvalidEffectError as error:
        # The gate's paths begin with "$", and this value stands for itself.
        raise DefaultError((), error.reason if error.path == "$" else f"{error.path}: {error.reason}") from None
    return result


class _Copier:
    def __init__(self) -> None:
        self.left = MAX_DEFAULT_VALUES

    def copy(self, value: Any, definition: Any, path: tuple[str | int, ...]) -> Any:
        self.left -= 1
        if self.left < 0:
            raise DefaultError((), f"a default has at most {MAX_DEFAULT_VALUES:,} values, each use of one counted")
        if len(path) > MAX_DEFAULT_DEPTH:
            raise DefaultError(path, "nested deeper than any definition")
        if isinstance(value, Mapping):
            return self.members(value, definition, path)
        if isinstance(value, list | tuple):
            return [self.copy(item, _inner(definition, index), (*path, index)) for index, item in enumerate(value)]
        return value

    def members(self, value: Mapping[Any, Any], definition: Any, path: tuple[str | int, ...]) -> dict[str, Any]:
        whole = isinstance(definition, Mapping) and definition.get("key_type") == "int"
        result: dict[str, Any] = {}
        for key, item in value.items():
            if not isinstance(key, str) and not (whole and type(key) is int):
                raise DefaultError(path, f"the key {key!r} is no string: quote it")
            if str(key) in result:
                raise DefaultError(path, f"the key {key} stands there twice")
            result[str(key)] = self.copy(item, _inner(definition, key), (*path, key))
        return result


def _inner(definition: Any, key: str | int) -> Any:
    """Return the definition of a member or an element, None if there is none."""
    if not isinstance(definition, Mapping):
        return None
    if definition.get("schema") is not None:
        return definition["schema"].get(key)
    elements = definition.get("item_types")
    if elements is not None:
        return elements[key] if isinstance(key, int) and key < len(elements) else None
    return definition.get("value_type", definition.get("item_type"))
