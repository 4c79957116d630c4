"""The one table from error to HTTP status, and the answers made from it: RFC 9457 problem details.

Every error of every route is ``application/problem+json`` with ``type``, ``title``, ``status``, ``detail``,
``code``, ``recovery`` (a RecoveryAction), ``instance`` and the error's own details (``path``, ``index`` …).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from http import HTTPStatus
from typing import Any, Final, NamedTuple, get_args
from weakref import WeakKeyDictionary

import orjson
import structlog
from fastapi.exceptions import RequestValidationError
from pydantic_core import PydanticCustomError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import Scope
from worldledger_projections.base import (
    InvalidProjectionError,
    ProjectionFailedError,
    ProjectionNotFoundError,
    ProjectionRefusedError,
)

from worldledger import errors
from worldledger.canonical import MAX_INT, child
from worldledger.errors import RecoveryAction, SimulationError
from worldledger.kinds import parts

# -- errors that only HTTP knows ---------------------------------------------------------------------------


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


class TooManyValuesError(SimulationError):
    """A request body with too many JSON values; details: ``limit``."""

    code = "too_many_values"
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
    """The connection sent bytes that are no HTTP request."""

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
    """A projection cannot be read: it is just being built, or no runner was ever started."""

    code = "projection_unavailable"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class WritesRefusedError(SimulationError):
    """The database answers, and refuses whatever is to be written: its disk is full, say."""

    code = "writes_refused"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class InternalError(SimulationError):
    """An unexpected error."""

    code = "internal_error"


# -- what Pydantic finds wrong, in plain words: what a value must be, never what was sent ------------------

_WANTED: Final = {
    "model_type": "an object",
    "model_attributes_type": "an object",
    "dict_type": "an object",
    "list_type": "a list",
    "string_type": "a string",
}
_SIMPLE: Final = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "string_unicode": "must not have lone surrogates",
}
_BOUNDS: Final = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}
_JSON_NAMES: Final = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def not_whole(least: int) -> PydanticCustomError:
    """Make the error of a parameter that is no whole number from ``least`` to 2^53-1."""
    limits = {"least": least, "most": MAX_INT}
    return PydanticCustomError("whole_number", "must be a whole number from {least} to {most}", limits)


def in_words(error: Mapping[str, Any]) -> str:
    """Return a phrase for one error of `ValidationError.errors`, to follow the name of the wrong value."""
    kind: str = error["type"]
    context: Mapping[str, Any] = error.get("ctx", {})
    if kind in _WANTED:
        return f"must be {_WANTED[kind]}, not {_JSON_NAMES.get(type(error['input']), 'something else')}"
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    units = "items" if context.get("field_type") == "List" else "characters"
    if kind in {"string_too_short", "too_short"}:
        least = context["min_length"]
        return "must not be empty" if least == 1 else f"must have at least {least} {units}"
    if kind in {"string_too_long", "too_long"}:
        return f"must have at most {context['max_length']} {units}"
    if kind in _BOUNDS:
        words, limit = _BOUNDS[kind]
        bound = context[limit]
        return f"must be {words} {int(bound) if float(bound).is_integer() else bound}"
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    if kind == "literal_error":
        return f"must be {context['expected']}"
    return str(error["msg"])


MEDIA_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:worldledger:problem:"
#: Longest text repeated from a request, in characters.
_LONGEST: Final = 1000
#: Most problems of one configuration that an answer has.
_MOST_PROBLEMS: Final = 100

log = structlog.get_logger("worldledger.api")


# -- the table ---------------------------------------------------------------------------------------------


class Answer(NamedTuple):
    """The answer to an error: its status, its title, and the seconds after which to try again."""

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
    errors.InvalidDefinitionError: Answer(422, "The variables cannot be defined so"),
    errors.CircularSchemaError: Answer(422, "A schema contains itself"),
    errors.UnknownRulesetError: Answer(422, "No such ruleset is installed"),
    errors.InvalidIntentError: Answer(422, "The intent is refused"),
    errors.ValidatorError: Answer(500, "The world's validator failed"),
    errors.PolicyFailedError: Answer(500, "The agent's policy failed"),
    errors.IntentRefusedError: Answer(422, "The validator refuses the intent"),
    errors.InvalidPolicyError: Answer(422, "The policy is refused"),
    errors.UnregisteredPolicyError: Answer(422, "No such policy is registered"),
    errors.NotComparableError: Answer(422, "The worlds cannot be compared so"),
    errors.PermissionDeniedError: Answer(403, "The agent may not do this"),
    errors.QueryRefusedError: Answer(422, "The query is refused"),
    InvalidParameterError: Answer(422, "A parameter is refused"),
    BodyTooLargeError: Answer(413, "The body is too large"),
    TooManyValuesError: Answer(413, "The body has too many values"),
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
    errors.AgentLeasedError: Answer(409, "Another program runs the agent"),
    errors.TooManyAgentsError: Answer(409, "The world has no room for another agent"),
    errors.StaleContextError: Answer(409, "The intent was made from too old a view"),
    errors.IntentConflictError: Answer(409, "The intent does not fit the world as it is"),
    errors.WorldExistsError: Answer(409, "The world exists already"),
    errors.ReadOnlyWorldError: Answer(409, "Only the beginning of the world is here"),
    errors.RerunConflictError: Answer(409, "The fork was written to"),
    errors.ParentMissingError: Answer(409, "The parent of the fork is missing"),
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
    errors.QueueClosedError: Answer(503, "The queue is closed"),
    errors.OverloadedError: Answer(503, "Too much is waiting", retry_after=1),
    ProjectionBehindError: Answer(503, "The projection has not come so far", retry_after=1),
    ProjectionUnavailableError: Answer(503, "The projection cannot be read now", retry_after=1),
    errors.StoreUnavailableError: Answer(503, "The database is not available", retry_after=2),
    WritesRefusedError: Answer(503, "The database takes no writes", retry_after=5),
    errors.StartingError: Answer(503, "The service is starting", retry_after=1),
    errors.ExtraMissingError: Answer(501, "The service is installed without this part"),
    errors.SchemaVersionError: Answer(503, "The database's schema does not fit this program"),
    SimulationError: Answer(500, "Internal error"),
}

#: Messages for clients in place of those for the operator, which name hosts and users.
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


#: Seconds after which one line says how often the same has kept requests from being answered.
_SUM_UP_SECONDS: Final = 30.0
#: What was logged lately on each event loop (an error's code and SQLSTATE), and how often it came again since.
_again: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, Counter[tuple[str, Any]]]] = WeakKeyDictionary()


def _log_unavailable(error: SimulationError, instance: str) -> None:
    """Log that a request could not be answered; while that goes on, log only how often."""
    what = (error.code, error.details.get("sqlstate"))
    loop = asyncio.get_running_loop()
    again = _again.setdefault(loop, Counter())
    if what in again:
        again[what] += 1
        return
    log.warning("not available", error=error.message, code=error.code, route=instance)

    def sum_up() -> None:
        if times := again.pop(what):
            log.warning("not available again", error=error.message, code=error.code, times=times)
            wait()

    def wait() -> None:
        again[what] = 0
        loop.call_later(_SUM_UP_SECONDS, sum_up)

    wait()


def problem_of(error: SimulationError, instance: str) -> dict[str, Any]:
    """Return the problem object of an error of ours; what is for the operator is logged and kept from the client."""
    answer = answer_for(error)
    details = error.details
    if error.code in _FOR_THE_OPERATOR:
        details = {"outcome": "unknown"} if details.get("outcome") == "unknown" else {}
        if answer.status == 503:
            _log_unavailable(error, instance)
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
    """Make the response to an unexpected error; it has no internal details."""
    return problem_response(scope, InternalError("see the traceback"))


def no_route(scope: Scope) -> Response:
    """Make the response for a WebSocket handshake to an address that has no route."""
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
    """Write an answer as JSON; it may repeat any value that a client has sent."""
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
    """Answer FastAPI's refusal of parameters, or of a body; what was sent is not repeated."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - registered for this class only
    first = error.errors()[0]
    if first["loc"][0] == "body":
        route = request.scope["route"]
        place, model = first["loc"][1:], route.body_field.field_info.annotation
        reason = _unknown_field(model, place) if first["type"] == "extra_forbidden" else in_words(first)
        path = "$"
        for key in place:
            path = child(path, key)
        return problem_response(request.scope, route.refused(reason, path))
    found = [(str(item["loc"][0]), ".".join(map(str, item["loc"][1:])), in_words(item)) for item in error.errors()]
    where, parameter, reason = found[0]
    refused = InvalidParameterError(parameter, reason, where)
    if len(found) > 1:
        refused.details["errors"] = [
            {"in": where, "parameter": parameter, "reason": reason} for where, parameter, reason in found
        ]
    return problem_response(request.scope, refused)


def _unknown_field(model: Any, place: tuple[str | int, ...]) -> str:
    """Name the known fields for a body that has an unknown one."""
    owner = "the body"
    for key in place[:-1]:
        if type(key) is int:  # the index of a list, whose elements the field's annotation names
            owner = child(owner, key)
        else:
            owner, model = str(key), next(_models(model.model_fields[key].annotation))
    return f"unknown field; {owner} has {', '.join(sorted(model.model_fields))}"


def _models(annotation: Any) -> Iterator[Any]:
    """Yield the models among which the values of an annotation are."""
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


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
