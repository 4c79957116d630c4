"""Errors of the routes of social-RL runs."""

from __future__ import annotations

from worldledger.errors import RecoveryAction, SimulationError


class RoundConflictError(SimulationError):
    """A round that cannot be the next one, or that is there with another content.

    Details: ``round_number``, ``last_round`` (0: none), ``expected`` (what the next one would be).
    """

    code = "round_conflict"
    recovery = RecoveryAction.MODIFY_INTENT
