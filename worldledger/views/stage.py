"""The stage: the scenes of a world and who looks at them, following the state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from worldledger.deltas import PARTS, Contents, Patch
from worldledger.patches import diff
from worldledger.views.audience import Audience
from worldledger.views.onlookers import Onlooker
from worldledger.views.scenes import AskedScene, Scene
from worldledger.views.shown import Showing, Shown
from worldledger.views.watching import NearScene, RelatedScene
from worldledger.views.world_index import WorldIndex
from worldledger.world import Point, WorldState


class Stage:
    """Onlookers in front of a world's scenes. Agents who see everything, and see it alike, share a scene.

    An onlooker whose policy raises something is turned out, and put into ``failed`` with what was raised.
    """

    def __init__(self, state: WorldState) -> None:
        self.onlookers: dict[str, Onlooker] = {}
        #: Of them: whose views are made anew each time; who has to be asked about events, or shows them in its own way.
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
        """Let an onlooker see what is there now, and what it remembers if its policy has no remove operations.

        ``looks`` are how entities look to it now, as far as that is known already. Raises whatever its policy does;
        then it is not here.
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
        """Let an onlooker go; return what it saw."""
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
        """Let an onlooker in again that saw these contents; return what has changed. It is turned out if that fails."""
        try:
            self.join(onlooker, memory)
        except Exception as error:  # noqa: BLE001 - a policy of somebody's own may raise anything
            self.failed[onlooker] = error
            return []
        before, after = (dict(zip(PARTS, each, strict=True)) for each in (contents, onlooker.contents()))
        return diff(before, after)

    # -- effects ----------------------------------------------------------------------------------------------

    def follow(self, touched: Sequence[str]) -> dict[Onlooker, Patch]:
        """Follow the state to after an effect that touched these ids (sorted); return what has changed for whom."""
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
            except Exception as error:  # noqa: BLE001 - a policy of somebody's own may raise anything
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
        """Follow the state to after an effect that may have touched anything."""
        left = [(one, self.leave(one)) for one in list(self.onlookers.values()) if one.kind != "whole"]
        self._index.rebuild()
        patches = {onlooker: self.rejoin(onlooker, contents, contents) for onlooker, contents in left}
        return {onlooker: patch for onlooker, patch in patches.items() if patch}

    def turn_out(self, onlooker: Onlooker, error: Exception) -> None:
        """Let an onlooker go whose policy has raised something."""
        self.leave(onlooker)
        self.failed[onlooker] = error

    def _groups(self, onlooker: Onlooker) -> Iterator[tuple[dict[str, Onlooker], bool]]:
        yield self.wholes, onlooker.kind == "whole"
        yield self.askers, onlooker.asks
        yield self.showers, onlooker.shows_events

    # -- who sees whom ----------------------------------------------------------------------------------------

    def seeing(self, names: Iterable[str]) -> Iterator[Onlooker]:
        """Return the onlookers that have one of these entities in sight, and maybe some that have to be asked."""
        for scene in dict.fromkeys(chain.from_iterable(map(self._audience.seeing, names))):
            yield from self._members[scene].values()

    def aware_at(self, point: Point, names: Iterable[str]) -> Iterator[Onlooker]:
        """Return onlookers who look from near a point, and those who are related to one of these ids."""
        for scene in dict.fromkeys(self._audience.aware_at(point, names)):
            yield from self._members[scene].values()

    def unfiltered(self) -> Iterator[Onlooker]:
        """Return the onlookers that do not go by relationships, and maybe some that have to be asked."""
        for scene in self._audience.unfiltered():
            yield from self._members[scene].values()

    # -- scenes -----------------------------------------------------------------------------------------------

    def _place_of(self, onlooker: Onlooker) -> str:
        """Tell how it is found out what an agent sees, where it is now."""
        if onlooker.kind:
            return onlooker.kind
        name, policy = onlooker.agent_id, onlooker.policy
        if policy.field_of_view(self._state, name) is not None:
            return "near"
        # Relationships of the agent's own id are shown to the agent alone if there is no entity of that id. And what
        # is remembered depends on where each one was before.
        alike = name in self._state.entities or not self._index.count_related(name)
        return "shared" if policy.remove_operations and alike else "alone"

    def _open(self, onlooker: Onlooker, memory: Contents | None, looks: Mapping[str, Shown] | None) -> Scene:
        """Make a scene for an onlooker."""
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
        """Look for onlookers among what was touched.

        Give those that need another kind of scene from now on, out of their old one; and the scenes of the others, with
        whether they have to be looked at anew.
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
