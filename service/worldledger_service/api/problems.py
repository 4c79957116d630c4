"""The one table from error to HTTP status, and the answers made from it: RFC 9457 problem details.

Every error of every route is ``application/problem+json`` with ``type``, ``title``, ``status``, ``detail``,
``code``, ``recovery`` (a RecoveryAction), ``instance`` and the error's own details (``path``, ``index`` …).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple

import orjson
import structlog
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope
from worldledger_projections.errors import (
    InvalidProjectionError,
    ProjectionFailedError,
    ProjectionNotFoundError,
    ProjectionRefusedError,
)

from worldledger import errors
from worldledger.errors import RecoveryAction, SimulationError
from worldledger.kinds import parts
from worldledger_service.api import wording
from worldledger_service.api.errors import (
    BadRequestError,
    BodyTooLargeError,
    HeaderTooLargeError,
    HostRefusedError,
    InternalError,
    InvalidMessageError,
    InvalidParameterError,
    OriginRefusedError,
    PositionAheadError,
    ProjectionBehindError,
    ProjectionUnavailableError,
    RequestTooSlowError,
    SchemaNotFoundError,
    SubprotocolRefusedError,
    TransferCodingError,
    UnsupportedMediaTypeError,
    UpgradeRequiredError,
    WritesRefusedError,
)

MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:worldledger:problem:"
#: Longest text repeated from a request, in characters.
_LONGEST: Final = 1000
#: Most problems of one configuration that an answer has.
_MOST_PROBLEMS: Final = 100

log = structlog.get_logger("worldledger.api")


# -- the table ---------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """How an error is answered: the status, what it is called, and after how many seconds to try again."""

    status: int
    title: str
    retry_after: int | None = None


_TABLE: Final[Mapping[type[SimulationError], Answer]] = {
    # what was sent
    errors.InvalidEffectError: Answer(422, "The effect is refused"),
    errors.EffectTooLargeError: Answer(413, "The effect is too large"),
    errors.ReservedKindError: Answer(422, "Only the service writes effects of this kind"),
    errors.IllegalEffectError: Answer(422, "The ruleset refuses the effect"),
    errors.InvalidNameError: Answer(422, "This cannot be a world's name"),
    errors.TimeAuthorityError: Answer(422, "This source may not set sim_time"),
    errors.TimeAuthorityHeldError: Answer(409, "Another adapter has the time authority"),
    errors.AuthoritySilentError: Answer(409, "The time authority is silent"),
    errors.SimTimeOrderError: Answer(409, "sim_time would go backwards"),
    errors.RequestConflictError: Answer(422, "The req_id was used with another body"),
    errors.InvalidConfigError: Answer(422, "The world is refused"),
    errors.InvalidSimulationConfigError: Answer(422, "The simulation is refused"),
    errors.InvalidDefinitionError: Answer(422, "The variables cannot be defined so"),
    errors.CircularSchemaError: Answer(422, "A schema contains itself"),
    errors.UnknownRulesetError: Answer(422, "No such ruleset is installed"),
    errors.InvalidIntentError: Answer(422, "The intent is refused"),
    errors.ValidatorError: Answer(500, "The world's validator failed"),
    errors.PolicyFailedError: Answer(500, "The agent's policy failed"),
    errors.IntentRefusedError: Answer(422, "The validator refuses the intent"),
    errors.InvalidPolicyError: Answer(422, "The policy is refused"),
    errors.UnregisteredPolicyError: Answer(422, "No such policy is registered"),
    errors.PermissionDeniedError: Answer(403, "The agent may not do this"),
    errors.InvalidRunError: Answer(422, "The round is refused"),
    errors.QueryRefusedError: Answer(422, "The query is refused"),
    InvalidParameterError: Answer(422, "A parameter is refused"),
    BodyTooLargeError: Answer(413, "The body is too large"),
    HeaderTooLargeError: Answer(431, "The header is too large"),
    RequestTooSlowError: Answer(408, "The request came too slowly"),
    UnsupportedMediaTypeError: Answer(415, "The body must be JSON"),
    InvalidMessageError: Answer(422, "The message cannot be read"),
    SubprotocolRefusedError: Answer(400, "The WebSocket speaks another subprotocol"),
    UpgradeRequiredError: Answer(426, "This is a WebSocket"),
    BadRequestError: Answer(400, "This is no HTTP request"),
    TransferCodingError: Answer(501, "The transfer coding is not known"),
    HostRefusedError: Answer(421, "The service has another name"),
    OriginRefusedError: Answer(403, "Pages of other sites may not do this"),
    # what is there
    errors.WorldNotFoundError: Answer(404, "No such world"),
    errors.EffectNotFoundError: Answer(404, "No such effect"),
    errors.MomentNotFoundError: Answer(404, "The world has no such moment"),
    PositionAheadError: Answer(409, "The log has not come so far"),
    ProjectionNotFoundError: Answer(404, "No such projection"),
    ProjectionRefusedError: Answer(409, "The projection is not in a state for this"),
    SchemaNotFoundError: Answer(404, "No such schema"),
    errors.UnknownQueryError: Answer(404, "No such query"),
    errors.UnknownAgentError: Answer(404, "The world has no such agent"),
    errors.UnknownGenerationError: Answer(404, "The agent has no such generation"),
    errors.TooManyAgentsError: Answer(409, "The world has no room for another agent"),
    errors.StaleContextError: Answer(409, "The intent was made from too old a view"),
    errors.IntentConflictError: Answer(409, "The intent does not fit the world as it is"),
    errors.WorldExistsError: Answer(409, "The world exists already"),
    errors.TamperedError: Answer(500, "The log was tampered with"),
    errors.FoldError: Answer(500, "The state cannot be folded"),
    errors.InvalidKindError: Answer(500, "A kind of worlds that is installed cannot be used"),
    InvalidProjectionError: Answer(500, "A projection of your own cannot be used"),
    ProjectionFailedError: Answer(500, "The projection cannot digest an effect"),
    # the state of the service
    errors.QuotaExceededError: Answer(429, "The agent's quota is used up"),
    errors.RateLimitedError: Answer(429, "Too many requests came from this address"),
    errors.BackpressureError: Answer(503, "Too many intents are waiting", retry_after=1),
    errors.CircuitBreakerOpenError: Answer(503, "This is left alone for a while", retry_after=1),
    errors.DeadlineExceededError: Answer(504, "The intent waited too long"),
    errors.QueryTimeoutError: Answer(504, "The query took too long"),
    errors.QueueClosedError: Answer(503, "What was read from is closed"),
    errors.OverloadedError: Answer(503, "Too much is waiting", retry_after=1),
    ProjectionBehindError: Answer(503, "The projection has not come so far", retry_after=1),
    ProjectionUnavailableError: Answer(503, "The projection cannot be read now", retry_after=1),
    errors.StoreUnavailableError: Answer(503, "The database is not available", retry_after=2),
    WritesRefusedError: Answer(503, "The database takes no writes", retry_after=5),
    errors.ExtraMissingError: Answer(501, "The service is installed without this part"),
    errors.SchemaVersionError: Answer(503, "The database's schema does not fit this program"),
    SimulationError: Answer(500, "Internal error"),
}

#: What clients are told of errors whose own message is for the operator: it names hosts and users.
_FOR_THE_OPERATOR: Final[Mapping[str, str]] = {
    errors.StoreUnavailableError.code: "the database is not available at the moment; the service's log says why",
    errors.SchemaVersionError.code: "the database's schema does not fit this program: see `worldledger db check`",
    InternalError.code: "an internal error; the service's log says more",
}
_OUTCOME_UNKNOWN: Final = (
    "the database went away; whether this call was written is not known: send it again with the same req_id, "
    "or read the log"
)

#: Statuses of errors that the framework raises itself.
_FRAMEWORK_CODES: Final[Mapping[int, str]] = {404: "not_found", 405: "method_not_allowed"}


@cache
def table() -> Mapping[type[SimulationError], Answer]:
    """Return how each class of errors is answered, those of installed kinds among them."""
    found = dict(_TABLE)
    for of_kind in parts("problems").values():
        found |= of_kind
    return found


def answer_for(error: SimulationError) -> Answer:
    """Return the answer of an error: its own class's, or the nearest base's."""
    answers = table()
    return next(answers[base] for base in type(error).__mro__ if base in answers)


def retry_after(error: SimulationError) -> int | None:
    """Return after how many whole seconds to try again: as the error says, or else as the table does."""
    said = error.details.get("retry_after_s")
    return answer_for(error).retry_after if said is None else max(1, math.ceil(said))


# -- rendering ---------------------------------------------------------------------------------------------


def problem_of(error: SimulationError, instance: str) -> dict[str, Any]:
    """Return the problem object of an error of ours; what is for the operator is logged and kept from the client."""
    answer = answer_for(error)
    details = error.details
    if error.code in _FOR_THE_OPERATOR:
        details = {"outcome": "unknown"} if details.get("outcome") == "unknown" else {}
        if answer.status == 503:
            log.warning("not available", error=error.message, code=error.code, route=instance)
    return _problem(
        answer.status,
        title=answer.title,
        detail=told(error),
        code=error.code,
        recovery=error.recovery,
        instance=instance,
        details=details,
    )


def enclosed_problem(error: SimulationError, instance: str) -> dict[str, Any]:
    """Return the problem object for a place that has no headers: ``retry_after_s`` says when to try again."""
    seconds = retry_after(error)
    problem = problem_of(error, instance)
    return problem if seconds is None else {"retry_after_s": seconds, **problem}


def problem_response(scope: Scope, error: SimulationError) -> Response:
    """Make the response for an error of ours."""
    seconds = retry_after(error)
    headers = {} if seconds is None else {"Retry-After": str(seconds)}
    if answer_for(error).status == HTTPStatus.UPGRADE_REQUIRED:
        headers |= {"Upgrade": "websocket", "Connection": "Upgrade"}
    return _response(problem_of(error, instance_of(scope)), headers)


def told(error: SimulationError) -> str:
    """Return what a client is told of an error, in words."""
    if error.code not in _FOR_THE_OPERATOR:
        return error.message
    return _OUTCOME_UNKNOWN if error.details.get("outcome") == "unknown" else _FOR_THE_OPERATOR[error.code]


def internal_error(scope: Scope) -> Response:
    """Make the response for an error that nobody foresaw; it tells nothing of the inside."""
    return problem_response(scope, InternalError("see the traceback"))


def no_route(scope: Scope) -> Response:
    """Make the response for a WebSocket handshake to an address that is none's."""
    problem = _problem(
        404,
        title="Not Found",
        detail=f"WebSocket {instance_of(scope)}: not found; docs/reference/http.md tells which there are",
        code=_FRAMEWORK_CODES[404],
        recovery=RecoveryAction.ABORT,
        instance=instance_of(scope),
    )
    return _response(problem, {})


def _problem(
    status: int,
    *,
    title: str,
    detail: str,
    code: str,
    recovery: RecoveryAction,
    instance: str,
    details: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    problem: dict[str, Any] = {
        **_bounded(details or {}),
        "type": TYPE_PREFIX + code,
        "title": title,
        "status": status,
        "detail": detail,
        "code": code,
        "recovery": recovery.value,
        "instance": instance,
    }
    return {name: _clip(value) for name, value in problem.items()}


def _bounded(details: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return details with the first of their problems, and how many there are, where there are very many."""
    found = details.get("problems")
    if not isinstance(found, list):
        return details
    shown = [{name: _clip(value) for name, value in problem.items()} for problem in found[:_MOST_PROBLEMS]]
    more = {"problems_found": len(found)} if len(found) > len(shown) else {}
    return {**details, "problems": shown, **more}


def _response(problem: Mapping[str, Any], headers: Mapping[str, str]) -> Response:
    return Response(encode(problem), problem["status"], {"Cache-Control": "no-store", **headers}, MEDIA_TYPE)


def encode(value: Any) -> bytes:
    """Write an answer that may repeat what somebody sent as JSON, whatever that is."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:  # lone surrogates of a request, or values that are not JSON
        return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


def _clip(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[:_LONGEST] + "…"
    return value


def instance_of(scope: Scope) -> str:
    """Return what a problem calls the request: its path as it was sent."""
    raw: bytes = scope.get("raw_path") or b""
    return raw.partition(b"?")[0].decode("latin-1")


# -- handlers ----------------------------------------------------------------------------------------------


async def on_simulation_error(request: Request, error: Exception) -> Response:
    """Answer an error of ours."""
    assert isinstance(error, SimulationError)  # noqa: S101 - registered for this class only
    return problem_response(request.scope, error)


async def on_validation_error(request: Request, error: Exception) -> Response:
    """Answer FastAPI's refusal of parameters; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    found = [
        (str(item["loc"][0]), ".".join(map(str, item["loc"][1:])), wording.reason(item)) for item in error.errors()
    ]
    where, parameter, reason = found[0]
    refused = InvalidParameterError(parameter, reason, where)
    if len(found) > 1:
        refused.details["errors"] = [
            {"in": where, "parameter": parameter, "reason": reason} for where, parameter, reason in found
        ]
    return problem_response(request.scope, refused)


async def on_http_exception(request: Request, error: Exception) -> Response:
    """Answer what the framework refuses: unknown routes and methods."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class only
    phrase = HTTPStatus(error.status_code).phrase
    detail = str(error.detail)
    if detail == phrase and error.status_code in _FRAMEWORK_CODES:
        detail = f"{request.method} {instance_of(request.scope)}: {phrase.lower()}; /openapi.json lists the routes"
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = ", ".join(_allowed(request))
    problem = _problem(
        error.status_code,
        title=phrase,
        detail=detail,
        code=_FRAMEWORK_CODES.get(error.status_code, f"http_{error.status_code}"),
        recovery=RecoveryAction.ABORT,
        instance=instance_of(request.scope),
    )
    return _response(problem, headers)


def _allowed(request: Request) -> list[str]:
    """Return the methods of all routes that have this path; the framework names only those of the first."""
    routes: list[BaseRoute] = request.app.router.routes
    found = [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes)
    ]
    return ["GET", "HEAD", *found[1:]] if found[:1] == ["GET"] else found
