"""Space: the positions of entities, and which are in reach.

Source: docs/reference/contracts.md, "Space".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import atan2, dist, floor, hypot, inf, isfinite, radians
from typing import Any, Final, NamedTuple

from worldledger.world import Point


@dataclass(frozen=True)
class SpatialEntity:
    """An entity in space: position (x, y, z), bounds (width, height, depth), how far it sees. All in units."""

    entity_id: str
    position: Point
    bounds: Point
    visibility_range: float


@dataclass(frozen=True)
class Relationship:
    """A relationship, one way."""

    from_entity: str
    to_entity: str
    relationship_type: str
    strength: float
    metadata: dict[str, Any] = field(default_factory=dict)


#: Coordinates of a cell; ints, which do not overflow.
_Key = tuple[int, int, int]

#: The error of a float after a few steps, relative and rounded up.
_ROUNDING: Final = 4e-15
#: Beyond every cell: a float divided by a small cell's size may be infinite.
_BEYOND: Final = 10**400
#: The error of an angle, in radians: 0.00000006 degrees.
_ANGLE_ROUNDING: Final = 1e-9


class FieldOfView(NamedTuple):
    """What is in sight of a point: at most ``limit`` away and, with a ``direction``, within a cone.

    ``direction`` has length 1 and ``half_angle`` is in radians, as `cone_of` gives them.
    """

    position: Point
    limit: float
    direction: Point | None = None
    half_angle: float = 0.0

    def holds(self, point: Point) -> bool:
        """Return whether a point is in sight. Borders are included."""
        return dist(self.position, point) <= self.limit and self.is_ahead(point)

    def is_ahead(self, point: Point) -> bool:
        """Return whether a point is within the cone, at any distance."""
        return self.direction is None or _is_ahead(self.position, point, self.direction, self.half_angle)


def cone_of(direction: Sequence[float], angle: float) -> tuple[Point, float]:
    """Return a cone's direction, of length 1, and half its opening in radians, with some room for rounding.

    ``angle`` is the full opening in degrees. Raises ValueError for a direction of length 0, or an angle that is not
    from 0 to 360.
    """
    ahead = _point(direction)
    if not 0 <= angle <= 360:
        raise ValueError(f"an angle is a number of degrees from 0 to 360, not {angle!r}")
    return _unit(ahead), radians(angle) / 2 + _ANGLE_ROUNDING


class SpatialIndex:
    """Points by id, in a uniform grid of cubes.

    A query visits the cells that its sphere may touch, so its cost does not grow with the entities elsewhere. It is
    fastest if the usual radius is about ``cell_size``; for a radius that covers more cells than are occupied it visits
    the occupied ones instead. Positions are (x, y) or (x, y, z) in units of the world; a missing z is 0.0.
    """

    __slots__ = ("_cells", "_high", "_low", "_places", "_size", "cell_size")

    def __init__(self, cell_size: float = 16.0) -> None:
        """Begin empty. Raises ValueError unless ``cell_size`` is a finite number over 0."""
        if not 0 < cell_size < inf:
            raise ValueError(f"a cell's size is a finite number over 0, not {cell_size!r}")
        self.cell_size = self._size = float(cell_size)
        self._cells: dict[_Key, dict[str, Point]] = {}
        self._places: dict[str, tuple[Point, _Key]] = {}
        #: The corners of a box that contains every cell that was ever occupied.
        self._low: _Key = (_BEYOND, _BEYOND, _BEYOND)
        self._high: _Key = (-_BEYOND, -_BEYOND, -_BEYOND)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, entity_id: object) -> bool:
        return entity_id in self._places

    def position(self, entity_id: str) -> Point | None:
        """Return an entity's position; None if it is not in the index."""
        place = self._places.get(entity_id)
        return None if place is None else place[0]

    def insert(self, entity_id: str, position: Sequence[float]) -> None:
        """Put an entity into the index, replacing one of the same id. Raises ValueError for an invalid point."""
        self.put(entity_id, _point(position))

    def move(self, entity_id: str, position: Sequence[float]) -> None:
        """Move an entity. Raises KeyError if it is not in the index, ValueError for an invalid point."""
        if entity_id not in self._places:
            raise KeyError(entity_id)
        self.put(entity_id, _point(position))

    def remove(self, entity_id: str) -> None:
        """Remove an entity. Raises KeyError if it is not in the index."""
        _, key = self._places.pop(entity_id)
        cell = self._cells[key]
        del cell[entity_id]
        if not cell:
            del self._cells[key]

    def put(self, entity_id: str, point: Point) -> None:
        """Insert or move an entity with a position of three finite floats, which is not checked."""
        size = self._size
        x, y, z = point
        try:
            key = (floor(x / size), floor(y / size), floor(z / size))
        except OverflowError:
            key = (_floor(x / size), _floor(y / size), _floor(z / size))
        place = self._places.get(entity_id)
        if place is not None and place[1] != key:
            self.remove(entity_id)
        self._places[entity_id] = (point, key)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = {}
            self._widen(key)
        cell[entity_id] = point

    # -- queries ----------------------------------------------------------------------------------------------

    def entities_within_range(self, center: Sequence[float], radius: float) -> list[str]:
        """Return the ids of the entities at most ``radius`` away, sorted. A negative radius holds none."""
        return sorted(self.within(_point(center), radius))

    def entities_in_view_cone(
        self,
        observer: Sequence[float],
        direction: Sequence[float],
        angle: float,
        range: float,  # noqa: A002 - the documented name
    ) -> list[str]:
        """Return the ids of the entities in a cone, sorted.

        The cone opens from ``observer`` along ``direction`` (of any length over 0). ``angle`` is its full opening in
        degrees: 90 sees 45 to each side, 360 all around. ``range`` is how far it reaches. Borders are included; so are
        entities at the observer's own position. Raises ValueError for a direction of length 0, or an angle that is not
        from 0 to 360.
        """
        return sorted(self.within_view(FieldOfView(_point(observer), range, *cone_of(direction, angle))))

    def within_view(self, view: FieldOfView) -> list[str]:
        """Return the ids of the entities in a field of view, in no particular order."""
        near = self.within(view.position, view.limit)
        if view.direction is None:
            return near
        return [entity_id for entity_id in near if view.is_ahead(self._places[entity_id][0])]

    def within(self, center: Point, radius: float) -> list[str]:
        """Return the same as `entities_within_range` for three floats, in no particular order; faster."""
        return [
            entity_id
            for cell in self._around(center, radius)
            for entity_id, point in cell.items()
            if dist(center, point) <= radius
        ]

    def _around(self, center: Point, radius: float) -> Iterable[dict[str, Point]]:
        """Return the cells that may contain points of a sphere, and possibly some more."""
        size, cells = self._size, self._cells
        spans = []
        count = 1
        for at, low, high in zip(center, self._low, self._high, strict=True):
            reach = radius + (abs(at) + radius) * _ROUNDING
            first, last = _floor((at - reach) / size), _floor((at + reach) / size)
            first, last = max(first, low), min(last, high)
            if first > last:
                return ()
            spans.append(range(first, last + 1))
            count *= last - first + 1
        if count > len(cells):
            return [cell for (x, y, z), cell in cells.items() if x in spans[0] and y in spans[1] and z in spans[2]]
        return [cell for key in product(spans[0], spans[1], spans[2]) if (cell := cells.get(key))]

    def _widen(self, key: _Key) -> None:
        (x, y, z), (a, b, c), (d, e, f) = key, self._low, self._high
        self._low = (min(x, a), min(y, b), min(z, c))
        self._high = (max(x, d), max(y, e), max(z, f))


def _floor(value: float) -> int:
    """Round down; an infinite value is beyond every cell. Raises ValueError for NaN."""
    try:
        return floor(value)
    except OverflowError:
        return _BEYOND if value > 0 else -_BEYOND


def _point(value: Sequence[Any]) -> Point:
    """Read (x, y) or (x, y, z)."""
    if len(value) == 2:
        value = (*value, 0.0)
    if len(value) != 3 or not all(isinstance(number, int | float) and isfinite(number) for number in value):
        raise ValueError(f"a point is 2 or 3 finite numbers, not {value!r}")
    return float(value[0]), float(value[1]), float(value[2])


def _is_ahead(here: Point, there: Point, ahead: Point, most: float) -> bool:
    """Return whether the way to a point is at most this angle off a direction; True for the same point."""
    away = (there[0] - here[0], there[1] - here[1], there[2] - here[2])
    return not any(away) or _between(_unit(away), ahead) <= most


def _unit(vector: Point) -> Point:
    """Return the vector's direction, of length 1, whatever its own length."""
    most = max(map(abs, vector))
    if most == inf:  # the difference of two far points
        vector = (_clamp(vector[0]), _clamp(vector[1]), _clamp(vector[2]))
        most = max(map(abs, vector))
    if not most:
        raise ValueError("a direction leads somewhere: not all of its numbers are 0")
    x, y, z = vector[0] / most, vector[1] / most, vector[2] / most
    length = hypot(x, y, z)
    return x / length, y / length, z / length


def _clamp(number: float) -> float:
    return max(-1.7e308, min(1.7e308, number))


def _between(one: Point, other: Point) -> float:
    """Return the angle between two directions, in radians."""
    # The arc cosine would be inaccurate near 0 and 180 degrees.
    (a, b, c), (x, y, z) = one, other
    return atan2(hypot(b * z - c * y, c * x - a * z, a * y - b * x), a * x + b * y + c * z)
