"""The views of many agents of one world, updated effect by effect.

An agent's view is what its policy makes of the state (`ObservationPolicy.filter_world_state`). Here it is not
recomputed for every effect: the fold reports which entities an effect has touched, and only the agents that they
concern are updated. So the cost of an effect does not grow with what is out of sight, and agents that see the same
share the work.
"""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import orjson

from worldledger.canonical import MAX_INT, canonical_json
from worldledger.collapsing import replacing
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.deltas import Contents, ObservedEvent, Patch, View
from worldledger.effects import Effect, is_system_kind
from worldledger.errors import UnknownAgentError
from worldledger.folding import Fold
from worldledger.observation import TOLD_BY_PATCHES, ObservationPolicy, is_private, names_in, place_of
from worldledger.policies import policy_from_spec
from worldledger.views.stage import Stage
from worldledger.views.viewers import Sighting, Viewer

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
        touched = self.fold.apply(effect)
        stage = self._stage
        if stage is None:
            return []
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
        sightings = self._sightings(stage, effect, patches, self._events(stage, effect), digests=digests)
        if stage.failed:
            self.failed |= {viewer.agent_id: error for viewer, error in stage.failed.items()}
            stage.failed.clear()
            self._tidy(stage)
        return sightings

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
        """Return agent -> the event that it is shown of an effect: as `should_observe_event`, without asking all.

        There are none if the ruleset says so of its kind.
        """
        found: dict[Viewer, ObservedEvent] = {}
        kind = effect["kind"]
        if kind in self.fold.ruleset.unobserved:
            return found
        for viewer in tuple(stage.filtered.values()):
            self._show(stage, viewer, effect, found)
        if is_system_kind(kind) or (kind in TOLD_BY_PATCHES and not stage.rendered):
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
            self._policies[spec] = policy
        return policy

    def _tidy(self, stage: Stage) -> None:
        """Drop everything if no agent is attached."""
        if not stage.viewers:
            self._stage = None
            self._policies.clear()
