"""What an agent sees: the policy that decides, and its methods.

Source: docs/reference/contracts.md, "Policies, validators and latency". A policy looks at the WorldState alone, so what
an agent could see at any moment can be worked out again from the log.

This file computes it in the simple way. `worldledger.views` updates the views of many agents from what an effect has
changed, and must come to the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import dist, inf, isfinite
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from worldledger.deltas import DELTA_VERSION, PARTS, ObservationDelta, ObservedEvent, View, apply_delta, merge_last_seen
from worldledger.effects import TOLD_BY_PATCHES, Effect, audience_of, is_private, is_system_kind
from worldledger.errors import InvalidPolicyError
from worldledger.latency import DistanceLatency, FixedLatency, LatencyModel, NoLatency, as_latency_model
from worldledger.patches import diff
from worldledger.protocols import CONFIG_ATTRIBUTES, PolicyConfigProtocol, lacking
from worldledger.space import FieldOfView, cone_of
from worldledger.staleness import names_of
from worldledger.world import Point, WorldState

__all__ = [
    "DistanceLatency",
    "FirstObservationPolicy",
    "FirstPolicyConfig",
    "FixedLatency",
    "LatencyModel",
    "NoLatency",
    "ObservationDelta",
    "ObservationPolicy",
    "ObservedEvent",
    "PolicyConfig",
    "View",
    "ViewCone",
    "apply_delta",
    "is_private",
    "merge_last_seen",
    "names_in",
    "observes",
    "place_of",
    "point_of",
]


def names_in(effect: Effect) -> list[str]:
    """Return the ids that an effect names: its source, and those in the usual members of its payload."""
    return [effect["source_id"], *names_of(effect["payload"])]


def place_of(effect: Effect) -> Point | None:
    """Return the place of an effect if its payload has one: ``position``, of a Move ``to``; None if it is not a point.

    A point is a list of 2 or 3 finite numbers; of two, z is 0.0.
    """
    payload = effect["payload"]
    where = payload.get("position")
    if effect["kind"] == "Move" and payload.get("to") is not None:
        where = payload["to"]
    return point_of(where)


def point_of(value: Any) -> Point | None:
    """Return a point, three numbers, if a value is one; else None."""
    if not isinstance(value, list | tuple) or not 2 <= len(value) <= 3 or not all(map(_is_number, value)):
        return None
    x, y, z = (*value, 0.0) if len(value) == 2 else value
    return float(x), float(y), float(z)


def _is_number(value: Any) -> bool:
    return type(value) in {int, float} and isfinite(value)


class FirstPolicyConfig(BaseModel):
    """The settings of the policies of version 1, for worlds that were recorded with them; see `PolicyConfig`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, defer_build=True)

    distance_limit: float = Field(default=inf, ge=0)
    relationship_filter: list[str] = Field(default_factory=list)
    field_visibility: dict[str, bool] = Field(default_factory=dict)
    latency_model: LatencyModel = Field(default_factory=NoLatency)
    remove_operations: bool = True

    @field_validator("latency_model", mode="before")
    @classmethod
    def _adapted(cls, value: Any) -> Any:
        return as_latency_model(value)

    @field_validator("distance_limit", mode="before")
    @classmethod
    def _null_is_no_limit(cls, value: Any) -> Any:
        return inf if value is None else value

    @field_validator("distance_limit")
    @classmethod
    def _no_minus_zero(cls, value: float) -> float:
        return value + 0.0


def config_of(config: Any, config_class: type[FirstPolicyConfig]) -> FirstPolicyConfig:
    """Return a configuration as it is, or as ``config_class`` made from the attributes of another class's.

    Raises InvalidPolicyError if attributes of `PolicyConfigProtocol` are missing, or cannot be used.
    """
    if isinstance(config, FirstPolicyConfig):
        return config
    missing = lacking(config, CONFIG_ATTRIBUTES, methods=False)
    if missing:
        what = (
            f"{type(config).__qualname__} lacks {', '.join(missing)}: a policy goes by {', '.join(CONFIG_ATTRIBUTES)}"
        )
        raise InvalidPolicyError(what, "$.config")
    given = {name: getattr(config, name) for name in config_class.model_fields if hasattr(config, name)}
    given["relationship_filter"] = list(given["relationship_filter"])
    given["field_visibility"] = dict(given["field_visibility"])
    try:
        return config_class.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        raise InvalidPolicyError(first["msg"], ".".join(["$.config", *map(str, first["loc"])])) from None


class ViewCone(BaseModel):
    """The cone that an agent looks into; it opens where the agent stands.

    - ``angle``: its full opening in degrees: 90 sees 45 to each side, 360 all around.
    - ``range``: how far it reaches, in units of the world; None: as far as the other settings let the agent see.
    - ``direction``: its direction, 2 or 3 numbers that are not all 0. None: the ``direction`` of the agent's own
      entity; while that has none, the agent looks all around, and ``range`` does not apply.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    angle: float = Field(ge=0, le=360)
    range: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    direction: list[float] | None = None

    @field_validator("direction")
    @classmethod
    def _leads_somewhere(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and _direction(value) is None:
            raise ValueError("a direction is 2 or 3 finite numbers that are not all 0")
        return value


def _direction(value: Any) -> Point | None:
    point = point_of(value)
    return point if point is not None and any(point) else None


class PolicyConfig(FirstPolicyConfig):
    """What an ObservationPolicy goes by; a policy of your own may take a subclass with more fields.

    - ``distance_limit``: how far an agent sees, in units of the world, the limit included. It applies between two
      positions: what has none is seen from everywhere, and an agent without one sees everything. Infinite (in JSON:
      null) for no limit.
    - ``visibility_range``: whether an agent sees no farther than the ``visibility_range`` of its own entity, where that
      has one: a number from 0 on.
    - ``view_cone``: the cone that an agent looks into; None for all around.
    - ``relationship_filter``: relationship types. If there are any, only entities are seen that the agent is related
      to by one of them, whichever way, and of relationships only those of such a type.
    - ``field_visibility``: top-level field of an entity, or of an event's payload -> whether it is shown. ``*`` stands
      for the fields that are not named, which are shown otherwise.
    - ``latency_model``: how long it takes until the agent sees what happened.
    - ``remove_operations``: if false, what goes out of sight stays in the view as last seen.
    - ``rules``: by which of the base class's rules events are observed. 2, unless it is given; 1 is what policies that
      were recorded before there was a choice go by: an event that happens far away is observed wherever it names no
      entity that has a position, and nothing is private.

    An agent always sees the entity of its own id, less hidden fields.
    """

    visibility_range: bool = False
    view_cone: ViewCone | None = None
    rules: Literal[1, 2] = 2

    @field_validator("view_cone", mode="before")
    @classmethod
    def _read_cone(cls, value: Any) -> Any:
        return ViewCone.model_validate(value) if isinstance(value, Mapping) else value


class ObservationPolicy:
    """Decides what an agent sees; override the smallest method that expresses what you need.

    - `show_entity`, `show_event`: what is shown of what is seen. Cheap.
    - `show_entity_to`, `show_event_to`: the same, if it differs from agent to agent. Such agents share no work. The
      former may look at the entity itself; at other things in the state only if an effect that changes them touches the
      entities that look different then (`worldledger.rulesets.base.Touched`).
    - `sees_entity`: whether an entity is seen. It may look at the agent's and the entity's own data and at the
      relationships between both; it is called again for what an effect has touched, and for everything when the agent's
      own entity was touched.
    - `field_of_view`: how far, and in which direction, the agent sees from its position. It may look at the agent's own
      entity and position.
    - `should_observe_event`: whether an event is observed. It is called for every effect that has no audience
      (`worldledger.effects.audience_of`).
    - `is_aware_of`: whether an event within sight is observed because it names an entity that may be out of sight. If
      `sees_entity` is overridden and this is not, it is the result of `sees_entity`.
    - `filter_world_state`, `calculate_observation_delta`: anything else. Then the whole view is recomputed for every
      effect, so this is for small worlds. The two have to agree with each other, not with the other methods.

    A policy keeps nothing from one call to the next: it may be shared by many agents, and every process makes it again
    from its registered name, version and config (`worldledger.policies`).
    """

    #: The class of `config`.
    config_class: ClassVar[type[FirstPolicyConfig]] = PolicyConfig

    def __init__(self, config: FirstPolicyConfig | PolicyConfigProtocol | None = None) -> None:
        """Take the configuration, or the default one of the policy's ``config_class``.

        One of another class that has the attributes of `PolicyConfigProtocol` is copied into that. Raises
        InvalidPolicyError if some are missing.
        """
        config = self.config_class() if config is None else config_of(config, self.config_class)
        self.config: FirstPolicyConfig = config
        self.distance_limit: float = config.distance_limit
        self.relationship_filter: list[str] = config.relationship_filter
        self.field_visibility: dict[str, bool] = config.field_visibility
        self.latency_model: LatencyModel = config.latency_model
        self.remove_operations: bool = config.remove_operations
        self.visibility_range: bool = False
        self.view_cone: ViewCone | None = None
        self.rules: int = 1
        #: the kinds that are no events besides their patches: those of the ruleset, once it is used in a world
        self.told_by_patches: frozenset[str] = TOLD_BY_PATCHES
        if isinstance(config, PolicyConfig):
            self.visibility_range, self.view_cone = config.visibility_range, config.view_cone
            self.rules = config.rules
        own = type(self)
        self._sees_by_distance = own.field_of_view is ObservationPolicy.field_of_view and not (
            self.visibility_range or self.view_cone
        )
        self._sees_its_own_way = own.sees_entity is not ObservationPolicy.sees_entity

    # -- how it is used in a world ----------------------------------------------------------------------------

    def for_world(self, world_uuid: str) -> ObservationPolicy:
        """Return the policy for the world of this uuid (32 hex digits); usually itself."""
        return self

    def check_usable(self) -> None:
        """Raise InvalidPolicyError if it cannot decide what is seen: it lacks something that `for_world` provides."""

    # -- the three methods of every policy ---------------------------------------------------------------------

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Return the agent's view of this state; ``view_seq`` is the seq of the last effect in it."""
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
        """Return whether the agent observes an effect, given the state after it.

        No agent observes system kinds, and only its source and its target observe a private effect (`is_private`).

        It observes an effect that names it: as the source, or in the payload (agent_id, entity_id, target_id,
        from_entity, to_entity). Of all others it observes none that is out of its sight (`is_out_of_sight`), and of the
        rest those that name an entity that it sees or, if the effect itself has a place, is aware of. If none of the
        names is an entity of the world, every agent without a relationship filter observes the effect.
        """
        if is_system_kind(effect["kind"]) or not self.is_told(effect, agent_id):
            return False
        names = names_in(effect)
        if agent_id in names:
            return True
        present = [name for name in names if name in world_state.entities]
        if self.is_out_of_sight(effect, agent_id, world_state):
            return False
        if not present:
            return not self.relationship_filter
        knows = self.is_aware_of if self.has_place(effect, agent_id, world_state) else self.sees_entity
        return any(knows(world_state, agent_id, name) for name in present)

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Return the delta between two views of an agent, the new one as `filter_world_state` gives it; no events.

        Without remove operations the delta leads to ``merge_last_seen(old_view, new_view)``.
        """
        after = new_view if self.remove_operations else merge_last_seen(old_view, new_view)
        before, now = ({name: getattr(view, name) for name in PARTS} for view in (old_view, after))
        return ObservationDelta(
            view_seq=after.view_seq,
            patches=diff(before, now),
            context_digest=after.context_digest,
            schema_version=DELTA_VERSION,
            events=[],
        )

    # -- the methods they use -----------------------------------------------------------------------------------

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Return whether the agent sees an entity of the world."""
        if entity_id not in world_state.entities:
            return False
        if entity_id == agent_id:
            return True
        there = world_state.spatial_index.get(entity_id)
        if there is not None:
            if self._sees_by_distance:
                here = world_state.spatial_index.get(agent_id)
                if here is not None and dist(here, there) > self.distance_limit:
                    return False
            elif (view := self.field_of_view(world_state, agent_id)) is not None:
                x, y, z = there
                if not view.holds((x, y, z)):
                    return False
        return self.is_related_to(world_state, agent_id, entity_id)

    def is_aware_of(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Return whether the agent may know of an entity of the world, wherever it is."""
        if self._sees_its_own_way:
            return self.sees_entity(world_state, agent_id, entity_id)
        return entity_id == agent_id or self.is_related_to(world_state, agent_id, entity_id)

    def is_related_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Return whether the relationship filter lets the agent know of an entity; without a filter it does."""
        if not self.relationship_filter:
            return True
        details = world_state.metadata.get("relationships", {})
        return self._has_type(details, agent_id, entity_id) or self._has_type(details, entity_id, agent_id)

    def field_of_view(self, world_state: WorldState, agent_id: str) -> FieldOfView | None:
        """Return what is in sight of the agent's position; None if nothing limits it, or the agent has no position."""
        here = world_state.spatial_index.get(agent_id)
        if here is None:
            return None
        limit, ahead, half = self.distance_limit, None, 0.0
        if self.visibility_range or self.view_cone is not None:
            entity = world_state.entities.get(agent_id, {})
            own = entity.get("visibility_range")
            if self.visibility_range and _is_number(own) and own >= 0:
                limit = min(limit, own)
            cone = self.view_cone
            if cone is not None:
                leads = _direction(entity.get("direction") if cone.direction is None else cone.direction)
                if leads is not None:
                    ahead, half = cone_of(leads, cone.angle)
                    limit = limit if cone.range is None else min(limit, cone.range)
        if limit == inf and ahead is None:
            return None
        x, y, z = here
        return FieldOfView((x, y, z), limit, ahead, half)

    def is_told(self, effect: Effect, agent_id: str) -> bool:
        """Return whether the agent may see an effect: it is not private, or the agent is its source or target."""
        if self.rules < 2 or not is_private(effect):
            return True
        return agent_id == effect["source_id"] or agent_id == effect["payload"].get("target_id")

    def has_place(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Return whether the place that the effect's payload names decides if the agent observes it."""
        return (
            self.rules >= 2 and place_of(effect) is not None and self.field_of_view(world_state, agent_id) is not None
        )

    def is_out_of_sight(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Return whether an effect has places, and none of them is in the agent's field of view.

        Its place is the one that its payload names (`place_of`); without one, its places are the positions, after it,
        of the entities that it names. An effect without a place is never out of sight.
        """
        if self.rules < 2 or (view := self.field_of_view(world_state, agent_id)) is None:
            return False
        place = place_of(effect)
        if place is not None:
            return not view.holds(place)
        placed = False
        for name in names_in(effect):
            point = world_state.spatial_index.get(name)
            if point is not None:
                x, y, z = point
                if view.holds((x, y, z)):
                    return False
                placed = True
        return placed

    def show_entity(self, entity: Mapping[str, Any]) -> dict[str, Any]:
        """Return an entity as it is shown: a new object that may share values with the entity."""
        return self._shown(entity)

    def show_entity_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> dict[str, Any]:
        """Return an entity of the world as it is shown to this agent; `show_entity` unless overridden."""
        return self.show_entity(world_state.entities[entity_id])

    def show_event(self, effect: Effect) -> ObservedEvent | None:
        """Return an observed effect as it is shown, or None if the patches tell everything."""
        kind = effect["kind"]
        if kind in self.told_by_patches or is_system_kind(kind):
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
        """Return an observed effect as this agent is shown it, given the state after it; by default `show_event`."""
        return self.show_event(effect)

    def _shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        shown = self.field_visibility
        if not shown:
            return dict(fields)
        others = shown.get("*", True)
        return {name: value for name, value in fields.items() if shown.get(name, others)}

    def _has_type(self, details: Mapping[str, Any], from_entity: str, to_entity: str) -> bool:
        """Return whether one entity is related to another, in this direction, by a type that the filter names."""
        types = details.get(from_entity, {}).get(to_entity, ())
        return any(name in types for name in self.relationship_filter)


def observes(policy: ObservationPolicy, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
    """Return whether an agent observes an effect: by its audience or, if it has none, by the agent's policy."""
    audience = audience_of(effect)
    return policy.should_observe_event(effect, agent_id, world_state) if audience is None else agent_id in audience


class FirstObservationPolicy(ObservationPolicy):
    """The default policy in its version 1: for worlds that were recorded with it."""

    config_class: ClassVar[type[FirstPolicyConfig]] = FirstPolicyConfig
