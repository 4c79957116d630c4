"""Noise of observations: for the same world, observer, target, place and turn (or value) the same draw, anywhere.

A draw is computed from a digest, so nothing is kept between draws and their order does not matter:

- The message is the text, in the profile ``state/1`` (`worldledger.world.state_text`), of the JSON list
  ``[world_uuid, observer, target, path, turn]``. ``path`` is the JSON Pointer (RFC 6901) of the number within the
  target, ``/inventory/food``. With the ``noise_scope`` value the number itself stands in place of ``turn``, as the
  profile writes it: ``731.25``, ``5``, ``1.0``.
- S is the sum of the message's SHA-256, read as 16 big-endian whole numbers of 16 bits.
- The draw is ``g = (S - 524280) * (0.8660254037844386 / 65536)``: mean 0, spread (standard deviation) 1, nearly a bell
  curve (Irwin-Hall), never beyond 6.93 either way.
- What is observed of a number is ``value * (1.0 + noise * g)``, rounded if it is whole, and kept within its limits.
  Zero is observed as it is.

Only the addition, subtraction and multiplication of IEEE 754 are used, which are the same everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from itertools import chain, count, repeat
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from worldledger.canonical import MAX_INT
from worldledger.world import state_text

if TYPE_CHECKING:
    from worldledger.variables import VariableDefinition


# -- the bounds of variables: as a JSON tree, and in a form that clamps numbers quickly -------------------
#
# A tree is an object: variable -> node. A node is ``{"min", "max"}`` for a number, or one of
# ``{"fields": {name: node}}``, ``{"values": node}``, ``{"items": node}``, ``{"elements": [node or null, …]}`` for the
# parts of an object with a schema, a dict, a list, a tuple. What has no bounds has no node.


LARGEST: Final = 1.7976931348623157e308
#: The member of a node that has the nodes of its parts, by the container's type.
_INNER: Final = ("fields", "values", "items", "elements")


class Limits:
    """The limits of a node, ready for use. Without limits of its own, those of JSON's numbers hold.

    ``low`` and ``high`` hold for floats, ``whole_low`` and ``whole_high`` for whole numbers.
    """

    __slots__ = ("_elements", "_fields", "_items", "_values", "high", "low", "whole_high", "whole_low")

    def __init__(self, node: Mapping[str, Any]) -> None:
        low, high = node.get("min", -LARGEST), node.get("max", LARGEST)
        self.low: float = float(low) + 0.0
        self.high: float = float(high) + 0.0
        self.whole_low: int = max(ceil(low), -MAX_INT)
        self.whole_high: int = min(floor(high), MAX_INT)
        fields, elements = node.get("fields"), node.get("elements")
        self._fields = None if fields is None else {name: limits_of(each) for name, each in fields.items()}
        self._elements = None if elements is None else [limits_of(each) for each in elements]
        self._values = limits_of(node.get("values"))
        self._items = limits_of(node.get("items"))

    @classmethod
    def of_tree(cls, tree: Mapping[str, Any]) -> Limits:
        """Return the limits of an object whose members are the variables of a tree."""
        return cls({"fields": tree})

    def of_members(self, names: Iterable[Any]) -> Iterable[Limits]:
        """Return the limits of an object's members, in order."""
        fields = self._fields
        return repeat(self._values or FREE) if fields is None else (fields.get(name) or FREE for name in names)

    def of_items(self) -> Iterable[Limits]:
        """Yield the limits of the items of a list or tuple, in order, without end."""
        if self._elements is not None:
            return chain((each or FREE for each in self._elements), repeat(FREE))
        return repeat(self._items or FREE)

    def keep(self, exact: float) -> float:
        """Return the nearest number within the limits; never minus zero."""
        return self.low if exact < self.low else self.high if exact > self.high else exact + 0.0

    def keep_whole(self, exact: float) -> int:
        """Return the nearest whole number within the limits; of two, the even one."""
        if exact < self.whole_low:
            return self.whole_low
        return self.whole_high if exact > self.whole_high else round(exact)


def limits_of(node: Mapping[str, Any] | None) -> Limits | None:
    """Return the limits of a node, None for none."""
    return None if node is None else Limits(node)


#: The limits of a value without bounds.
FREE: Final = Limits({})


def bounds_of(variables: Mapping[str, VariableDefinition]) -> dict[str, Any]:
    """Return the tree of these variables' bounds, a JSON value."""
    nodes = {name: _node(definition) for name, definition in variables.items()}
    return {name: node for name, node in nodes.items() if node is not None}


def _node(definition: VariableDefinition | str | None) -> dict[str, Any] | None:
    if definition is None or isinstance(definition, str):
        return None
    if definition.schema_ is not None:
        fields = bounds_of(definition.schema_)
        return {"fields": fields} if fields else None
    for name, inner in (("values", definition.value_type), ("items", definition.item_type)):
        node = _node(inner)
        if node is not None:
            return {name: node}
    if definition.item_types:
        nodes = [_node(each) for each in definition.item_types]
        return {"elements": nodes} if any(nodes) else None
    found = {"min": definition.min, "max": definition.max}
    return {name: bound for name, bound in found.items() if bound is not None} or None


def check_bounds(tree: Any) -> None:
    """Raise ValueError unless this is a tree of bounds."""
    if not isinstance(tree, Mapping):
        raise ValueError("bounds are an object of variables")  # noqa: TRY004 - a validator of Pydantic raises this
    for node in tree.values():
        _check_node(node)


def _check_node(node: Any) -> None:
    if not isinstance(node, Mapping) or not node:
        raise ValueError(f"a node of bounds is an object, not {node!r}")
    if node.keys() <= {"min", "max"}:
        if not all(type(bound) in {int, float} and -LARGEST <= bound <= LARGEST for bound in node.values()):
            raise ValueError("a bound is a finite number")
        return
    (which, *others) = node
    if others or which not in _INNER:
        raise ValueError(f"a node of bounds has min and max, or one of {', '.join(_INNER)}")
    inner = node[which]
    if which == "fields":
        check_bounds(inner)
    elif which != "elements":
        _check_node(inner)
    elif not isinstance(inner, list):
        raise ValueError("elements are a list of nodes")
    else:
        for each in inner:
            if each is not None:
                _check_node(each)


#: For each member of a container: how the message continues after the member's path, up to its end; its limits.
Plan: TypeAlias = Iterable[tuple[bytes, Limits]]

#: Matches a UUID as worlds have it.
_HEX32: Final = re.compile("[0-9a-f]{32}").fullmatch
#: Other spellings of one.
_WRITTEN: Final = re.compile("([0-9a-fA-F]{8})-?" + "([0-9a-fA-F]{4})-?" * 3 + "([0-9a-fA-F]{12})").fullmatch
#: Every second one of the digest's 16 numbers.
_ODD: Final = int.from_bytes(b"\0\0\xff\xff" * 8, "big")
#: The sum of consecutive 32-bit numbers is their concatenation modulo this, as long as the sum is smaller.
_LANE: Final = 2**32 - 1
_MIDDLE: Final = 524_280  # 16 * 32767.5
_SCALE: Final = 0.8660254037844386 / 65536
#: Types that noise leaves as they are.
_UNTOUCHED: Final = frozenset({str, bool, type(None)})
#: Longest name whose text is cached, and how many are; most members of a plan that is cached, and how many are.
_LONGEST_NAME: Final = 200
_NAMES: Final = 2**14
_MOST_MEMBERS: Final = 100
_PLANS: Final = 1024


def noise_of(
    world_uuid: str, observer: str, target: str, path: str, turn: int | None = None, *, value: float | None = None
) -> float:
    """Return the draw g of one number, see above: for a turn or, with the ``noise_scope`` value, for its value.

    Raises ValueError for an invalid UUID, see `Draws`, and unless exactly one of ``turn`` and ``value`` is given.
    """
    if (turn is None) is (value is None):
        raise ValueError("noise is drawn for a turn or for a value: one of them is wanted")
    return Draws(world_uuid, observer, turn).toward(target)(path, value)


class Draws:
    """The draws of one observer in one turn; if ``turn`` is None, for each number's own value.

    ``world_uuid`` are 32 hex digits; hyphens between them (RFC 9562) and capitals make no difference, and anything else
    raises ValueError.
    """

    __slots__ = ("_by_value", "_head", "_tail")

    def __init__(self, world_uuid: str, observer: str, turn: int | None) -> None:
        if not _HEX32(world_uuid):
            world_uuid = _hex32(world_uuid)
        self._head = b'["' + _inside(world_uuid) + b'","' + _inside(observer) + b'","'
        self._by_value = turn is None
        self._tail = b'",' if turn is None else b'",%d]' % turn

    def toward(self, target: str) -> Draw:
        """Return the draws of one target."""
        return Draw(self._head + _inside(target) + b'","', self._tail, by_value=self._by_value)


def _hex32(world_uuid: str) -> str:
    found = _WRITTEN(world_uuid)
    if found is None:
        raise ValueError(f"world_uuid is the UUID of a world, 32 hex digits, not {world_uuid!r}")
    return "".join(found.groups()).lower()


class Draw:
    """The draws of one target: called with a path (and the value, if it is drawn for that), it returns the draw g."""

    __slots__ = ("_by_value", "_head", "_tail")

    def __init__(self, head: bytes, tail: bytes, *, by_value: bool = False) -> None:
        self._head = head
        self._tail = tail
        self._by_value = by_value

    def __call__(self, path: str, value: float | None = None) -> float:
        """Return the draw of the number at a path within the target (JSON Pointer)."""
        end = state_text(value) + b"]" if self._by_value else b""
        bits = int.from_bytes(sha256(self._head + state_text(path)[1:-1] + self._tail + end).digest(), "big")
        return (((bits & _ODD) + (bits >> 16 & _ODD)) % _LANE - _MIDDLE) * _SCALE

    def plan(self, names: tuple[Any, ...], limits: Limits) -> Plan:
        """Return the plan of an object with members of these names."""
        if len(names) <= _MOST_MEMBERS:
            return _kept_plan(names, limits, self._tail)
        return _plan(names, limits, self._tail)

    def plan_of_items(self, limits: Limits) -> Plan:
        """Return the plan of a list or tuple, without end."""
        return ((b"/%d%b" % (index, self._tail), each) for index, each in zip(count(), limits.of_items(), strict=False))

    def several(
        self,
        noise: float,
        path: bytes,
        plan: Plan,
        values: Iterable[Any],
        other: Callable[[bytes, Any, Limits], Any],
    ) -> list[Any]:
        """Return the members of a container as they are observed, in order.

        ``path`` is the container's own, as the message has it. ``other`` returns the observation of a member that is
        not a number, from its path, the member and its limits.
        """
        begun, number_of, odd = sha256(self._head + path).copy, int.from_bytes, _ODD
        by_value = self._by_value
        seen = []
        for value, (rest, limits) in zip(values, plan, strict=False):
            kind = type(value)
            if kind is float or kind is int:
                if not value:
                    seen.append(0 if kind is int else 0.0)
                    continue
                message = begun()
                message.update(rest)
                if by_value:
                    message.update(state_text(value) + b"]")
                bits = number_of(message.digest(), "big")
                exact = value * (1.0 + noise * ((((bits & odd) + (bits >> 16 & odd)) % _LANE - _MIDDLE) * _SCALE))
                if kind is int:
                    within = limits.whole_low <= exact <= limits.whole_high
                    seen.append(round(exact) if within else limits.keep_whole(exact))
                else:
                    seen.append(exact + 0.0 if limits.low <= exact <= limits.high else limits.keep(exact))
            elif kind in _UNTOUCHED:
                seen.append(value)
            else:
                seen.append(other(path + rest.removesuffix(self._tail), value, limits))
        return seen


def _plan(names: tuple[Any, ...], limits: Limits, tail: bytes) -> list[tuple[bytes, Limits]]:
    return [(_token(name) + tail, each) for name, each in zip(names, limits.of_members(names), strict=False)]


@lru_cache(_PLANS)
def _kept_plan(names: tuple[Any, ...], limits: Limits, tail: bytes) -> Sequence[tuple[bytes, Limits]]:
    return tuple(_plan(names, limits, tail))


def _token(name: Any) -> bytes:
    """Return the token of a member in a JSON Pointer, as the message has it."""
    return b"/" + _inside(str(name).replace("~", "~0").replace("/", "~1"))


def _inside(text: str) -> bytes:
    """Return the text between the quotes of a JSON string in the profile ``state/1``."""
    return _kept_inside(text) if len(text) <= _LONGEST_NAME else state_text(text)[1:-1]


@lru_cache(_NAMES)
def _kept_inside(text: str) -> bytes:
    return state_text(text)[1:-1]
