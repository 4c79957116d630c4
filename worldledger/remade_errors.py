"""From what was told of an error back to the error: the same class, attributes, recovery and details."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from typing import Any

from worldledger import errors
from worldledger.errors import InvalidEffectError, InvalidKindError, RecoveryAction, SimulationError
from worldledger.kinds import parts


def remade(
    code: str,
    message: str,
    details: Mapping[str, Any],
    recovery: object = None,
    *,
    more: Mapping[str, type[SimulationError]] | None = None,
    unknown: Callable[[str, str], SimulationError] = lambda code, message: SimulationError(message),
) -> SimulationError:
    """Return the error that was told of by its code, message and details.

    ``intent`` of an error has what the details name of it; everything else is as it was. ``more`` has classes besides
    those of the tree and of the installed kinds; ``unknown`` makes the error of a code that is not known here, or whose
    details do not fit.
    """
    cls = (more or {}).get(code) or _classes().get(code) or _of_kinds().get(code)
    error = None if cls is None else _made(cls, message, details)
    if error is None:
        error = unknown(code, message)
    error.message = message
    error.args = (message,)
    error.details = dict(details)
    with suppress(ValueError):  # an action that is not known here: then it is the class's own
        found = RecoveryAction(recovery)
        if found is not error.recovery:
            error.recovery = found
    return error


def _made(cls: type[SimulationError], message: str, details: Mapping[str, Any]) -> SimulationError | None:
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
        return None


def _reason(cls: type[SimulationError], message: str, details: Mapping[str, Any]) -> str:
    """Return the part of a message that names the reason alone, where its beginning says which draft and path."""
    if issubclass(cls, InvalidEffectError):
        path, index = details.get("path"), details.get("index")
        return message.removeprefix(f"{path if index is None else f'{cls.what} {index}, {path}'}: ")
    if "path" in details:
        return message.removeprefix(f"{details['path']}: ")
    named = map(details.get, ("kind", "req_id", "agent_id"))
    return message.removeprefix("{} {!r} of {!r}: ".format(*named))


@cache
def _classes() -> Mapping[str, type[SimulationError]]:
    """Return the classes by their codes."""
    found: dict[str, type[SimulationError]] = {}
    for name in errors.__all__:
        value = getattr(errors, name)
        if isinstance(value, type) and issubclass(value, SimulationError):
            found[value.code] = value
    return found


@cache
def _of_kinds() -> Mapping[str, type[SimulationError]]:
    """Return the classes of the installed kinds by their codes; none if a kind cannot be loaded."""
    with suppress(InvalidKindError):
        return {cls.code: cls for classes in parts("errors").values() for cls in classes}
    return {}


def _parameters(cls: type[SimulationError]) -> Iterator[inspect.Parameter]:
    """Return the constructor's parameters that have names of their own."""
    for parameter in inspect.signature(cls).parameters.values():
        if parameter.kind is not parameter.VAR_KEYWORD:
            yield parameter
