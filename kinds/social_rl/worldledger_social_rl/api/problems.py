"""How the errors of social-RL runs are answered over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from worldledger_service.api.problems import Answer

from worldledger.errors import RecoveryAction, SimulationError
from worldledger_social_rl.rules.errors import InvalidRunError

# Errors of the routes of social-RL runs.


class RoundConflictError(SimulationError):
    """A round that cannot be the next one, or that is there with another content.

    Details: ``round_number``, ``last_round`` (0: none), ``expected`` (what the next one would be).
    """

    code = "round_conflict"
    recovery = RecoveryAction.MODIFY_INTENT


PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    InvalidRunError: Answer(422, "The round is refused"),
    RoundConflictError: Answer(409, "This is not the round that is wanted"),
}
