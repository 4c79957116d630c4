"""What the engine refuses: leaves of the one error tree (`worldledger.errors`)."""

from __future__ import annotations

from worldledger.errors import RecoveryAction, SimulationError


class ProjectionNotFoundError(SimulationError):
    """There is no projection of that name; details: ``projection``, ``known``."""

    code = "projection_not_found"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidProjectionError(SimulationError):
    """A projection of one's own cannot be used; the message says why. Details: ``projection``, as it was named."""

    code = "invalid_projection"
    recovery = RecoveryAction.MODIFY_INTENT


class ProjectionRefusedError(SimulationError):
    """What was asked of a projection cannot be done as it is now; the message says why. Details: ``projection``."""

    code = "projection_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class ProjectionFailedError(SimulationError):
    """A projection could not digest an effect; details: ``projection``, ``world_id``, ``global_seq``, ``kind``."""

    code = "projection_failed"
