"""Scenes that are only told of effects that may concern them: what is in sight, and what the agent is related to."""

from __future__ import annotations

from collections.abc import Collection

from worldledger.observation import ObservationPolicy
from worldledger.space import FieldOfView
from worldledger.views.scenes import Scene
from worldledger.views.shown import Showing
from worldledger.views.world_index import WorldIndex

#: entity_id -> the scenes that watch it.
Watchers = dict[str, dict[Scene, None]]


class _WatchingScene(Scene):
    """A scene that is only told what may concern it: it says what it watches."""

    __slots__ = ("_watched", "_watchers")

    def __init__(
        self, own: str, policy: ObservationPolicy, index: WorldIndex, showing: Showing, watchers: Watchers
    ) -> None:
        super().__init__(own, policy, index, showing)
        self._watchers = watchers
        self._watched: set[str] = set()

    def leave(self) -> None:
        super().leave()
        for name in tuple(self._watched):
            self._unwatch(name)

    def _watch(self, name: str) -> None:
        self._watched.add(name)
        self._watchers.setdefault(name, {})[self] = None

    def _unwatch(self, name: str) -> None:
        self._watched.remove(name)
        scenes = self._watchers[name]
        del scenes[self]
        if not scenes:
            del self._watchers[name]


class NearScene(_WatchingScene):
    """What stands in the field of view of a position, and what has no position. It watches the former."""

    __slots__ = ("field_of_view",)

    def __init__(
        self,
        own: str,
        policy: ObservationPolicy,
        index: WorldIndex,
        showing: Showing,
        watchers: Watchers,
        field_of_view: FieldOfView,
    ) -> None:
        super().__init__(own, policy, index, showing, watchers)
        self.field_of_view = field_of_view

    def see(self, name: str) -> bool:  # noqa: D102
        point = self._index.placed.get(name)
        # An agent's own entity is where it stands, which is in sight.
        near = point is not None and self.field_of_view.holds(point)
        if near != (name in self._watched):
            (self._watch if near else self._unwatch)(name)
        return near or (point is None and name in self._index.unplaced)

    def in_sight(self) -> Collection[str]:  # noqa: D102
        self.turnover()
        return self._watched | self._index.unplaced

    def turnover(self) -> tuple[list[str], list[str]]:  # noqa: D102
        # What has no position is in sight wherever the agent goes, so only what has one is looked at.
        now = set(self._index.within_view(self.field_of_view))
        came, went = now - self._watched, self._watched - now
        for name in came:
            self._watch(name)
        for name in went:
            self._unwatch(name)
        visible, unplaced = self.visible, self._index.unplaced
        return (
            [name for name in came if name not in visible],
            [name for name in went if name in visible and name not in unplaced],
        )


class RelatedScene(_WatchingScene):
    """What the agent is related to by the types that its policy names, within its distance. It watches all of that."""

    __slots__ = ()

    def see(self, name: str) -> bool:  # noqa: D102
        seen = self.policy.sees_entity(self._index.state, self.own or "", name)
        if seen != (name in self._watched):
            (self._watch if seen else self._unwatch)(name)
        return seen

    def in_sight(self) -> Collection[str]:  # noqa: D102
        names = self._index.neighbours(self.own or "") | self._watched
        names.add(self.own or "")
        return {name: None for name in names if self.see(name)}
