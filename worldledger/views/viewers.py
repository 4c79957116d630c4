"""The agents whose views are kept, and what each needs for its deltas."""

from __future__ import annotations

from typing import Final, NamedTuple

import orjson

from worldledger.canonical import canonical_json
from worldledger.deltas import (
    DELTA_VERSION,
    PARTS,
    Contents,
    ObservationDelta,
    ObservedEvent,
    Patch,
    View,
    apply_delta,
    merge_last_seen,
)
from worldledger.effects import Effect
from worldledger.latency import NoLatency, bounded
from worldledger.observation import ObservationPolicy, observes
from worldledger.views.scenes import Scene, head_of
from worldledger.world import WorldState, state_text

_HOOKS: Final = (
    "calculate_observation_delta",
    "filter_world_state",
    "has_place",
    "is_aware_of",
    "is_out_of_sight",
    "is_told",
    "sees_entity",
    "should_observe_event",
    "show_entity",
    "show_entity_to",
    "show_event",
    "show_event_to",
)
#: The methods that decide which events are observed.
_OF_EVENTS: Final = frozenset({"has_place", "is_aware_of", "is_out_of_sight", "is_told", "should_observe_event"})
#: The methods by which a policy shows the same differently to each agent.
_PERSONAL: Final = frozenset({"show_entity_to", "show_event_to"})


class Sighting(NamedTuple):
    """What an agent observes by an effect, and how many seconds later, by the agent's latency model."""

    agent_id: str
    delta: ObservationDelta
    delay: float


class Viewer:
    """An agent whose view is kept: it sees a `Scene`, or (kind "whole") its policy recomputes the view each time.

    - ``kind``: how it is determined what the agent sees, as far as its policy alone decides that: "whole", "asked",
      "related", or "" if it depends on the agent's position. ``place`` is the present answer.
    - ``asks``: whether the policy itself has to be asked which events are observed.
    - ``look``: agents with the same look are shown the same of what they see. It is ``personal`` if no other agent can
      have it, because the policy shows things differently to each agent.
    """

    __slots__ = (
        "_digest", "_head", "_instant", "agent_id", "asks", "kind", "look", "personal", "place", "policy", "scene",
        "shows_events", "spec", "view", "view_seq",
    )  # fmt: skip

    def __init__(self, agent_id: str, view_seq: int) -> None:
        self.agent_id = agent_id
        self.view_seq = view_seq
        self._digest: str | None = None
        self.place = ""
        self.scene: Scene | None = None
        self.view: View | None = None
        self._head = head_of(agent_id)

    def take(self, spec: bytes, policy: ObservationPolicy) -> None:
        """Set the policy, made from this spec."""
        cls = type(policy)
        own = {name for name in _HOOKS if getattr(cls, name) is not getattr(ObservationPolicy, name)}
        self.spec = spec
        self.policy = policy
        self.kind = ""
        if own & {"calculate_observation_delta", "filter_world_state"}:
            self.kind = "whole"
        elif "sees_entity" in own:
            self.kind = "asked"
        elif policy.relationship_filter:
            self.kind = "related"
        self.asks = self.kind in {"whole", "asked"} or not own.isdisjoint(_OF_EVENTS)
        self.shows_events = not own.isdisjoint({"show_event", "show_event_to"})
        self.personal = not own.isdisjoint(_PERSONAL)
        if self.personal:
            self.look = spec + state_text(self.agent_id)
        else:
            self.look = spec if own & {"show_entity", "show_event"} else canonical_json(policy.field_visibility)
        self._instant = type(policy.latency_model) is NoLatency

    def contents(self) -> Contents:
        """Return the contents of the view."""
        if self.scene is not None:
            return self.scene.contents()
        assert self.view is not None  # noqa: S101 - for the type checker: an viewer has the one or the other
        return self.view.visible_entities, self.view.visible_relationships

    @property
    def size(self) -> int:
        """How many entities the view shows."""
        if self.scene is not None:
            return len(self.scene.entries)
        return 0 if self.view is None else len(self.view.visible_entities)

    def see_whole(self, state: WorldState, contents: Contents | None) -> None:
        """Begin with the policy's view of the state, or continue from the contents that were seen until now."""
        if contents is None:
            self.view = self._look(state)
        else:
            self.view = View.of(self.agent_id, state.metadata["last_effect_seq"], *contents)

    def _look(self, state: WorldState) -> View:
        """Return the view that the policy itself makes of the state; it shares nothing with the state."""
        seen = self.policy.filter_world_state(state, self.agent_id)
        # A third party's policy may show the state's own objects, which will change.
        entities, relationships = orjson.loads(orjson.dumps([getattr(seen, part) for part in PARTS]))
        return View.of(self.agent_id, state.metadata["last_effect_seq"], entities, relationships)

    def look_again(self, state: WorldState) -> Patch:
        """Recompute the view; return what has changed."""
        old = self.view
        assert old is not None  # noqa: S101 - for the type checker: the view was made before
        new = self._look(state)
        delta = self.policy.calculate_observation_delta(old, new)
        if delta["patches"]:
            self.view = new if self.policy.remove_operations else merge_last_seen(old, new)
            if self.view.context_digest != delta["context_digest"]:  # the policy's delta does not lead to the view
                self.view = apply_delta(old, delta)
        return delta["patches"]

    @property
    def goes_by_places(self) -> bool:
        """Return whether events that the agent would observe otherwise may be out of its sight."""
        return self.policy.rules >= 2 and self.place in {"near", "related"}

    def event(self, effect: Effect, state: WorldState, *, ask: bool = False) -> ObservedEvent | None:
        """Return the effect as the agent is shown it, None if it is not; the policy is asked only if necessary."""
        if (ask or self.asks) and not observes(self.policy, effect, self.agent_id, state):
            return None
        if self.scene is None:
            return self.policy.show_event_to(effect, self.agent_id, state)
        return self.scene.showing.event(effect, state)

    def sighting(
        self, effect: Effect, patch: Patch, events: list[ObservedEvent], state: WorldState, *, digests: bool
    ) -> Sighting:
        """Return what the agent observes by an effect, given the updated view; see `Views.apply`."""
        self.view_seq = seq = effect["global_seq"]
        if patch:
            self.forget_digest()
        delta = ObservationDelta(
            view_seq=seq,
            patches=patch,
            context_digest=self.digest if digests else "",
            schema_version=DELTA_VERSION,
            events=events,
        )
        if self._instant:
            return Sighting(self.agent_id, delta, 0.0)
        delay = self.policy.latency_model.delay(effect["source_id"], self.agent_id, effect, state)
        return Sighting(self.agent_id, delta, bounded(delay))

    @property
    def digest(self) -> str:
        """The digest of the present view, computed on demand: the cost grows with the view."""
        if self._digest is None:
            if self.scene is not None:
                self._digest = self.scene.digest(self._head)
            else:
                assert self.view is not None  # noqa: S101 - for the type checker, as above
                self._digest = self.view.context_digest
        return self._digest

    def forget_digest(self) -> None:
        """Note that the view has changed."""
        self._digest = None
