"""The root of the error tree, and the actions that a caller can take after an error."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar


class RecoveryAction(Enum):
    """The action that a caller can take after an error (docs/reference/contracts.md, "Errors and recovery")."""

    RETRY = "retry"
    ABORT = "abort"
    REGENERATE = "regenerate"
    RETRY_WITH_DELAY = "retry_with_delay"
    MODIFY_INTENT = "modify_intent"
    DEFER = "defer"
    SHED_OLDEST = "shed_oldest"


class SimulationError(Exception):
    """Base of every error of this project: a message for people, a code and details for programs."""

    code: ClassVar[str] = "simulation_error"
    recovery: RecoveryAction = RecoveryAction.ABORT

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {name: value for name, value in details.items() if value is not None}
