"""The scenes of a world and their viewers, updated with the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from worldledger.deltas import PARTS, Contents, Patch
from worldledger.patches import diff
from worldledger.space import FieldOfView, SpatialIndex
from worldledger.views.onlookers import Onlooker
from worldledger.views.scenes import AskedScene, NearScene, RelatedScene, Scene, Watchers
from worldledger.views.shown import Showing, Shown
from worldledger.views.world_index import NOWHERE, Moved, WorldIndex, grid_for, reach_of
from worldledger.world import Point, WorldState

# -- the audience: all scenes, and which of them an effect may concern, without asking each ------------------------


class Audience:
    """The scenes of a world, indexed by the effects that concern them.

    A scene is told of the entities that it watches. Besides, near scenes are told of what comes near them, which is
    found in grids of their positions, one for all similar distances; related scenes of their relationships; all others
    of everything.
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
        """Add a scene, which must be filled."""
        if isinstance(scene, NearScene):
            self._near[_own(scene)] = scene
            self._place(scene)
        elif isinstance(scene, RelatedScene):
            self._related[_own(scene)] = scene
        else:
            self._everyone[scene] = None

    def leave(self, scene: Scene) -> None:
        """Remove a scene."""
        if isinstance(scene, NearScene):
            del self._near[_own(scene)]
            self._displace(scene)
        elif isinstance(scene, RelatedScene):
            del self._related[_own(scene)]
        else:
            del self._everyone[scene]

    def move(self, scene: NearScene, field_of_view: FieldOfView) -> None:
        """Change the field of view of a near scene's agent."""
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
        """Return the scenes that an effect may concern, each with the touched ids that concern it, in order.

        Changes of a scene's own agent are not considered here.
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
        """Return the scenes that have an entity in sight; scenes that are told of everything may be among them."""
        yield from self.watchers.get(name, ())
        if name in self._index.unplaced:
            yield from self._near.values()
        yield from self._everyone

    def aware_at(self, point: Point, names: Iterable[str]) -> Iterator[Scene]:
        """Return the near scenes whose viewpoint is near a point, and those whose agent is related to an id."""
        yield from self._looking_at(point)
        for name in names if self._related else ():
            yield from self._related_to(name)

    def unfiltered(self) -> Iterator[Scene]:
        """Return all scenes except for those that go by relationships."""
        yield from self._near.values()
        yield from self._everyone

    def _near_to(self, name: str, moved: Moved) -> Iterator[NearScene]:
        """Return the near scenes whose sight an entity may have entered, or left without being watched."""
        point = self._index.placed.get(name)
        if point is None:
            # An entity without a position is in all of them. One that had a position before is gone from those that
            # watch it.
            if name in self._index.unplaced or moved[name] == NOWHERE:
                yield from self._near.values()
            return
        if moved[name] == NOWHERE:
            yield from self._near.values()
            return
        yield from self._looking_at(point)

    def _looking_at(self, point: Point) -> Iterator[NearScene]:
        """Return the near scenes that may have a point in sight."""
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


class Stage:
    """The viewers of a world's scenes. Agents that see everything, and see it alike, share a scene.

    A viewer whose policy raises an error is detached, and put into ``failed`` with the error.
    """

    def __init__(self, state: WorldState) -> None:
        self.onlookers: dict[str, Onlooker] = {}
        #: Subsets: viewers with recomputed views; those that have to be asked about events, or show them in their own
        #: way.
        self.wholes: dict[str, Onlooker] = {}
        self.askers: dict[str, Onlooker] = {}
        self.showers: dict[str, Onlooker] = {}
        self.failed: dict[Onlooker, Exception] = {}
        self._state = state
        self._index = WorldIndex(state)
        self._audience = Audience(self._index)
        self._members: dict[Scene, dict[str, Onlooker]] = {}
        self._shared: dict[bytes, Scene] = {}
        self._showings: dict[bytes, Showing] = {}

    def join(
        self, onlooker: Onlooker, memory: Contents | None = None, looks: Mapping[str, Shown] | None = None
    ) -> None:
        """Add a viewer; it sees what is there now, and what it remembers if its policy has no remove operations.

        ``looks`` are the present looks of entities to it, as far as they are known already. Raises the errors of its
        policy; then the viewer is not added.
        """
        if onlooker.kind == "whole":
            onlooker.see_whole(self._state, memory)
        else:
            onlooker.place = self._place_of(onlooker)
            scene = self._shared.get(onlooker.look) if onlooker.place == "shared" else None
            if scene is None:
                scene = self._open(onlooker, memory, looks)
            self._members.setdefault(scene, {})[onlooker.agent_id] = onlooker
            onlooker.scene = scene
        onlooker.forget_digest()
        self.onlookers[onlooker.agent_id] = onlooker
        for group, belongs in self._groups(onlooker):
            if belongs:
                group[onlooker.agent_id] = onlooker

    def leave(self, onlooker: Onlooker) -> Contents:
        """Remove a viewer; return the contents of its view."""
        contents = onlooker.contents()
        del self.onlookers[onlooker.agent_id]
        for group, _ in self._groups(onlooker):
            group.pop(onlooker.agent_id, None)
        scene, onlooker.scene, onlooker.view = onlooker.scene, None, None
        if scene is not None:
            del self._members[scene][onlooker.agent_id]
            if not self._members[scene]:
                del self._members[scene]
                self._audience.leave(scene)
                self._close(scene, onlooker)
        return contents

    def rejoin(self, onlooker: Onlooker, contents: Contents, memory: Contents | None) -> Patch:
        """Add a viewer again that saw these contents; return what has changed. It is detached if that fails."""
        try:
            self.join(onlooker, memory)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            self.failed[onlooker] = error
            return []
        before, after = (dict(zip(PARTS, each, strict=True)) for each in (contents, onlooker.contents()))
        return diff(before, after)

    # -- effects ----------------------------------------------------------------------------------------------

    def follow(self, touched: Sequence[str]) -> dict[Onlooker, Patch]:
        """Update to the state after an effect that touched these ids (sorted); return each viewer's changes."""
        moved, related = self._index.update(touched)
        if related:
            touched = sorted({*touched, *related})
        for showing in self._showings.values():
            showing.begin(touched)
        elsewhere, anew = self._look_for_agents(touched)
        concerned = self._audience.concerned(touched, moved)
        for scene in anew:
            concerned.setdefault(scene, [])
        patches: dict[Onlooker, Patch] = {}
        for scene, names in concerned.items():
            members = self._members[scene]
            try:
                patch = scene.update(names, related, anew=anew.get(scene, False))
            except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
                for onlooker in list(members.values()):
                    self.turn_out(onlooker, error)
                continue
            if patch:
                for onlooker in members.values():
                    patches[onlooker] = patch
        for onlooker, contents in elsewhere:
            if patch := self.rejoin(onlooker, contents, contents):
                patches[onlooker] = patch
        return patches

    def begin_anew(self) -> dict[Onlooker, Patch]:
        """Update to the state after an effect that may have touched anything."""
        left = [(one, self.leave(one)) for one in list(self.onlookers.values()) if one.kind != "whole"]
        self._index.rebuild()
        patches = {onlooker: self.rejoin(onlooker, contents, contents) for onlooker, contents in left}
        return {onlooker: patch for onlooker, patch in patches.items() if patch}

    def turn_out(self, onlooker: Onlooker, error: Exception) -> None:
        """Detach a viewer whose policy has raised an error."""
        self.leave(onlooker)
        self.failed[onlooker] = error

    def _groups(self, onlooker: Onlooker) -> Iterator[tuple[dict[str, Onlooker], bool]]:
        yield self.wholes, onlooker.kind == "whole"
        yield self.askers, onlooker.asks
        yield self.showers, onlooker.shows_events

    # -- which viewers see an entity ----------------------------------------------------------------------------

    def seeing(self, names: Iterable[str]) -> Iterator[Onlooker]:
        """Return the viewers that have one of these entities in sight, perhaps with some that have to be asked."""
        for scene in dict.fromkeys(chain.from_iterable(map(self._audience.seeing, names))):
            yield from self._members[scene].values()

    def aware_at(self, point: Point, names: Iterable[str]) -> Iterator[Onlooker]:
        """Return viewers near a point, and viewers related to one of these ids."""
        for scene in dict.fromkeys(self._audience.aware_at(point, names)):
            yield from self._members[scene].values()

    def unfiltered(self) -> Iterator[Onlooker]:
        """Return the viewers that do not go by relationships; viewers that have to be asked may be among them."""
        for scene in self._audience.unfiltered():
            yield from self._members[scene].values()

    # -- scenes -----------------------------------------------------------------------------------------------

    def _place_of(self, onlooker: Onlooker) -> str:
        """Return how it is determined what an agent sees, at its present position."""
        if onlooker.kind:
            return onlooker.kind
        name, policy = onlooker.agent_id, onlooker.policy
        if policy.field_of_view(self._state, name) is not None:
            return "near"
        # Relationships of the agent's own id are shown to the agent alone if there is no entity of that id. And
        # remembered entities depend on where each agent was before.
        alike = name in self._state.entities or not self._index.count_related(name)
        return "shared" if policy.remove_operations and alike else "alone"

    def _open(self, onlooker: Onlooker, memory: Contents | None, looks: Mapping[str, Shown] | None) -> Scene:
        """Make a scene for a viewer."""
        name, policy, index, audience = onlooker.agent_id, onlooker.policy, self._index, self._audience
        showing = self._showings.get(onlooker.look)
        if showing is None:
            showing = self._showings[onlooker.look] = Showing(policy, name if onlooker.personal else None)
        if looks is not None:
            showing.take(looks)
        scene: Scene
        if onlooker.place == "near":
            view = policy.field_of_view(self._state, name)
            assert view is not None  # noqa: S101 - for the type checker: else the place would be another
            scene = NearScene(name, policy, index, showing, audience.watchers, view)
        elif onlooker.place == "related":
            scene = RelatedScene(name, policy, index, showing, audience.watchers)
        elif onlooker.place == "asked":
            scene = AskedScene(name, policy, index, showing)
        else:
            scene = Scene(None if onlooker.place == "shared" else name, policy, index, showing)
        try:
            scene.fill()
            if memory is not None and scene.remembers:
                scene.recall(memory)
        except Exception:
            self._close(scene, onlooker)
            raise
        if onlooker.place == "shared":
            self._shared[onlooker.look] = scene
        audience.enter(scene)
        return scene

    def _close(self, scene: Scene, onlooker: Onlooker) -> None:
        scene.leave()
        if self._shared.get(onlooker.look) is scene:
            del self._shared[onlooker.look]
        if not scene.showing.scenes:
            del self._showings[onlooker.look]

    def _look_for_agents(self, touched: Iterable[str]) -> tuple[list[tuple[Onlooker, Contents]], dict[Scene, bool]]:
        """Find viewers among what was touched.

        Returns those that need another kind of scene from now on, removed from their old one; and the scenes of the
        others, with whether they have to be recomputed.
        """
        elsewhere: list[tuple[Onlooker, Contents]] = []
        anew: dict[Scene, bool] = {}
        for name in touched:
            onlooker = self.onlookers.get(name)
            if onlooker is None or onlooker.scene is None:
                continue
            scene = onlooker.scene
            if self._place_of(onlooker) != onlooker.place:
                elsewhere.append((onlooker, self.leave(onlooker)))
            elif isinstance(scene, NearScene):
                view = onlooker.policy.field_of_view(self._state, name)
                assert view is not None  # noqa: S101 - for the type checker: else the place would be another
                anew[scene] = view != scene.field_of_view
                if anew[scene]:
                    self._audience.move(scene, view)
            elif onlooker.place != "shared":
                anew[scene] = onlooker.place in {"asked", "related"}
        return elsewhere, anew
