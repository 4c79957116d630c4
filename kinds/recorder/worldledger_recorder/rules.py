"""Recorded worlds: any kind of effect is an event and changes nothing; three kinds tell of entities and steps.

- ``EntitySet {entity_id, values}`` gives an entity these fields; it is made if it is not there. A ``position`` of 2 or
  3 numbers places it in space.
- ``EntityRemoved {entity_id}`` removes it, if it is there.
- ``StepBegan {step}`` begins a step. What is before the first one is step 0.

They are no events: the state tells what they mean. Whom another effect is for its payload says in ``sees``
(`worldledger.effects.audience_of`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger.canonical import MAX_INT
from worldledger.drafts import CheckedDraft
from worldledger.effects import SCHEMA_VERSION, Effect, EffectDraft
from worldledger.errors import SimulationError
from worldledger.intents import registration_draft
from worldledger.moments import STEP, Unit
from worldledger.observation import ObservationPolicy, point_of
from worldledger.policies import policy_spec
from worldledger.rulesets.base import Check, Handler, Ruleset, Touched
from worldledger.rulesets.payloads import NAME, OBJECT, Schema, payload, says
from worldledger.rulesets.reading import UnreadableError, change_of, patched, read_name, read_object, refusing
from worldledger.world import WorldState

ENTITY_SET: Final = "EntitySet"
ENTITY_REMOVED: Final = "EntityRemoved"
STEP_BEGAN: Final = "StepBegan"
#: The source of effects of no agent in particular.
SOURCE: Final = "recorder"


class NotRecordedError(SimulationError):
    """A world of another ruleset, in which nothing is recorded; details: ``ruleset``."""

    code = "not_recorded"


ERRORS: Final = (NotRecordedError,)


# -- the drafts of recorded worlds -----------------------------------------------------------------------------------


def effect_of(kind: str, fields: Mapping[str, Any], agent: str | None = None) -> EffectDraft:
    """Return the draft of an effect by an agent, or by the program."""
    source = SOURCE if agent is None else agent
    return EffectDraft(kind=kind, payload=dict(fields), source_id=source, schema_version=SCHEMA_VERSION)


def entity_set(entity_id: str, values: Mapping[str, Any]) -> EffectDraft:
    """Return the draft that gives an entity these fields."""
    return effect_of(ENTITY_SET, {"entity_id": entity_id, "values": dict(values)})


def entity_removed(entity_id: str) -> EffectDraft:
    """Return the draft that removes an entity."""
    return effect_of(ENTITY_REMOVED, {"entity_id": entity_id})


def step_began(number: int, agent: str | None = None) -> EffectDraft:
    """Return the draft that begins a step."""
    return effect_of(STEP_BEGAN, {"step": number}, agent)


def registered(agent_id: str) -> EffectDraft:
    """Return the draft, of a system kind, that registers an agent with the default policy."""
    return registration_draft(agent_id, policy_spec(ObservationPolicy()))


# -- the ruleset -----------------------------------------------------------------------------------------------------


def read_set(given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read EntitySet."""
    return read_name(given, "entity_id"), read_object(given, "values")


def read_removed(given: Mapping[str, Any]) -> str:
    """Read EntityRemoved."""
    return read_name(given, "entity_id")


def read_step(given: Mapping[str, Any]) -> int:
    """Read StepBegan."""
    number = given.get("step")
    if type(number) is int and 1 <= number <= MAX_INT:
        return number
    raise UnreadableError("step is a whole number from 1 on", "$.payload.step")


def set_values(state: WorldState, effect: Effect) -> Touched:
    """EntitySet: give the entity these fields; others stay as they are."""
    entity_id, values = read_set(effect["payload"])
    entity = {**state.entities.get(entity_id, {}), **values}
    if "position" in values:
        point = point_of(values["position"])
        if point is None:
            state.spatial_index.pop(entity_id, None)
        else:
            entity["position"] = list(point)
            state.spatial_index[entity_id] = point
    state.entities[entity_id] = entity
    return entity_id


def remove(state: WorldState, effect: Effect) -> Touched:
    """EntityRemoved: remove the entity, if it is there."""
    entity_id = read_removed(effect["payload"])
    state.spatial_index.pop(entity_id, None)
    return () if state.entities.pop(entity_id, None) is None else entity_id


def begin_step(state: WorldState, effect: Effect) -> Touched:
    """StepBegan: note the step's number."""
    state.metadata["step"] = read_step(effect["payload"])
    return ()


def _check(read: Any) -> Check:
    def look(_: CheckedDraft, given: dict[str, Any], __: WorldState | None) -> None:
        read(given)

    return refusing(look)


HANDLERS: Final[Mapping[str, Handler]] = {ENTITY_SET: set_values, ENTITY_REMOVED: remove, STEP_BEGAN: begin_step}
CHECKS: Final[Mapping[str, Check]] = {
    ENTITY_SET: _check(read_set),
    ENTITY_REMOVED: _check(read_removed),
    STEP_BEGAN: _check(read_step),
}
PAYLOADS: Final[Mapping[str, Schema]] = {
    ENTITY_SET: payload(
        "Give an entity these fields.", {"entity_id": NAME, "values": says(OBJECT, "Its fields; others stay.")}
    ),
    ENTITY_REMOVED: payload("Remove an entity.", {"entity_id": NAME}),
    STEP_BEGAN: payload("Begin a step.", {"step": {"type": "integer", "minimum": 1, "maximum": MAX_INT}}),
}


class Recorder(Ruleset):
    """Worlds of the ruleset ``recorder``: any kind is allowed, and nothing that was recorded is judged."""

    name = "recorder"
    version = 1
    handlers = HANDLERS
    checks = CHECKS
    payloads = PAYLOADS
    unobserved = frozenset(HANDLERS)
    #: A recorded Move is the recorder's own, and changes nothing.
    told_by_patches = frozenset()
    units: Mapping[str, Unit] = {STEP: Unit((STEP_BEGAN,), "step", has_zero=True)}

    def change(self, path: str, value: Any, state: WorldState) -> EffectDraft:
        """Return the EntitySet that sets a value of an entity."""
        entity_id, patch = change_of(path, value, state)
        entity = patched(state.entities[entity_id], patch)
        field = patch[0]["path"].split("/", 2)[1].replace("~1", "/").replace("~0", "~")
        return entity_set(entity_id, {field: entity[field]})


RULESET = Recorder()
