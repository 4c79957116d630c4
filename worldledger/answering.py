"""What an agent is told about its intent: it depends on what the agent is shown and asked for, not on what is hidden.

The rules of a world judge an intent by the state as it is. If they refuse it, they judge it once more by the state as
the agent is shown it. A refusal that holds there as well is told in full. A refusal that rests on hidden values alone
is told by one fixed text (`hidden_refusal`), whichever rule it was; the operator's log has the real one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

import orjson

from worldledger.drafts import CheckedDraft
from worldledger.effects import Effect
from worldledger.errors import (
    IllegalEffectError,
    IntentConflictError,
    IntentRefusedError,
    InvalidEffectError,
    PermissionDeniedError,
    SimulationError,
)
from worldledger.intents import CheckedIntent, checked_draft
from worldledger.latency import NoLatency
from worldledger.observability import MatrixPolicy, ObservabilityLevel
from worldledger.observation import FirstObservationPolicy, ObservationPolicy, names_in, point_of
from worldledger.policies import policy_from_spec
from worldledger.rulesets.base import Ruleset
from worldledger.validation import EffectValidator, judge_intent
from worldledger.world import WorldState

#: The error with which the rules refuse an intent; it may rest on hidden values.
REFUSALS: Final = (IntentRefusedError, PermissionDeniedError, IntentConflictError, InvalidEffectError)
#: The rule that is named if a refusal rests on hidden values.
HIDDEN: Final = "hidden"


def hidden_refusal() -> IllegalEffectError:
    """Return the refusal that an agent is told if the real one rests on what it is not shown: always the same."""
    return IllegalEffectError(
        "the rules of the world refuse it, for a reason that this agent is not shown", "$", rule=HIDDEN
    )


def truth_of(error: SimulationError) -> SimulationError:
    """Return the rules' real refusal of an intent, if the agent is told another one; for the operator."""
    truth = getattr(error, "truth", error)
    return truth if isinstance(truth, SimulationError) else error


def without_truth(error: SimulationError) -> SimulationError:
    """Return a refusal fit for its agent, without anything that leads to the real one."""
    if hasattr(error, "truth"):
        del error.truth
        error.__cause__ = error.__context__ = None
    return error


class Answering:
    """Decides what the agents of one world are told about their intents."""

    def __init__(self, ruleset: Ruleset, validator: EffectValidator) -> None:
        self.ruleset = ruleset
        self.validator = validator
        self._policies: dict[str, tuple[Mapping[str, Any], ObservationPolicy | None]] = {}

    def policy(self, agents: Mapping[str, Any], agent_id: str) -> ObservationPolicy | None:
        """Return the policy that an agent is registered with, given ``metadata.agents``; None if it cannot be made."""
        known = agents.get(agent_id)
        if known is None:
            return None
        spec = known["policy"]
        kept = self._policies.get(agent_id)
        if kept is not None and (kept[0] is spec or kept[0] == spec):
            return kept[1]
        policy: ObservationPolicy | None
        try:
            policy = policy_from_spec(spec, stored=True)
            policy.check_usable()
        except SimulationError:
            policy = None
        if len(self._policies) > 2 * len(agents) + 16:
            self._policies.clear()
        self._policies[agent_id] = (spec, policy)
        return policy

    def position(self, state: WorldState, agent_id: str) -> list[float] | None:
        """Return the position that an agent is shown as its own, three numbers; None if it is shown none.

        It is shown none if its own entity, or that entity's position, is hidden from it, and if events reach it with a
        delay.
        """
        policy = self.policy(state.metadata["agents"], agent_id)
        if policy is None or not is_instant(policy):
            return None
        return position_of(_entity(policy, state, agent_id, agent_id))

    def shows_all(self, policy: ObservationPolicy | None) -> bool:
        """Return whether an agent with this policy is shown at once all that the rules look at."""
        return (
            not self.ruleset.judges_by_hidden
            and type(policy) in (ObservationPolicy, FirstObservationPolicy)
            and policy is not None
            and policy.distance_limit == inf
            and not (policy.relationship_filter or policy.field_visibility)
            and not (policy.visibility_range or policy.view_cone)
            and is_instant(policy)
        )

    def about(self, intents: Sequence[CheckedIntent]) -> Telling:
        """Return the object that tells refusals of intents that are judged together."""
        return Telling(self, intents)


class Telling:
    """Tells the refusals of intents that are judged together to their senders.

    The intents are judged in order, each by the state that it would follow; `judging` is called before each. So it is
    known what their agents were shown before the first of them, and a refusal says the same whichever of them the
    hidden values let through.
    """

    def __init__(self, answering: Answering, intents: Sequence[CheckedIntent]) -> None:
        self.answering = answering
        self.intents = intents
        self._judged: list[int] = []
        self._shown: dict[str, WorldState | None] = {}
        self._policies: dict[str, ObservationPolicy | None] = {}
        #: The positions that agents were shown before the first of the intents.
        self._begun: dict[str, list[float] | None] = {}
        #: Agents that are shown things with a delay -> the position that each was shown.
        self.positions: dict[str, list[float] | None] = {}

    def position(self, state: WorldState, agent_id: str) -> list[float] | None:
        """Return the position that an agent was shown as its own; None if it was shown none."""
        if agent_id in self.positions:
            return self.positions[agent_id]
        return self.answering.position(state, agent_id)

    def judging(self, index: int, state: WorldState) -> None:
        """Note that an intent is about to be judged by this state."""
        if self._judged and index <= self._judged[-1]:  # from the beginning
            self._judged.clear()
        if not self._judged and len(self.intents) > 1:
            agents = state.metadata["agents"]
            names = {intent.agent_id for intent in self.intents}
            if not all(self.answering.shows_all(self.answering.policy(agents, name)) for name in names):
                self._look(state)
        self._judged.append(index)

    def told(self, index: int, error: SimulationError, state: WorldState) -> SimulationError:
        """Return what the agent is told about the refusal of an intent by this state."""
        agent_id = self.intents[index].agent_id
        if not isinstance(error, REFUSALS):
            return error
        if self.answering.shows_all(self.answering.policy(state.metadata["agents"], agent_id)):
            return error
        several = len(self.intents) > 1
        if not several:
            self._look(state)
        told: SimulationError | None = None
        for at, intent in enumerate(self.intents):
            if at < index and at not in self._judged:  # it was accepted before
                continue
            told = self._refusal(intent)
            if told is not None:
                if several:
                    told = told.at(at) if isinstance(told, InvalidEffectError) else told
                    told.details["index"] = at
                break
        else:
            told = hidden_refusal()
        told.truth = error  # type: ignore[attr-defined]  # for the operator: see `truth_of`
        return told

    def _look(self, state: WorldState) -> None:
        """Record what the agents are shown of what their intents name."""
        names: dict[str, set[str]] = {}
        for intent in self.intents:
            named = names.setdefault(intent.agent_id, {intent.agent_id})
            named.update(names_in({"source_id": intent.agent_id, "payload": intent.payload}))  # type: ignore[typeddict-item]
        answering = self.answering
        self._shown = {}
        notes = {name: note for name, note in state.metadata.items() if name not in ("agents", "relationships")}
        if len(self.intents) > 1:  # the intents are applied to it
            notes = orjson.loads(orjson.dumps(notes))
        for agent_id, named in names.items():
            policy = answering.policy(state.metadata["agents"], agent_id)
            seen = self._shown[agent_id] = _shown(policy, state, agent_id, named, notes)
            self._begun[agent_id] = position_of(seen.entities.get(agent_id))
            self._policies[agent_id] = policy

    def _refusal(self, intent: CheckedIntent) -> SimulationError | None:
        """Return the refusal by what the intent's agent was shown; if there is none, apply the intent to that."""
        agent_id, answering = intent.agent_id, self.answering
        seen = self._shown.get(agent_id)
        if seen is None:
            return None
        ruleset = answering.ruleset
        shown = WorldState.model_construct(
            entities=dict(seen.entities),
            relationships={},
            spatial_index=dict(seen.spatial_index),
            metadata=dict(seen.metadata),
        )
        kind = intent.effect_kind
        try:
            payload = ruleset.as_shown(
                kind, intent.payload, agent_id, shown, _Knowing(self._policies[agent_id], agent_id)
            )
            asked = intent.with_payload(payload)
            judge_intent(asked, shown, answering.validator, position=self._shown_position)
            if intent.kind == "Custom":
                ruleset.check_intent(kind, payload, agent_id, shown)
            draft = checked_draft(asked)
            if shown.metadata.get(_BLANK) and kind in ruleset.stateful:
                return None
            decided = ruleset.decide(draft, shown if kind in ruleset.stateful else None)
            if len(self.intents) > 1:
                _let_happen(ruleset, decided, seen)
        except SimulationError as error:
            return error if isinstance(error, REFUSALS) else None
        except Exception:  # noqa: BLE001 - rules that look at what is not shown may fail anyhow
            return None
        return None

    def _shown_position(self, shown: WorldState, agent_id: str) -> list[float] | None:
        """Return the position that an agent is shown as its own after those of its intents that were let happen."""
        position = position_of(shown.entities.get(agent_id))
        if agent_id in self.positions or position != self._begun.get(agent_id):  # it has moved: is it shown that?
            return self.position(shown, agent_id)
        return position


class _Knowing:
    """The agent's knowledge by its policy, found by asking the policy about worlds that hold one entity."""

    def __init__(self, policy: ObservationPolicy | None, agent_id: str) -> None:
        self._policy = policy if policy is not None and is_instant(policy) else None
        self._agent_id = agent_id

    def is_absent(self, entity_id: str) -> bool:
        """Return whether an entity that the agent is not shown does not exist."""
        policy = self._policy
        if policy is None or not _is_unlimited(policy):
            return False
        return not isinstance(policy, MatrixPolicy) or policy.sight_of(entity_id)[0] is not ObservabilityLevel.UNAWARE

    def is_shown(self, entity_id: str, field: str) -> bool:
        """Return whether the agent is shown a field of an entity that it sees, if the entity has it."""
        policy = self._policy
        return policy is not None and field in (self._look(policy, entity_id, {field: ""}) or {})

    def is_exact(self, entity_id: str) -> bool:
        """Return whether the agent is shown the exact values of an entity that it sees."""
        policy = self._policy
        if policy is None:
            return False
        own = type(policy)
        if own.show_entity_to is ObservationPolicy.show_entity_to:
            return own.show_entity is ObservationPolicy.show_entity
        return isinstance(policy, MatrixPolicy) and not policy.sight_of(entity_id)[1]

    def _look(self, policy: ObservationPolicy, entity_id: str, entity: dict[str, Any]) -> Mapping[str, Any] | None:
        alone = WorldState.model_construct(
            entities={entity_id: entity}, relationships={}, spatial_index={}, metadata={"agents": {}}
        )
        try:
            return policy.show_entity_to(alone, self._agent_id, entity_id)
        except Exception:  # noqa: BLE001 - a policy of someone's own may raise anything
            return None


def _is_unlimited(policy: ObservationPolicy) -> bool:
    """Return whether an entity's name alone decides if an agent sees it, and whether that holds for all names."""
    if policy.distance_limit < inf or policy.relationship_filter or policy.visibility_range or policy.view_cone:
        return False
    own = type(policy)
    return own.filter_world_state is ObservationPolicy.filter_world_state and own.sees_entity in (
        ObservationPolicy.sees_entity,
        MatrixPolicy.sees_entity,
    )


#: A member of the metadata of a state that shows nothing.
_BLANK: Final = "\0blank"


def _shown(
    policy: ObservationPolicy | None, state: WorldState, agent_id: str, names: set[str], notes: Mapping[str, Any]
) -> WorldState:
    """Return the state as an agent is shown it, with only the entities of these names: copies. ``notes``: metadata."""
    agents = state.metadata["agents"]
    metadata: dict[str, Any] = {
        **notes,
        "agents": {agent_id: agents[agent_id]} if agent_id in agents else {},
        "relationships": {},
    }
    entities: dict[str, Any] = {}
    if policy is None or not is_instant(policy):
        metadata[_BLANK] = True
    else:
        for name in names:
            entity = _entity(policy, state, agent_id, name)
            if entity is not None:
                entities[name] = orjson.loads(orjson.dumps(entity))
    index = {name: tuple(point) for name, entity in entities.items() if (point := position_of(entity)) is not None}
    return WorldState.model_construct(entities=entities, relationships={}, spatial_index=index, metadata=metadata)


def _entity(policy: ObservationPolicy, state: WorldState, agent_id: str, name: str) -> Mapping[str, Any] | None:
    """Return an entity as an agent is shown it; None if it is not shown."""
    if name not in state.entities:
        return None
    try:
        if type(policy).filter_world_state is not ObservationPolicy.filter_world_state:
            return policy.filter_world_state(state, agent_id).visible_entities.get(name)
        return policy.show_entity_to(state, agent_id, name) if policy.sees_entity(state, agent_id, name) else None
    except Exception:  # noqa: BLE001 - a policy of someone's own may raise anything
        return None


def is_instant(policy: ObservationPolicy) -> bool:
    """Return whether an agent with this policy is shown what happens as soon as it happens."""
    return type(policy.latency_model) is NoLatency


def position_of(entity: Any) -> list[float] | None:
    """Return the position of an entity as it is shown, three numbers; None if none is shown."""
    point = point_of(entity.get("position")) if isinstance(entity, Mapping) else None
    return None if point is None else list(point)


def _let_happen(ruleset: Ruleset, draft: CheckedDraft, shown: WorldState) -> None:
    """Apply the intent of an agent to what it was shown."""
    handler: Callable[[WorldState, Effect], Any] | None = ruleset.handlers.get(draft.kind)
    if handler is None:
        return
    seq: int = shown.metadata["last_effect_seq"]
    effect: Any = {
        "kind": draft.kind,
        "payload": orjson.loads(draft.payload),
        "source_id": draft.source_id,
        "sim_time": shown.metadata["last_effect_time"],
        "global_seq": seq,
        "schema_version": draft.schema_version,
    }
    handler(shown, effect)
