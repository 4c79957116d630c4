"""Judging intents: may this agent do this now? This is asked before the ruleset decides about the effect.

Source: docs/reference/contracts.md, "Policies, validators and latency".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Protocol

from worldledger.canonical import MAX_INT
from worldledger.effects import Effect, Intent, is_system_kind
from worldledger.errors import IntentConflictError, IntentRefusedError, PermissionDeniedError, UnknownAgentError
from worldledger.intents import SUBMIT_INTENT, CheckedIntent, permission_for
from worldledger.staleness import NAMING
from worldledger.world import WorldState

#: The members of a payload that name entities.
NAMING_FIELDS: Final = NAMING


class EffectValidator(Protocol):
    """Decides whether an intent can be executed.

    It must be a pure function of its arguments: it may be called several times. Instead of returning False it may raise
    a SimulationError, which then is the answer.
    """

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Return whether the intent can be executed in this state."""
        ...


class DefaultEffectValidator:
    """Accepts what the agent has the permissions for, and Moves to a position of 2 or 3 finite numbers.

    For an agent that the state does not know, permissions are not checked.
    """

    def validate_intent(self, intent: Intent, world_state: WorldState) -> bool:
        """Return whether the intent can be executed in this state."""
        agent = world_state.metadata.get("agents", {}).get(intent["agent_id"])
        if agent is not None and missing_permission(intent["kind"], agent) is not None:
            return False
        return intent["kind"] != "Move" or _is_move(intent["payload"])


def judge_intent(
    intent: CheckedIntent,
    state: WorldState,
    validator: EffectValidator,
    *,
    world_id: str = "",
    position: Callable[[WorldState, str], Sequence[float] | None] | None = None,
) -> None:
    """Judge an intent by the state that its effect would follow, in this order.

    - UnknownAgentError: its agent is not registered there (``world_id`` is for the message)
    - PermissionDeniedError: the agent lacks a permission, which it names
    - IntentConflictError: a Move whose ``from`` is not the agent's position; the caller, who has the log, fills in its
      conflicting_effects. ``position`` returns the agent's position as it is shown (None: unknown, and nothing is
      compared); without it, it is its entity's
    - IntentRefusedError: the validator returns False; what it raises is passed on to the caller
    """
    agent = state.metadata["agents"].get(intent.agent_id)
    if agent is None:
        raise UnknownAgentError(intent.agent_id, world_id)
    lacking = missing_permission(intent.kind, agent, intent.payload.get("kind"))
    if lacking is not None:
        raise PermissionDeniedError(intent.agent_id, lacking)
    if intent.kind == "Move" and "from" in intent.payload:
        _check_start(intent, (_position if position is None else position)(state, intent.agent_id))
    shown = intent.to_intent()
    verdict = validator.validate_intent(shown, state)
    if hasattr(verdict, "__await__"):
        raise TypeError(f"{type(validator).__name__}.validate_intent must be a plain function, not a coroutine")
    if not verdict:
        raise IntentRefusedError(intent.to_intent())


def missing_permission(kind: str, agent: Mapping[str, Any], custom: str | None = None) -> str | None:
    """Return the first permission that an intent of this kind needs and the agent lacks, or None.

    ``agent`` is its entry in ``metadata["agents"]``. For a Custom intent the permission ``intent:custom:<kind>`` of its
    own kind (``custom``) is enough, in place of the one for all kinds.
    """
    permissions = agent["permissions"]
    if kind == "Custom" and f"{permission_for(kind)}:{custom}" in permissions:
        return None if SUBMIT_INTENT in permissions else SUBMIT_INTENT
    if SUBMIT_INTENT not in permissions:
        return SUBMIT_INTENT
    needed = permission_for(kind)
    return None if needed in permissions else needed


def mentions(effect: Effect, entity_id: str) -> bool:
    """Return whether an effect may concern an entity: its source or a member of its payload names it.

    System kinds concern none: they change no entity.
    """
    if is_system_kind(effect["kind"]):
        return False
    payload = effect["payload"]
    return effect["source_id"] == entity_id or any(payload.get(name) == entity_id for name in NAMING_FIELDS)


def _position(state: WorldState, agent_id: str) -> Sequence[float] | None:
    return state.spatial_index.get(agent_id)


def _check_start(intent: CheckedIntent, actual: Sequence[float] | None) -> None:
    """Raise IntentConflictError if an agent that has a position would move from another one."""
    if actual is None:
        return
    stands = [*actual, 0.0] if len(actual) == 2 else list(actual)
    if stands != intent.payload["from"]:
        what = f"it moves from {intent.payload['from']}, but stands at {stands}"
        raise IntentConflictError(intent.to_intent(), [], what, actual_position=stands)


def _is_move(payload: Mapping[str, Any]) -> bool:
    target = payload.get("to") or payload.get("position")
    return _is_point(target) and (payload.get("from") is None or _is_point(payload["from"]))


def _is_point(value: Any) -> bool:
    return (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and 2 <= len(value) <= 3
        and all(map(_is_number, value))
    )


def _is_number(value: Any) -> bool:
    return isfinite(value) if type(value) is float else type(value) is int and abs(value) <= MAX_INT
