"""The scenes of a world and their viewers, updated with the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from worldledger.deltas import PARTS, Contents, Patch
from worldledger.patches import diff
from worldledger.space import FieldOfView, SpatialIndex
from worldledger.views.scenes import AskedScene, NearScene, RelatedScene, Scene, Watchers
from worldledger.views.shown import Showing, Shown
from worldledger.views.viewers import Viewer
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
        self.viewers: dict[str, Viewer] = {}
        #: Subsets: viewers with recomputed views; those that have to be asked about events, or show them in their own
        #: way.
        self.recomputed: dict[str, Viewer] = {}
        self.filtered: dict[str, Viewer] = {}
        self.rendered: dict[str, Viewer] = {}
        self.failed: dict[Viewer, Exception] = {}
        self._state = state
        self._index = WorldIndex(state)
        self._audience = Audience(self._index)
        self._members: dict[Scene, dict[str, Viewer]] = {}
        self._shared: dict[bytes, Scene] = {}
        self._showings: dict[bytes, Showing] = {}

    def join(self, viewer: Viewer, memory: Contents | None = None, looks: Mapping[str, Shown] | None = None) -> None:
        """Add a viewer; it sees what is there now, and what it remembers if its policy has no remove operations.

        ``looks`` are the present looks of entities to it, as far as they are known already. Raises the errors of its
        policy; then the viewer is not added.
        """
        if viewer.kind == "whole":
            viewer.see_whole(self._state, memory)
        else:
            viewer.place = self._place_of(viewer)
            scene = self._shared.get(viewer.look) if viewer.place == "shared" else None
            if scene is None:
                scene = self._open(viewer, memory, looks)
            self._members.setdefault(scene, {})[viewer.agent_id] = viewer
            viewer.scene = scene
        viewer.forget_digest()
        self.viewers[viewer.agent_id] = viewer
        for group, belongs in self._groups(viewer):
            if belongs:
                group[viewer.agent_id] = viewer

    def leave(self, viewer: Viewer) -> Contents:
        """Remove a viewer; return the contents of its view."""
        contents = viewer.contents()
        del self.viewers[viewer.agent_id]
        for group, _ in self._groups(viewer):
            group.pop(viewer.agent_id, None)
        scene, viewer.scene, viewer.view = viewer.scene, None, None
        if scene is not None:
            del self._members[scene][viewer.agent_id]
            if not self._members[scene]:
                del self._members[scene]
                self._audience.leave(scene)
                self._close(scene, viewer)
        return contents

    def rejoin(self, viewer: Viewer, contents: Contents, memory: Contents | None) -> Patch:
        """Add a viewer again that saw these contents; return what has changed. It is detached if that fails."""
        try:
            self.join(viewer, memory)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            self.failed[viewer] = error
            return []
        before, after = (dict(zip(PARTS, each, strict=True)) for each in (contents, viewer.contents()))
        return diff(before, after)

    # -- effects ----------------------------------------------------------------------------------------------

    def follow(self, touched: Sequence[str]) -> dict[Viewer, Patch]:
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
        patches: dict[Viewer, Patch] = {}
        for scene, names in concerned.items():
            members = self._members[scene]
            try:
                patch = scene.update(names, related, anew=anew.get(scene, False))
            except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
                for viewer in list(members.values()):
                    self.turn_out(viewer, error)
                continue
            if patch:
                for viewer in members.values():
                    patches[viewer] = patch
        for viewer, contents in elsewhere:
            if patch := self.rejoin(viewer, contents, contents):
                patches[viewer] = patch
        return patches

    def begin_anew(self) -> dict[Viewer, Patch]:
        """Update to the state after an effect that may have touched anything."""
        left = [(one, self.leave(one)) for one in list(self.viewers.values()) if one.kind != "whole"]
        self._index.rebuild()
        patches = {viewer: self.rejoin(viewer, contents, contents) for viewer, contents in left}
        return {viewer: patch for viewer, patch in patches.items() if patch}

    def turn_out(self, viewer: Viewer, error: Exception) -> None:
        """Detach a viewer whose policy has raised an error."""
        self.leave(viewer)
        self.failed[viewer] = error

    def _groups(self, viewer: Viewer) -> Iterator[tuple[dict[str, Viewer], bool]]:
        yield self.recomputed, viewer.kind == "whole"
        yield self.filtered, viewer.asks
        yield self.rendered, viewer.shows_events

    # -- which viewers see an entity ----------------------------------------------------------------------------

    def seeing(self, names: Iterable[str]) -> Iterator[Viewer]:
        """Return the viewers that have one of these entities in sight, perhaps with some that have to be asked."""
        for scene in dict.fromkeys(chain.from_iterable(map(self._audience.seeing, names))):
            yield from self._members[scene].values()

    def aware_at(self, point: Point, names: Iterable[str]) -> Iterator[Viewer]:
        """Return viewers near a point, and viewers related to one of these ids."""
        for scene in dict.fromkeys(self._audience.aware_at(point, names)):
            yield from self._members[scene].values()

    def unfiltered(self) -> Iterator[Viewer]:
        """Return the viewers that do not go by relationships; viewers that have to be asked may be among them."""
        for scene in self._audience.unfiltered():
            yield from self._members[scene].values()

    # -- scenes -----------------------------------------------------------------------------------------------

    def _place_of(self, viewer: Viewer) -> str:
        """Return how it is determined what an agent sees, at its present position."""
        if viewer.kind:
            return viewer.kind
        name, policy = viewer.agent_id, viewer.policy
        if policy.field_of_view(self._state, name) is not None:
            return "near"
        # Relationships of the agent's own id are shown to the agent alone if there is no entity of that id. And
        # remembered entities depend on where each agent was before.
        alike = name in self._state.entities or not self._index.count_related(name)
        return "shared" if policy.remove_operations and alike else "alone"

    def _open(self, viewer: Viewer, memory: Contents | None, looks: Mapping[str, Shown] | None) -> Scene:
        """Make a scene for a viewer."""
        name, policy, index, audience = viewer.agent_id, viewer.policy, self._index, self._audience
        showing = self._showings.get(viewer.look)
        if showing is None:
            showing = self._showings[viewer.look] = Showing(policy, name if viewer.personal else None)
        if looks is not None:
            showing.take(looks)
        scene: Scene
        if viewer.place == "near":
            view = policy.field_of_view(self._state, name)
            assert view is not None  # noqa: S101 - for the type checker: else the place would be another
            scene = NearScene(name, policy, index, showing, audience.watchers, view)
        elif viewer.place == "related":
            scene = RelatedScene(name, policy, index, showing, audience.watchers)
        elif viewer.place == "asked":
            scene = AskedScene(name, policy, index, showing)
        else:
            scene = Scene(None if viewer.place == "shared" else name, policy, index, showing)
        try:
            scene.fill()
            if memory is not None and scene.remembers:
                scene.recall(memory)
        except Exception:
            self._close(scene, viewer)
            raise
        if viewer.place == "shared":
            self._shared[viewer.look] = scene
        audience.enter(scene)
        return scene

    def _close(self, scene: Scene, viewer: Viewer) -> None:
        scene.leave()
        if self._shared.get(viewer.look) is scene:
            del self._shared[viewer.look]
        if not scene.showing.scenes:
            del self._showings[viewer.look]

    def _look_for_agents(self, touched: Iterable[str]) -> tuple[list[tuple[Viewer, Contents]], dict[Scene, bool]]:
        """Find viewers among what was touched.

        Returns those that need another kind of scene from now on, removed from their old one; and the scenes of the
        others, with whether they have to be recomputed.
        """
        elsewhere: list[tuple[Viewer, Contents]] = []
        anew: dict[Scene, bool] = {}
        for name in touched:
            viewer = self.viewers.get(name)
            if viewer is None or viewer.scene is None:
                continue
            scene = viewer.scene
            if self._place_of(viewer) != viewer.place:
                elsewhere.append((viewer, self.leave(viewer)))
            elif isinstance(scene, NearScene):
                view = viewer.policy.field_of_view(self._state, name)
                assert view is not None  # noqa: S101 - for the type checker: else the place would be another
                anew[scene] = view != scene.field_of_view
                if anew[scene]:
                    self._audience.move(scene, view)
            elif viewer.place != "shared":
                anew[scene] = viewer.place in {"asked", "related"}
        return elsewhere, anew
