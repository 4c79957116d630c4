"""Indexes of a WorldState: entities by place and by relationship, without visiting everything."""

from __future__ import annotations

from collections.abc import Iterable
from math import frexp, inf, ldexp
from typing import Final

from worldledger.space import FieldOfView, SpatialIndex
from worldledger.world import Point, WorldState

#: Entities that came, went or moved: entity_id -> its position before, NOWHERE if it had none, None if it was not
#: there.
Moved = dict[str, tuple[float, ...] | None]
NOWHERE: Final[tuple[float, ...]] = ()

#: Most grids of different radii that are kept at the same time.
_MOST_GRIDS: Final = 8
#: Limit of the size of cells, upwards and downwards: 2**500 units.
_LARGEST: Final = 500


def reach_of(radius: float) -> float:
    """Return the least power of two that is at least ``radius``: similar radii share a grid. It may be infinite."""
    fraction, exponent = frexp(radius)
    if fraction == 0.5:
        exponent -= 1
    if radius == inf or exponent > _LARGEST:
        return inf
    return ldexp(1.0, max(exponent, -_LARGEST)) if radius else 1.0


def grid_for(reach: float) -> SpatialIndex:
    """Return an empty grid for a radius that `reach_of` returned."""
    return SpatialIndex(min(reach, ldexp(1.0, _LARGEST)))


class WorldIndex:
    """Indexes beside a state to find entities by place and by relationship.

    It is updated with what was touched. ``placed`` (entity_id -> its position), ``unplaced`` (the ids of entities
    without one) and ``incoming`` (entity_id -> the ids that are related to it) are read-only.
    """

    __slots__ = ("_grids", "_outgoing", "incoming", "placed", "state", "unplaced")

    def __init__(self, state: WorldState) -> None:
        self.state = state
        self.rebuild()

    def rebuild(self) -> None:
        """Index the whole state again. The cost grows with the world."""
        state = self.state
        index = state.spatial_index
        self.placed: dict[str, Point] = {}
        self.unplaced: set[str] = set()
        self.incoming: dict[str, set[str]] = {}
        self._outgoing: dict[str, list[str]] = {}
        self._grids: dict[float, SpatialIndex] = {}
        for entity_id in state.entities:
            point = index.get(entity_id)
            if point is None:
                self.unplaced.add(entity_id)
            else:
                self.placed[entity_id] = point  # type: ignore[assignment]  # three floats, as WorldState says
        for name, ends in state.relationships.items():
            self._outgoing[name] = ends.copy()
            for end in ends:
                self.incoming.setdefault(end, set()).add(name)

    def update(self, touched: Iterable[str]) -> tuple[Moved, set[str]]:
        """Update to the state after an effect that changed at most these entities.

        Returns those that came, went or moved, and the ids whose relationships have changed, from or to them.
        """
        state = self.state
        entities, index, relationships = state.entities, state.spatial_index, state.relationships
        moved: Moved = {}
        related: set[str] = set()
        for entity_id in touched:
            before: tuple[float, ...] | None = self.placed.get(entity_id)
            if before is None and entity_id in self.unplaced:
                before = NOWHERE
            now = index.get(entity_id, NOWHERE) if entity_id in entities else None
            if now != before:
                moved[entity_id] = before
                self._move(entity_id, before, now)
            if relationships.get(entity_id) != self._outgoing.get(entity_id):
                related.add(entity_id)
                related |= self._relate(entity_id)
        return moved, related

    def within_view(self, view: FieldOfView) -> list[str]:
        """Return the ids of the placed entities in a field of view, in no particular order."""
        return self._grid(reach_of(view.limit)).within_view(view)

    def neighbours(self, name: str) -> set[str]:
        """Return the ids related to this one, in either direction."""
        found = set(self.incoming.get(name, ()))
        found.update(self._outgoing.get(name, ()))
        return found

    def are_related(self, one: str, other: str) -> bool:
        """Return whether there is a relationship between two ids, in either direction."""
        return one in self.incoming.get(other, ()) or other in self.incoming.get(one, ())

    def count_related(self, name: str) -> int:
        """Return the number of relationships from and to this id."""
        return len(self._outgoing.get(name, ())) + len(self.incoming.get(name, ()))

    def _move(self, entity_id: str, before: tuple[float, ...] | None, now: tuple[float, ...] | None) -> None:
        if before:
            del self.placed[entity_id]
        elif before is not None:
            self.unplaced.remove(entity_id)
        if now:
            x, y, z = now
            self.placed[entity_id] = point = (x, y, z)
            for grid in self._grids.values():
                grid.put(entity_id, point)
            return
        if now is not None:
            self.unplaced.add(entity_id)
        if before:
            for grid in self._grids.values():
                grid.remove(entity_id)

    def _relate(self, name: str) -> set[str]:
        """Take over the relationships from an id; return those that it gained or lost."""
        before = set(self._outgoing.pop(name, ()))
        ends = self.state.relationships.get(name)
        if ends is not None:
            self._outgoing[name] = ends.copy()
        changed = before.symmetric_difference(ends or ())
        for end in changed:
            names = self.incoming.setdefault(end, set())
            if end in before:
                names.discard(name)
            else:
                names.add(name)
            if not names:
                del self.incoming[end]
        return changed

    def _grid(self, reach: float) -> SpatialIndex:
        grid = self._grids.get(reach)
        if grid is not None:
            return grid
        if len(self._grids) >= _MOST_GRIDS:  # any grid knows the answer, a fitting one finds it faster
            return self._grids[min(self._grids, key=lambda its: abs(frexp(its)[1] - frexp(reach)[1]))]
        grid = self._grids[reach] = grid_for(reach)
        for entity_id, point in self.placed.items():
            grid.put(entity_id, point)
        return grid
