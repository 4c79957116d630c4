"""The audience of a world: all scenes, and which of them an effect may concern, without asking each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from worldledger.space import FieldOfView, SpatialIndex
from worldledger.views.scenes import Scene
from worldledger.views.watching import NearScene, RelatedScene, Watchers
from worldledger.views.world_index import NOWHERE, Moved, WorldIndex, grid_for, reach_of
from worldledger.world import Point


class Audience:
    """The scenes of a world, by what has to be told them.

    Whoever watches an entity is told of it. Besides: near scenes of what comes near them, which is found in grids of
    their positions, one for all similar distances; related scenes of their relationships; all others of everything.
    """

    __slots__ = ("_everyone", "_index", "_near", "_reach", "_related", "watchers")

    def __init__(self, index: WorldIndex) -> None:
        self._index = index
        self.watchers: Watchers = {}
        self._everyone: dict[Scene, None] = {}
        self._near: dict[str, NearScene] = {}
        self._reach: dict[float, SpatialIndex] = {}
        self._related: dict[str, RelatedScene] = {}

    def enter(self, scene: Scene) -> None:
        """Let a scene, which is filled, be told from here on."""
        if isinstance(scene, NearScene):
            self._near[_own(scene)] = scene
            self._place(scene)
        elif isinstance(scene, RelatedScene):
            self._related[_own(scene)] = scene
        else:
            self._everyone[scene] = None

    def leave(self, scene: Scene) -> None:
        """Let a scene be told no more."""
        if isinstance(scene, NearScene):
            del self._near[_own(scene)]
            self._displace(scene)
        elif isinstance(scene, RelatedScene):
            del self._related[_own(scene)]
        else:
            del self._everyone[scene]

    def move(self, scene: NearScene, field_of_view: FieldOfView) -> None:
        """Let the agent of a near scene look from somewhere else, or otherwise."""
        self._displace(scene)
        scene.field_of_view = field_of_view
        self._place(scene)

    def _place(self, scene: NearScene) -> None:
        reach = reach_of(scene.field_of_view.limit)
        if reach not in self._reach:
            self._reach[reach] = grid_for(reach)
        self._reach[reach].put(_own(scene), scene.field_of_view.position)

    def _displace(self, scene: NearScene) -> None:
        reach = reach_of(scene.field_of_view.limit)
        self._reach[reach].remove(_own(scene))
        if not self._reach[reach]:
            del self._reach[reach]

    def concerned(self, touched: Iterable[str], moved: Moved) -> dict[Scene, list[str]]:
        """Return the scenes that an effect may concern, each with the touched ids that are its concern, in order.

        What has become of a scene's own agent is not asked here.
        """
        index = self._index
        found: dict[Scene, list[str]] = {}
        for name in touched:
            scenes = dict(self.watchers.get(name, ()))
            if self._near and (name in moved or name in index.unplaced):
                scenes |= dict.fromkeys(self._near_to(name, moved))
            if self._related:
                scenes |= dict.fromkeys(self._related_to(name))
            for scene in (*scenes, *self._everyone):
                names = found.get(scene)
                if names is None:
                    found[scene] = [name]
                else:
                    names.append(name)
        return found

    def seeing(self, name: str) -> Iterator[Scene]:
        """Return the scenes that have an entity of the world in sight, and maybe those that are told of everything."""
        yield from self.watchers.get(name, ())
        if name in self._index.unplaced:
            yield from self._near.values()
        yield from self._everyone

    def aware_at(self, point: Point, names: Iterable[str]) -> Iterator[Scene]:
        """Return the near scenes that look from near a point, and the related ones whose agent is related to an id."""
        yield from self._looking_at(point)
        for name in names if self._related else ():
            yield from self._related_to(name)

    def unfiltered(self) -> Iterator[Scene]:
        """Return all scenes but those that go by relationships."""
        yield from self._near.values()
        yield from self._everyone

    def _near_to(self, name: str, moved: Moved) -> Iterator[NearScene]:
        """Return the near scenes that an entity may have come into, or gone from without being watched."""
        point = self._index.placed.get(name)
        if point is None:
            # What has no position is in all of them. One that had a position before is gone from those that watch it.
            if name in self._index.unplaced or moved[name] == NOWHERE:
                yield from self._near.values()
            return
        if moved[name] == NOWHERE:
            yield from self._near.values()
            return
        yield from self._looking_at(point)

    def _looking_at(self, point: Point) -> Iterator[NearScene]:
        """Return the near scenes that a point may be in sight of."""
        for reach, grid in self._reach.items():
            for own in grid.within(point, reach):
                yield self._near[own]

    def _related_to(self, name: str) -> Iterator[RelatedScene]:
        """Return the related scenes whose agent is related to an id."""
        scenes, index = self._related, self._index
        if index.count_related(name) < len(scenes):
            names: Iterable[str] = index.neighbours(name)
        else:
            names = (own for own in scenes if index.are_related(own, name))
        for own in names:
            if own in scenes:
                yield scenes[own]


def _own(scene: Scene) -> str:
    if scene.own is None:
        raise ValueError("a scene that several agents share is near nobody")
    return scene.own
