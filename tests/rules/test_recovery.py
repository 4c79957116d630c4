"""Recovery: what errors suggest, what a policy chooses, and the constructors of errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from worldledger import errors
from worldledger.errors import (
    INTENT_CONFLICT,
    QUOTA_EXCEEDED,
    STALE_CONTEXT,
    BackpressureError,
    CircuitBreakerOpenError,
    DeadlineExceededError,
    ErrorRecoveryPolicy,
    IntentConflictError,
    InvalidPolicyError,
    PermissionDeniedError,
    QuotaExceededError,
    RecoveryAction,
    SimulationError,
    StaleContextError,
    TooManyAgentsError,
    UnknownAgentError,
    UnknownGenerationError,
    UnregisteredPolicyError,
    WorldNotFoundError,
)

from .test_intents import intent

_EFFECTS: list[dict[str, Any]] = [
    {"global_seq": 8, "kind": "Move", "source_id": "bob", "payload": {"agent_id": "ann"}, "uuid": "u"}
]
STALE = StaleContextError("r1", 9, 7)
CONFLICT = IntentConflictError(intent("Move"), _EFFECTS)
QUOTA = QuotaExceededError("ann", "intents", 5)


# -- the policy --------------------------------------------------------------------------------------------------


def test_the_usual_choices() -> None:
    """A stale intent is made anew, one in conflict is changed, one over quota waits."""
    policy = ErrorRecoveryPolicy()
    assert policy.handle_stale_context(STALE) is RecoveryAction.REGENERATE
    assert policy.handle_intent_conflict(CONFLICT) is RecoveryAction.MODIFY_INTENT
    assert policy.handle_quota_exceeded(QUOTA) is RecoveryAction.DEFER


@cases("stale", STALE_CONTEXT)
@cases("conflict", INTENT_CONFLICT)
@cases("quota", QUOTA_EXCEEDED)
def test_a_policy_chooses_as_it_was_told(
    stale: RecoveryAction, conflict: RecoveryAction, quota: RecoveryAction
) -> None:
    """Each of the choices can be made, and `action_for` gives it."""
    policy = ErrorRecoveryPolicy(stale_context=stale, intent_conflict=conflict, quota_exceeded=quota)
    assert [policy.action_for(error) for error in (STALE, CONFLICT, QUOTA)] == [stale, conflict, quota]


@pytest.mark.parametrize(
    ("name", "choices"),
    [("stale_context", STALE_CONTEXT), ("intent_conflict", INTENT_CONFLICT), ("quota_exceeded", QUOTA_EXCEEDED)],
)
def test_a_choice_that_makes_no_sense_is_refused(name: str, choices: tuple[RecoveryAction, ...]) -> None:
    """A policy cannot be told what is not foreseen for an error."""
    for action in set(RecoveryAction) - set(choices):
        with pytest.raises(ValueError, match=f"{name} is one of "):
            ErrorRecoveryPolicy(**{name: action})


def test_a_subclass_chooses_by_what_happened() -> None:
    """`action_for` asks the method of the error, so a subclass may look at the error."""

    class Patient(ErrorRecoveryPolicy):
        def handle_stale_context(self, error: StaleContextError) -> RecoveryAction:
            return RecoveryAction.RETRY if error.expected_seq - error.actual_seq < 3 else RecoveryAction.ABORT

    assert Patient().action_for(STALE) is RecoveryAction.RETRY
    assert Patient().action_for(StaleContextError("r1", 90, 7)) is RecoveryAction.ABORT


def test_for_any_other_error_its_own_recovery_counts() -> None:
    """What there is no choice for is done as the error suggests."""
    policy = ErrorRecoveryPolicy()
    for error in (
        WorldNotFoundError("no such world"),
        PermissionDeniedError("ann", "intent:move"),
        DeadlineExceededError("r1", 100.0),
        BackpressureError("ann", "drop_newest"),
        BackpressureError("ann", "shed_oldest"),
        CircuitBreakerOpenError(1.5),
    ):
        assert policy.action_for(error) is error.recovery


# -- the errors --------------------------------------------------------------------------------------------------

_CASES: list[tuple[SimulationError, str, RecoveryAction, dict[str, Any]]] = [
    (
        STALE,
        "stale_context",
        RecoveryAction.REGENERATE,
        {"req_id": "r1", "expected_seq": 9, "actual_seq": 7},
    ),
    (
        CONFLICT,
        "intent_conflict",
        RecoveryAction.MODIFY_INTENT,
        {
            "req_id": "r1",
            "agent_id": "ann",
            "kind": "Move",
            "conflicting_effects": [{"global_seq": 8, "kind": "Move", "source_id": "bob"}],
        },
    ),
    (
        QUOTA,
        "quota_exceeded",
        RecoveryAction.DEFER,
        {"agent_id": "ann", "quota_type": "intents", "limit": 5},
    ),
    (
        QuotaExceededError("ann", "tokens", 0.5, 2.25),
        "quota_exceeded",
        RecoveryAction.DEFER,
        {"agent_id": "ann", "quota_type": "tokens", "limit": 0.5, "retry_after_s": 2.25},
    ),
    (
        BackpressureError("ann", "drop_newest"),
        "backpressure",
        RecoveryAction.RETRY_WITH_DELAY,
        {"agent_id": "ann", "policy": "drop_newest"},
    ),
    (
        BackpressureError("ann", "shed_oldest"),
        "backpressure",
        RecoveryAction.SHED_OLDEST,
        {"agent_id": "ann", "policy": "shed_oldest"},
    ),
    (
        DeadlineExceededError("r1", 250),
        "deadline_exceeded",
        RecoveryAction.REGENERATE,
        {"req_id": "r1", "deadline_ms": 250},
    ),
    (
        PermissionDeniedError("ann", "intent:move"),
        "permission_denied",
        RecoveryAction.ABORT,
        {"agent_id": "ann", "permission": "intent:move"},
    ),
    (UnknownAgentError("ann", "w"), "unknown_agent", RecoveryAction.ABORT, {"agent_id": "ann", "world_id": "w"}),
    (TooManyAgentsError("w", 3), "too_many_agents", RecoveryAction.ABORT, {"world_id": "w", "limit": 3}),
    (
        UnregisteredPolicyError("register it so", name="mine", known=["default"]),
        "unregistered_policy",
        RecoveryAction.MODIFY_INTENT,
        {"name": "mine", "known": ["default"]},
    ),
    (
        InvalidPolicyError("a number from 0 on", "$.config.distance_limit"),
        "invalid_policy",
        RecoveryAction.MODIFY_INTENT,
        {"path": "$.config.distance_limit"},
    ),
    (
        UnknownGenerationError("ann", "r1"),
        "unknown_generation",
        RecoveryAction.ABORT,
        {"agent_id": "ann", "req_id": "r1"},
    ),
    (CircuitBreakerOpenError(), "circuit_open", RecoveryAction.RETRY_WITH_DELAY, {}),
    (CircuitBreakerOpenError(2.0), "circuit_open", RecoveryAction.RETRY_WITH_DELAY, {"retry_after_s": 2.0}),
]


@cases("error, code, recovery, details", _CASES)
def test_an_error_says_what_happened_and_what_to_do(
    error: SimulationError, code: str, recovery: RecoveryAction, details: dict[str, Any]
) -> None:
    """Each error of the pipeline has its code, its recovery, its facts and its attributes."""
    assert (error.code, error.recovery, error.details) == (code, recovery, details)
    assert str(error) == error.message
    for name in ("req_id", "expected_seq", "actual_seq", "quota_type", "policy", "limit", "permission", "deadline_ms"):
        if name in details and not isinstance(error, IntentConflictError | UnregisteredPolicyError):
            assert getattr(error, name) == details[name]


def test_a_conflict_keeps_the_intent_and_the_effects() -> None:
    """IntentConflictError has the intent and the whole effects as attributes."""
    assert CONFLICT.intent == intent("Move")
    assert CONFLICT.conflicting_effects == _EFFECTS
    assert CONFLICT.conflicting_effects is not _EFFECTS


def test_the_recovery_of_one_error_is_not_that_of_its_class() -> None:
    """What a shed intent is told leaves the class as it was."""
    BackpressureError("ann", "shed_oldest")
    assert BackpressureError.recovery is RecoveryAction.RETRY_WITH_DELAY


def test_every_error_has_one_door() -> None:
    """All errors of the rules are found in `worldledger.errors`, sorted, each with a code of its own."""
    offered = [getattr(errors, name) for name in errors.__all__]
    assert errors.__all__ == sorted(errors.__all__)
    found = {error for error in _all(SimulationError) if error.__module__.startswith("worldledger.errors")}
    beside = {SimulationError, RecoveryAction, errors.Problem, errors.dotted}  # what errors are made of
    assert found | beside == set(offered)
    codes = [error.code for error in found]
    assert len(set(codes)) == len(codes)


def _all(error: type[SimulationError]) -> set[type[SimulationError]]:
    return set(error.__subclasses__()).union(*map(_all, error.__subclasses__()))
