"""Values of variables as rows have them: what differs between two states of an entity, leaf by leaf, and its paths."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import orjson

from worldledger.errors.simulations import stepped

#: What stands for a leaf that is not there.
MISSING: Final = object()


class Difference(NamedTuple):
    """A leaf that is another than before: its variable and path, and its values, or MISSING.

    A leaf is a number, a text, a bool or null, or an object or a list that is empty.
    """

    variable: str
    path: str
    before: Any
    after: Any


def differences(
    before: dict[str, Any] | None, after: dict[str, Any] | None, *, but: str | None
) -> Iterator[Difference]:
    """Return the leaves in which an entity's variables differ; None: there is no entity. ``but`` is no variable of it.

    1, 1.0 and true are three values, as in the log. Where a leaf becomes an object of leaves, or the other way round,
    what was there goes first.
    """
    before, after = before or {}, after or {}
    for variable, one, other in _members(before, after):
        if variable != but:
            for found in _differences(stepped("", variable), one, other):
                yield Difference(variable, *found)


def _members(before: dict[str, Any], after: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Return the members in which two objects differ."""
    for key, one in before.items():
        other = after.get(key, MISSING)
        if not _same(one, other):
            yield key, one, other
    for key, other in after.items():
        if key not in before:
            yield key, MISSING, other


def _differences(path: str, before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Return the leaves in which two values differ, which they do."""
    if before and after and type(before) is type(after) is dict:
        for key, one, other in _members(before, after):
            yield from _differences(stepped(path, key), one, other)
    elif before and after and type(before) is type(after) is list:
        for index, (one, other) in enumerate(zip_longest(before, after, fillvalue=MISSING)):
            if not _same(one, other):
                yield from _differences(stepped(path, index), one, other)
    elif _is_leaf(before) and _is_leaf(after):
        yield path, before, after
    else:
        for leaf, value in _leaves(path, before):
            yield leaf, value, MISSING
        for leaf, value in _leaves(path, after):
            yield leaf, MISSING, value


def _same(one: Any, other: Any) -> bool:
    """Tell whether two values are the same; objects whose members stand in another order may not be taken for it."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    return orjson.dumps(one) == orjson.dumps(other) if type(one) in (dict, list) else bool(one == other)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value is MISSING:
        return
    if _is_leaf(value):
        yield path, value
    elif type(value) is dict:
        for key, item in value.items():
            yield from _leaves(stepped(path, key), item)
    else:
        for index, item in enumerate(value):
            yield from _leaves(stepped(path, index), item)


def _is_leaf(value: Any) -> bool:
    return not value or type(value) not in (dict, list)
