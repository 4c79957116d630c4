"""The bounds of variables: as a JSON tree, and in a form that clamps numbers quickly.

A tree is an object: variable -> node. A node is ``{"min", "max"}`` for a number, or one of
``{"fields": {name: node}}``, ``{"values": node}``, ``{"items": node}``, ``{"elements": [node or null, …]}`` for the
parts of an object with a schema, a dict, a list, a tuple. What has no bounds has no node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from math import ceil, floor
from typing import TYPE_CHECKING, Any, Final

from worldledger.canonical import MAX_INT

if TYPE_CHECKING:
    from worldledger.variables import VariableDefinition

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
