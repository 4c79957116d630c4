"""How an observer sees the values of one target: which of them, and with how much noise.

Values are JSON values, or those of models made from variables: objects, dicts, lists, tuples. What a number is decides
its own type: a whole number stays one. Booleans, strings, null and the keys of objects are seen as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from pydantic import BaseModel

from worldledger.observability.bounds import FREE, Limits
from worldledger.observability.config import ObservabilityLevel
from worldledger.observability.models import values_of, with_values
from worldledger.observability.noise import Draw

#: The member of an agent's state that is no variable, and never hidden.
NAME: Final = "name"


def observe_entity(
    values: Mapping[str, Any],
    *,
    level: ObservabilityLevel,
    noise: float = 0.0,
    internal: Collection[str] = (),
    draw: Draw | None = None,
    bounds: Limits | Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the values of a target as they are observed at this level; of an unaware observer, none.

    ``internal`` has the names that an external observer is not shown. ``draw`` gives the draws of the target, see
    `worldledger.observability.noise`; it is needed where there is noise. ``bounds`` is a tree of bounds, or what
    `Limits.of_tree` made of it, which is quicker. Without noise the values are the target's own; with noise nothing is
    shared that can be changed. Raises ValueError where there is noise and no ``draw``.
    """
    if level is ObservabilityLevel.UNAWARE:
        return {}
    if level is ObservabilityLevel.EXTERNAL and internal:
        values = {name: value for name, value in values.items() if name not in internal}
    if not noise:
        return dict(values)
    if draw is None:
        raise ValueError("noise is drawn for a world: say which")
    if not isinstance(bounds, Limits):
        bounds = FREE if bounds is None else Limits.of_tree(bounds)
    return _Walk(noise, draw).members(b"", values, bounds)


class _Walk:
    """Goes through a value and gives it with noise on every number. Paths are as they stand within a message."""

    __slots__ = ("_draw", "_noise")

    def __init__(self, noise: float, draw: Draw) -> None:
        self._noise = noise
        self._draw = draw

    def members(self, path: bytes, values: Mapping[Any, Any], limits: Limits) -> dict[Any, Any]:
        names = tuple(values)
        plan = self._draw.plan(names, limits)
        return dict(zip(names, self._draw.several(self._noise, path, plan, values.values(), self._within), strict=True))

    def _within(self, path: bytes, value: Any, limits: Limits) -> Any:
        kind = type(value)
        if kind is dict:
            return self.members(path, value, limits)
        if kind is list or kind is tuple:
            plan = self._draw.plan_of_items(limits)
            items = self._draw.several(self._noise, path, plan, value, self._within)
            return items if kind is list else tuple(items)
        if isinstance(value, BaseModel):
            return with_values(value, self.members(path, values_of(value), limits))
        return value
