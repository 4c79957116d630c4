"""What to do about an error: a caller's policy over the recoveries that errors suggest.

Source: docs/reference/intents.md, "Errors and recovery".
"""

from __future__ import annotations

from typing import Final

from worldledger.errors import (
    IntentConflictError,
    QuotaExceededError,
    RecoveryAction,
    SimulationError,
    StaleContextError,
)

#: The possible choices for each error.
STALE_CONTEXT: Final = (RecoveryAction.RETRY, RecoveryAction.ABORT, RecoveryAction.REGENERATE)
INTENT_CONFLICT: Final = (RecoveryAction.RETRY_WITH_DELAY, RecoveryAction.ABORT, RecoveryAction.MODIFY_INTENT)
QUOTA_EXCEEDED: Final = (RecoveryAction.DEFER, RecoveryAction.ABORT, RecoveryAction.SHED_OLDEST)


class ErrorRecoveryPolicy:
    """Chooses the reaction to errors: a configured one for three of them, for the others the one they suggest.

    Subclass it to choose by more than the class of the error. Raises ValueError for a choice that an error does not
    have: a stale intent is not merely deferred.
    """

    def __init__(
        self,
        *,
        stale_context: RecoveryAction = RecoveryAction.REGENERATE,
        intent_conflict: RecoveryAction = RecoveryAction.MODIFY_INTENT,
        quota_exceeded: RecoveryAction = RecoveryAction.DEFER,
    ) -> None:
        self.stale_context = _one_of("stale_context", stale_context, STALE_CONTEXT)
        self.intent_conflict = _one_of("intent_conflict", intent_conflict, INTENT_CONFLICT)
        self.quota_exceeded = _one_of("quota_exceeded", quota_exceeded, QUOTA_EXCEEDED)

    def handle_stale_context(self, error: StaleContextError) -> RecoveryAction:
        """Return RETRY, ABORT or REGENERATE."""
        return self.stale_context

    def handle_intent_conflict(self, error: IntentConflictError) -> RecoveryAction:
        """Return RETRY_WITH_DELAY, ABORT or MODIFY_INTENT."""
        return self.intent_conflict

    def handle_quota_exceeded(self, error: QuotaExceededError) -> RecoveryAction:
        """Return DEFER, ABORT or SHED_OLDEST."""
        return self.quota_exceeded

    def action_for(self, error: SimulationError) -> RecoveryAction:
        """Return the reaction to any error of this project."""
        if isinstance(error, StaleContextError):
            return self.handle_stale_context(error)
        if isinstance(error, IntentConflictError):
            return self.handle_intent_conflict(error)
        if isinstance(error, QuotaExceededError):
            return self.handle_quota_exceeded(error)
        return error.recovery


def _one_of(name: str, action: RecoveryAction, choices: tuple[RecoveryAction, ...]) -> RecoveryAction:
    if action not in choices:
        raise ValueError(f"{name} is one of {', '.join(choice.name for choice in choices)}, not {action}")
    return action
