"""The views of many agents of one world, updated effect by effect.

An agent's view is what its policy makes of the state (`ObservationPolicy.filter_world_state`). Here it is not
recomputed for every effect: the fold reports which entities an effect has touched, and only the agents that they
concern are updated. So the cost of an effect does not grow with what is out of sight, and agents that see the same
share the work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any

import orjson

from worldledger.canonical import MAX_INT, canonical_json
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.deltas import PARTS, Contents, ObservedEvent, Patch, View, replacing
from worldledger.effects import Effect, audience_of, is_system_kind
from worldledger.errors import UnknownAgentError
from worldledger.folding import Fold
from worldledger.observation import ObservationPolicy, is_private, names_in, place_of
from worldledger.patches import diff
from worldledger.policies import policy_from_spec
from worldledger.space import FieldOfView, SpatialIndex
from worldledger.views.scenes import AskedScene, NearScene, RelatedScene, Scene, Watchers
from worldledger.views.shown import Showing, Shown
from worldledger.views.viewers import Sighting, Viewer
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


__all__ = ["Sighting", "Views"]


class Views:
    """The views of the attached agents of a world, at the seq of its fold.

    The values in a view or a delta are shared: do not change them. An agent whose policy raises an error is detached,
    and is in ``failed`` with the error until it is attached again; the others continue.

    While no agent is attached, the fold may also be fed directly.
    """

    def __init__(self, fold: Fold, *, max_patch_ops: int | None = None) -> None:
        """Take over a fold; from here on `apply` advances it.

        ``max_patch_ops``: a delta whose patch has more operations replaces the whole view instead (None: no limit).
        """
        self.fold = fold
        self._most = MAX_INT if max_patch_ops is None else max_patch_ops
        self.failed: dict[str, Exception] = {}
        self._policies: dict[bytes, ObservationPolicy] = {}
        self._stage: Stage | None = None

    # -- agents -----------------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The seq of the last applied effect."""
        return self.fold.seq

    @property
    def attached(self) -> list[str]:
        """The ids of the attached agents."""
        return [] if self._stage is None else list(self._stage.viewers)

    def attach(self, agent_id: str, *, view_seq: int | None = None) -> View:
        """Start keeping an agent's view, with the policy that it is registered with; return the view.

        ``view_seq`` is the global_seq of the effect that made the view what it is now, by default the fold's. Without
        remove operations a view holds what was seen before: here it begins again, see `adopt`. The view of an attached
        agent is returned as it is. Raises UnknownAgentError for an agent that is not registered, the errors of
        `policy_from_spec` and of the policy's `check_usable`, and any error of the policy itself.
        """
        if self._stage is None or agent_id not in self._stage.viewers:
            self._attach(agent_id, self.seq if view_seq is None else view_seq, None)
        return self.view(agent_id)

    def adopt(self, agent_id: str, other: Views) -> View:
        """Start keeping an agent's view as another Views of the same world has it at the same seq; return the view.

        What an agent without remove operations has seen before is known only to a Views that has followed it since its
        first registration (``metadata.agents[agent_id].registered_seq``). Raises KeyError if the agent is not attached
        there, ValueError if the other is at another seq.
        """
        theirs = other._viewer(agent_id)
        contents = theirs.contents()
        if (other.fold.world_id, other.seq) != (self.fold.world_id, self.seq):
            raise ValueError(f"a view at seq {other.seq} cannot be taken over at seq {self.seq}")
        self.detach(agent_id)
        self._attach(agent_id, theirs.view_seq, contents, theirs)
        return self.view(agent_id)

    def inherit(self, agent_id: str, parents: Views) -> View:
        """Start keeping an agent's view in a fork, at its genesis, as the agent had it at the fork point.

        ``parents`` are the views of the parent there. Raises KeyError if the agent is not attached in them.
        """
        contents = parents._viewer(agent_id).contents()
        self.detach(agent_id)
        self._attach(agent_id, self.seq, contents)
        return self.view(agent_id)

    def detach(self, agent_id: str) -> None:
        """Stop keeping an agent's view."""
        stage = self._stage
        if stage is not None and agent_id in stage.viewers:
            stage.leave(stage.viewers[agent_id])
            self._tidy(stage)

    def view(self, agent_id: str) -> View:
        """Return an attached agent's view. Raises KeyError for an agent that is not attached."""
        viewer = self._viewer(agent_id)
        entities, relationships = viewer.contents()
        return View.model_construct(
            agent_id=agent_id,
            view_seq=viewer.view_seq,
            visible_entities=entities,
            visible_relationships=relationships,
            context_digest=viewer.digest,
        )

    def size(self, agent_id: str) -> int:
        """Return how many entities an agent sees; 0 for an agent that is not attached."""
        viewer = None if self._stage is None else self._stage.viewers.get(agent_id)
        return 0 if viewer is None else viewer.size

    def policy(self, agent_id: str) -> ObservationPolicy:
        """Return an attached agent's policy. Raises KeyError for an agent that is not attached."""
        return self._viewer(agent_id).policy

    def registered_policy(self, agent_id: str) -> ObservationPolicy:
        """Return the policy that an agent is registered with, attached or not.

        Raises UnknownAgentError for an agent that is not registered, and the errors of `policy_from_spec` and of the
        policy's `check_usable`.
        """
        return self._made(self._spec(agent_id))

    # -- effects ----------------------------------------------------------------------------------------------

    def apply(self, effect: Effect, *, digests: bool = True) -> list[Sighting]:
        """Fold the next effect; return what each attached agent observes by it, sorted by agent_id.

        An agent observes an effect that changes its view, one that its policy lets it observe and shows it, and each of
        its own. Without ``digests`` the deltas have none (an empty ``context_digest``), for a caller that hands none of
        them out: the cost of a digest grows with the view. Raises as `Fold.apply`.
        """
        patches, events = self._observe(effect)
        stage = self._stage
        if stage is None:
            return []
        sightings = self._sightings(stage, effect, patches, events, digests=digests)
        self._drop_failed(stage)
        return sightings

    def observe(self, effect: Effect) -> list[tuple[str, Patch, ObservedEvent | None]]:
        """Fold the next effect; return for each agent that observes it the changes of its view, and the event.

        It is `apply` for a caller that needs no deltas. What agents see alike is the same object.
        """
        patches, events = self._observe(effect)
        stage = self._stage
        if stage is None:
            return []
        found = [
            (viewer.agent_id, patches.get(viewer, []), events.get(viewer))
            for viewer in ({**patches, **events} if events else patches)
            if viewer.agent_id in stage.viewers  # else it was detached since
        ]
        self._drop_failed(stage)
        return found

    def _drop_failed(self, stage: Stage) -> None:
        if stage.failed:
            self.failed |= {viewer.agent_id: error for viewer, error in stage.failed.items()}
            stage.failed.clear()
            self._tidy(stage)

    def _observe(self, effect: Effect) -> tuple[dict[Viewer, Patch], dict[Viewer, ObservedEvent]]:
        """Fold the next effect; return which viewers observe it: the changes of their views, and the events."""
        touched = self.fold.apply(effect)
        stage = self._stage
        if stage is None:
            return {}, {}
        patches: dict[Viewer, Patch] = {}
        if touched is None:
            patches = stage.begin_anew()
        elif touched:
            patches = stage.follow([touched] if isinstance(touched, str) else sorted(set(touched)))
        if effect["kind"] == AGENT_REGISTERED_KIND:
            self._register_anew(stage, effect["payload"].get("agent_id"), patches)
        for viewer in tuple(stage.recomputed.values()):
            try:
                if patch := viewer.look_again(self.fold.state):
                    patches[viewer] = patch
            except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
                stage.turn_out(viewer, error)
        own = stage.viewers.get(effect["source_id"])
        if own is not None and not is_system_kind(effect["kind"]):
            patches.setdefault(own, [])  # the acting agent waits for the outcome, even an empty one
        return patches, self._events(stage, effect)

    def _sightings(
        self,
        stage: Stage,
        effect: Effect,
        patches: dict[Viewer, Patch],
        events: dict[Viewer, ObservedEvent],
        *,
        digests: bool,
    ) -> list[Sighting]:
        state = self.fold.state
        found = []
        recomputed: dict[object, Patch] = {}  # by scene: agents that share one see the same
        for viewer in {**patches, **events} if events else patches:
            if viewer.agent_id not in stage.viewers:  # detached since
                continue
            event = events.get(viewer)
            shown = [] if event is None else [event]
            patch = patches.get(viewer, [])
            if len(patch) > self._most:
                seen: object = viewer.scene or viewer
                if seen not in recomputed:
                    recomputed[seen] = replacing(*viewer.contents())
                patch = recomputed[seen]
            try:
                found.append(viewer.sighting(effect, patch, shown, state, digests=digests))
            except Exception as error:  # noqa: BLE001 - a third party's latency model may raise anything
                stage.turn_out(viewer, error)
        found.sort(key=itemgetter(0))
        return found

    def _events(self, stage: Stage, effect: Effect) -> dict[Viewer, ObservedEvent]:
        """Return agent -> the event that it is shown of an effect: as `observes`, without asking all.

        There are none if the ruleset says so of its kind.
        """
        found: dict[Viewer, ObservedEvent] = {}
        kind = effect["kind"]
        if kind in self.fold.ruleset.unobserved:
            return found
        audience = audience_of(effect)
        if audience is not None:
            for name in sorted(audience):
                if (addressed := stage.viewers.get(name)) is not None:
                    self._show(stage, addressed, effect, found)
            return found
        for viewer in tuple(stage.filtered.values()):
            self._show(stage, viewer, effect, found)
        if is_system_kind(kind) or (kind in self.fold.ruleset.told_by_patches and not stage.rendered):
            return found
        names = names_in(effect)
        state = self.fold.state
        present = [name for name in names if name in state.entities]
        place, private = place_of(effect), is_private(effect)
        # If everything that is named has a position, an agent that has some of it in sight has a place of the effect in
        # sight.
        sure = place is None and all(name in state.spatial_index for name in present)
        seeing = dict.fromkeys(stage.seeing(present) if present else stage.unfiltered())
        for viewer in tuple(seeing):
            if viewer.asks or (private and viewer.policy.rules >= 2):
                continue
            self._show(stage, viewer, effect, found, ask=not sure and viewer.goes_by_places)
        if present and place is not None and not private:
            for viewer in tuple(stage.aware_at(place, present)):
                if viewer not in seeing and viewer.goes_by_places and not viewer.asks:
                    self._show(stage, viewer, effect, found, ask=True)
        for name in names:
            named = stage.viewers.get(name)
            if named is not None and not named.asks and named.policy.is_told(effect, name):
                self._show(stage, named, effect, found)
        return found

    def _show(
        self,
        stage: Stage,
        viewer: Viewer,
        effect: Effect,
        found: dict[Viewer, ObservedEvent],
        *,
        ask: bool = False,
    ) -> None:
        try:
            if (event := viewer.event(effect, self.fold.state, ask=ask)) is not None:
                found[viewer] = event
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            stage.turn_out(viewer, error)

    # -- attaching --------------------------------------------------------------------------------------------

    def _viewer(self, agent_id: str) -> Viewer:
        if self._stage is None:
            raise KeyError(agent_id)
        return self._stage.viewers[agent_id]

    def _attach(self, agent_id: str, view_seq: int, memory: Contents | None, theirs: Viewer | None = None) -> None:
        spec = self._spec(agent_id)
        viewer = Viewer(agent_id, view_seq)
        viewer.take(spec, self._made(spec))
        stage = Stage(self.fold.state) if self._stage is None else self._stage
        # Results of another Views at this seq, by the same policy, are reused.
        scene = None if theirs is None or theirs.look != viewer.look else theirs.scene
        stage.join(viewer, memory, None if scene is None else scene.visible)
        self._stage = stage
        self.failed.pop(agent_id, None)

    def _register_anew(self, stage: Stage, agent_id: Any, patches: dict[Viewer, Patch]) -> None:
        """Switch an attached agent to the policy that it is registered with now, if it has changed."""
        viewer = stage.viewers.get(agent_id) if isinstance(agent_id, str) else None
        if viewer is None or (spec := self._spec(viewer.agent_id)) == viewer.spec:
            return
        contents = stage.leave(viewer)
        try:
            viewer.take(spec, self._made(spec))
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            stage.failed[viewer] = error
            return
        if patch := stage.rejoin(viewer, contents, None):
            patches[viewer] = patch

    def _spec(self, agent_id: str) -> bytes:
        agent = self.fold.state.metadata.get("agents", {}).get(agent_id)
        if agent is None:
            raise UnknownAgentError(agent_id, self.fold.world_id)
        return canonical_json(agent["policy"])

    def _made(self, spec: bytes) -> ObservationPolicy:
        """Return the policy of a spec, shared by all agents that have the same."""
        policy = self._policies.get(spec)
        if policy is None:
            if self._stage is not None and len(self._policies) > 2 * len(self._stage.viewers) + 16:
                self._policies = {one.spec: one.policy for one in self._stage.viewers.values()}
            policy = policy_from_spec(orjson.loads(spec), stored=True)
            policy.check_usable()
            policy.told_by_patches = self.fold.ruleset.told_by_patches
            self._policies[spec] = policy
        return policy

    def _tidy(self, stage: Stage) -> None:
        """Drop everything if no agent is attached."""
        if not stage.viewers:
            self._stage = None
            self._policies.clear()
