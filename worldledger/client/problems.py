"""From a problem (RFC 9457) back to the error that it was made of: the same class, attributes, recovery and details."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any, Final

from worldledger import errors
from worldledger.errors import InvalidEffectError, RecoveryAction, SimulationError, StoreUnavailableError

#: The members of a problem that are not details of the error.
_STANDARD: Final = frozenset({"type", "title", "status", "detail", "code", "recovery", "instance"})
#: Statuses by which whatever stands between here and the service says that it cannot be reached.
_NOT_THERE: Final = frozenset({502, 503, 504})


class ServiceUnavailableError(StoreUnavailableError):
    """The service cannot be reached, or went away before it answered; details: ``url``, ``outcome``.

    Where ``outcome`` is ``unknown`` the request may have been carried out; the same req_id makes it safe to try again.
    """

    code = "service_unavailable"


class RemoteError(SimulationError):
    """A problem of a code that this version of the client does not know; ``code`` is that code, details its members."""

    code = "remote_error"

    def __init__(self, message: str, *, code: str | None = None, **details: Any) -> None:
        super().__init__(message, **details)
        if code is not None:
            vars(self)["code"] = code


def error_of(problem: Mapping[str, Any]) -> SimulationError:
    """Give the error that a problem tells of.

    ``intent`` of an error has what the problem names of it; everything else is as it was in the service. What is no
    problem of ours, or has a code that is not known here, becomes a RemoteError.
    """
    code = _text(problem.get("code")) or "remote_error"
    message = _text(problem.get("detail")) or _text(problem.get("title")) or code
    details = {name: value for name, value in problem.items() if name not in _STANDARD}
    cls = _classes().get(code)
    error = RemoteError(message, code=code) if cls is None else _made(cls, message, details)
    error.message = message
    error.args = (message,)
    error.details = details
    with suppress(ValueError):  # an action that is not known here: then it is the class's own
        recovery = RecoveryAction(problem.get("recovery"))
        if recovery is not error.recovery:
            error.recovery = recovery
    return error


def error_of_answer(status: int, body: object, url: str) -> SimulationError:
    """Give the error that an answer over HTTP tells of, by its parsed body or else by its status."""
    if isinstance(body, Mapping) and "code" in body:
        return error_of(body)
    what = f"{url} answered with status {status}"
    if status in _NOT_THERE:
        return ServiceUnavailableError(what, url=url, status=status)
    return RemoteError(what, code=f"http_{status}", url=url, status=status)


def seconds_to_wait(error: SimulationError) -> float:
    """Give the seconds after which the service says to try again; 0 where it does not say."""
    said = error.details.get("retry_after_s")
    return float(said) if isinstance(said, int | float) else 0.0


def _made(cls: type[SimulationError], message: str, details: Mapping[str, Any]) -> SimulationError:
    """Make an error by its own constructor, each argument from the detail of its name."""
    given = {
        "message": message,
        "reason": _reason(cls, message, details),
        "intent": {name: details.get(name) for name in ("req_id", "agent_id", "kind")},
        **details,
    }
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in _parameters(cls):
        if parameter.kind is parameter.KEYWORD_ONLY:
            if parameter.name in given:
                named[parameter.name] = given[parameter.name]
            elif parameter.default is parameter.empty:
                named[parameter.name] = None
        elif parameter.name in given:
            positional.append(given[parameter.name])
        else:
            positional.append(None if parameter.default is parameter.empty else parameter.default)
    try:
        return cls(*positional, **named)
    except (TypeError, ValueError):  # details of another version, say
        return RemoteError(message, code=cls.code)


def _reason(cls: type[SimulationError], message: str, details: Mapping[str, Any]) -> str:
    """Give the part of a message that names the reason alone, where its beginning says which draft and path."""
    if issubclass(cls, InvalidEffectError):
        path, index = details.get("path"), details.get("index")
        return message.removeprefix(f"{path if index is None else f'{cls.what} {index}, {path}'}: ")
    if "path" in details:
        return message.removeprefix(f"{details['path']}: ")
    named = map(details.get, ("kind", "req_id", "agent_id"))
    return message.removeprefix("{} {!r} of {!r}: ".format(*named))


@cache
def _classes() -> Mapping[str, type[SimulationError]]:
    """Give the classes by their codes."""
    found: dict[str, type[SimulationError]] = {}
    for name in errors.__all__:
        value = getattr(errors, name)
        if isinstance(value, type) and issubclass(value, SimulationError):
            found[value.code] = value
    # A position to go on from, as HTTP calls it, is a moment to an orchestrator.
    return found | {
        ServiceUnavailableError.code: ServiceUnavailableError,
        "position_ahead": errors.MomentNotFoundError,
    }


def _parameters(cls: type[SimulationError]) -> Iterator[inspect.Parameter]:
    """Give the constructor's parameters that have names of their own."""
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
