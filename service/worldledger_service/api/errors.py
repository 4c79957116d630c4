"""The errors that only HTTP knows, in the one tree of `worldledger.errors`."""

from __future__ import annotations

from worldledger.errors import RecoveryAction, SimulationError


class InvalidParameterError(SimulationError):
    """A query parameter, path segment or header that is not what it should be; details: ``in``, ``parameter``."""

    code = "invalid_parameter"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, parameter: str, reason: str, where: str = "query") -> None:
        super().__init__(f"{parameter}: {reason}", parameter=parameter, **{"in": where})


class BodyTooLargeError(SimulationError):
    """A request body over the limit; details: ``limit``, in bytes."""

    code = "body_too_large"
    recovery = RecoveryAction.MODIFY_INTENT


class HeaderTooLargeError(SimulationError):
    """The header of a request, or what stands between the pieces of its body, is over the limit; details: ``limit``."""

    code = "header_too_large"
    recovery = RecoveryAction.MODIFY_INTENT


class RequestTooSlowError(SimulationError):
    """A request of which too little came in time, so that nothing of it was done."""

    code = "request_too_slow"
    recovery = RecoveryAction.RETRY


class UnsupportedMediaTypeError(SimulationError):
    """A request body that is not declared to be JSON in UTF-8, or is compressed."""

    code = "unsupported_media_type"
    recovery = RecoveryAction.MODIFY_INTENT


class BadRequestError(SimulationError):
    """What came over the connection is no HTTP request."""

    code = "bad_request"
    recovery = RecoveryAction.MODIFY_INTENT


class TransferCodingError(SimulationError):
    """A request body in a transfer coding other than ``chunked``."""

    code = "transfer_coding_unknown"
    recovery = RecoveryAction.MODIFY_INTENT


class UpgradeRequiredError(SimulationError):
    """A plain request to an address that is a WebSocket's; details: ``subprotocol``."""

    code = "upgrade_required"
    recovery = RecoveryAction.MODIFY_INTENT


class SubprotocolRefusedError(SimulationError):
    """A WebSocket handshake that does not offer the subprotocol; details: ``subprotocol``, the one to offer."""

    code = "subprotocol_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidMessageError(SimulationError):
    """A WebSocket message that cannot be read; details: ``path`` (JSON path)."""

    code = "invalid_message"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(f"{path}: {reason}", path=path)


class HostRefusedError(SimulationError):
    """A request that calls the service by a name that is not one of its own; details: ``host``."""

    code = "host_refused"


class OriginRefusedError(SimulationError):
    """A request that a web page of another site made; details: ``origin``."""

    code = "origin_refused"


class PositionAheadError(SimulationError):
    """A position to go on from that lies beyond the world's head; details: ``head_seq``, ``in``, ``parameter``."""

    code = "position_ahead"
    recovery = RecoveryAction.MODIFY_INTENT


class SchemaNotFoundError(SimulationError):
    """No JSON Schema of that name is served; details: ``name``, ``known``."""

    code = "schema_not_found"


class ProjectionBehindError(SimulationError):
    """A projection has not come as far in a world as was asked for.

    Details: ``projection``, ``world_id``, ``cursor`` (the seq that it has come to), ``head_seq``, ``lag`` in effects.
    """

    code = "projection_behind"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class ProjectionUnavailableError(SimulationError):
    """What a projection has made cannot be read: it is just being made, or no runner was ever started."""

    code = "projection_unavailable"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class WritesRefusedError(SimulationError):
    """The database answers, and refuses whatever is to be written: its disk is full, say."""

    code = "writes_refused"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class InternalError(SimulationError):
    """An error that nobody foresaw."""

    code = "internal_error"
