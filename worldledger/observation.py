"""What an agent sees: the policy that decides, and what a policy is asked.

Source: seeds/simulation_core.md, "Observation Policy Interface". A policy looks at the
WorldState alone, so what an agent could see at any moment can be worked out again from the log.

This file says what is seen, the plain way. `worldledger.views` keeps the views of many agents up to date by looking
at what an effect has changed, and must come to the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import dist, inf
from typing import Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator

from worldledger.deltas import DELTA_VERSION, PARTS, ObservationDelta, ObservedEvent, View, apply_delta, remembering
from worldledger.effects import Effect, is_system_kind
from worldledger.latency import DistanceLatency, FixedLatency, LatencyModel, NoLatency
from worldledger.patches import diff
from worldledger.world import WorldState

__all__ = [
    "DistanceLatency",
    "FixedLatency",
    "LatencyModel",
    "NoLatency",
    "ObservationDelta",
    "ObservationPolicy",
    "ObservedEvent",
    "PolicyConfig",
    "View",
    "apply_delta",
    "names_in",
    "remembering",
]

#: The kinds whose whole meaning is a change of the state: the patches tell it, so they are no events besides.
TOLD_BY_PATCHES: Final = frozenset(
    {"EntityCreated", "EntityUpdated", "EntityRemoved", "Move", "RelationshipSet", "RelationshipRemoved"}
)
#: Where a payload names entities.
_NAMING: Final = ("agent_id", "entity_id", "target_id", "from_entity", "to_entity")


def names_in(effect: Effect) -> list[str]:
    """Give the ids that an effect names: its source, and those in the usual places of its payload."""
    payload = effect["payload"]
    return [effect["source_id"], *(name for key in _NAMING if isinstance(name := payload.get(key), str))]


class PolicyConfig(BaseModel):
    """What an ObservationPolicy goes by (seed); a policy of your own may take a subclass with more fields.

    - ``distance_limit``: how far an agent sees, in units of the world, the limit included. It applies between two
      positions: what has none is seen from everywhere, and an agent without one sees everything. Infinite (in JSON:
      null) for no limit.
    - ``relationship_filter``: relationship types. If there are any, only entities are seen that the agent is related
      to by one of them, whichever way, and of relationships only those of such a type.
    - ``field_visibility``: top-level field of an entity, or of an event's payload -> whether it is shown. ``*`` stands
      for the fields that are not named, which are shown otherwise.
    - ``latency_model``: how long it takes until the agent sees what happened.
    - ``remove_operations``: if false, what goes out of sight stays in the view as last seen.

    An agent always sees the entity of its own id, less hidden fields.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True)

    distance_limit: float = Field(default=inf, ge=0)
    relationship_filter: list[str] = Field(default_factory=list)
    field_visibility: dict[str, bool] = Field(default_factory=dict)
    latency_model: LatencyModel = Field(default_factory=NoLatency)
    remove_operations: bool = True

    @field_validator("distance_limit", mode="before")
    @classmethod
    def _null_is_no_limit(cls, value: Any) -> Any:
        return inf if value is None else value

    @field_validator("distance_limit")
    @classmethod
    def _no_minus_zero(cls, value: float) -> float:
        return value + 0.0


class ObservationPolicy:
    """Decides what an agent sees (seed); override the smallest method that says what you mean.

    - `show_entity`, `show_event`: what is shown of what is seen. Cheap.
    - `show_entity_to`, `show_event_to`: the same, where it differs from agent to agent. Such agents share no work.
      The former may look at the entity itself; at other things in the state only if an effect that changes them touches
      the entities that look different then (`worldledger.rulesets.base.Touched`).
    - `sees_entity`: whether an entity is seen. It may look at the agent's and the entity's own data and at the
      relationships between both; it is asked again about what an effect has touched, and about everything when the
      agent's own entity was touched.
    - `should_observe_event`: whether an event is observed. It is asked for every effect.
    - `filter_world_state`, `calculate_observation_delta`: anything else. Then the whole view is made anew for every
      effect, so this is for small worlds. The two have to agree with each other, not with the other methods.

    A policy keeps nothing from one call to the next: it may be shared by many agents, and is made anew from its
    registered name, version and config wherever a process needs it (`worldledger.policies`).
    """

    #: What `config` is an instance of.
    config_class: ClassVar[type[PolicyConfig]] = PolicyConfig

    def __init__(self, config: PolicyConfig | None = None) -> None:
        """Take the configuration, or the usual one of the policy's ``config_class``."""
        self.config = config = self.config_class() if config is None else config
        self.distance_limit: float = config.distance_limit
        self.relationship_filter: list[str] = config.relationship_filter
        self.field_visibility: dict[str, bool] = config.field_visibility
        self.latency_model: LatencyModel = config.latency_model
        self.remove_operations: bool = config.remove_operations

    # -- how it is used in a world ----------------------------------------------------------------------------

    def for_world(self, world_uuid: str) -> ObservationPolicy:
        """Give the policy that is registered in the world of this uuid (32 hex digits) instead; usually itself."""
        return self

    def check_usable(self) -> None:
        """Raise InvalidPolicyError if it cannot say what is seen: it lacks something that `for_world` gives it."""

    # -- the seed's three -------------------------------------------------------------------------------------

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Give what the agent sees of this state; ``view_seq`` is the seq of the last effect in it."""
        seen = {
            entity_id: self.show_entity_to(world_state, agent_id, entity_id)
            for entity_id in world_state.entities
            if self.sees_entity(world_state, agent_id, entity_id)
        }
        details = world_state.metadata.get("relationships", {})
        related: dict[str, list[str]] = {}
        for name, ends in world_state.relationships.items():
            if name not in seen and name != agent_id:
                continue
            shown = {end for end in ends if end in seen or end == agent_id}
            if self.relationship_filter:
                shown = {end for end in shown if self._has_type(details, name, end)}
            if shown:
                related[name] = sorted(shown)
        return View.of(agent_id, world_state.metadata.get("last_effect_seq", 0), seen, related)

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Tell whether the agent observes an effect, given the state after it.

        It does if the effect names it, or an entity that it sees: as the source, or in the payload (agent_id,
        entity_id, target_id, from_entity, to_entity). If none of those is an entity of the world, everybody observes
        the effect but agents with a relationship filter. System kinds are observed by nobody.
        """
        if is_system_kind(effect["kind"]):
            return False
        names = names_in(effect)
        if agent_id in names:
            return True
        present = [name for name in names if name in world_state.entities]
        if not present:
            return not self.relationship_filter
        return any(self.sees_entity(world_state, agent_id, name) for name in present)

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Give the delta between two views of an agent, the new one as `filter_world_state` gives it; no events.

        Without remove operations the delta leads to ``remembering(old_view, new_view)``.
        """
        after = new_view if self.remove_operations else remembering(old_view, new_view)
        before, now = ({name: getattr(view, name) for name in PARTS} for view in (old_view, after))
        return {
            "view_seq": after.view_seq,
            "patches": diff(before, now),
            "context_digest": after.context_digest,
            "schema_version": DELTA_VERSION,
            "events": [],
        }

    # -- what they are made of --------------------------------------------------------------------------------

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Tell whether the agent sees an entity of the world."""
        if entity_id not in world_state.entities:
            return False
        if entity_id == agent_id:
            return True
        here, there = world_state.spatial_index.get(agent_id), world_state.spatial_index.get(entity_id)
        if here is not None and there is not None and dist(here, there) > self.distance_limit:
            return False
        if not self.relationship_filter:
            return True
        details = world_state.metadata.get("relationships", {})
        return self._has_type(details, agent_id, entity_id) or self._has_type(details, entity_id, agent_id)

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Give an entity as it is shown: a new object, whose values may be the entity's own."""
        return self._shown(entity)

    def show_entity_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> dict[str, Any]:
        """Give an entity of the world as it is shown to this agent; as `show_entity`, unless it is overridden."""
        return self.show_entity(world_state.entities[entity_id])

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Give an observed effect as it is shown, or None if the patches tell all there is to tell."""
        kind = effect["kind"]
        if kind in TOLD_BY_PATCHES or is_system_kind(kind):
            return None
        return {
            "global_seq": effect["global_seq"],
            "kind": kind,
            "source_id": effect["source_id"],
            "sim_time": effect["sim_time"],
            "payload": self._shown(effect["payload"]),
            "schema_version": effect["schema_version"],
        }

    def show_event_to(self, effect: Effect, agent_id: str, world_state: WorldState) -> ObservedEvent | None:
        """Give an observed effect as it is shown to this agent, given the state after it; as `show_event` otherwise."""
        return self.show_event(effect)

    def _shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        shown = self.field_visibility
        if not shown:
            return dict(fields)
        others = shown.get("*", True)
        return {name: value for name, value in fields.items() if shown.get(name, others)}

    def _has_type(self, details: Mapping[str, Any], from_entity: str, to_entity: str) -> bool:
        """Tell whether one entity is related to another, this way, by a type that the filter names."""
        types = details.get(from_entity, {}).get(to_entity, ())
        return any(name in types for name in self.relationship_filter)
