"""From a problem (RFC 9457) back to the error that it was made of: the same class, attributes, recovery and details."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger import errors
from worldledger.aio import Backoff
from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger.remade_errors import remade

#: The members of a problem that are not details of the error.
_STANDARD: Final = frozenset({"type", "title", "status", "detail", "code", "recovery", "instance"})
#: Statuses by which a proxy says that the service cannot be reached.
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
    """Return the error that a problem tells of.

    ``intent`` of an error has what the problem names of it; everything else is as it was in the service. What is no
    problem of ours, or has a code that is not known here, becomes a RemoteError.
    """
    code = _text(problem.get("code")) or "remote_error"
    message = _text(problem.get("detail")) or _text(problem.get("title")) or code
    details = {name: value for name, value in problem.items() if name not in _STANDARD}
    return remade(code, message, details, problem.get("recovery"), more=_MORE, unknown=_unknown)


def error_of_answer(status: int, body: object, url: str) -> SimulationError:
    """Return the error that an answer over HTTP tells of, by its parsed body or else by its status."""
    if isinstance(body, Mapping) and "code" in body:
        return error_of(body)
    what = f"{url} answered with status {status}"
    if status in _NOT_THERE:
        return ServiceUnavailableError(what, url=url, status=status)
    return RemoteError(what, code=f"http_{status}", url=url, status=status)


def new_backoff() -> Backoff:
    """Return the pauses of a client whose service is away: clients do not all come at once when it is back."""
    return Backoff(0.05, 5.0, spread=(0.5, 1.0))


def seconds_to_wait(error: SimulationError) -> float:
    """Return the seconds after which the service says to try again; 0 if it does not say."""
    said = error.details.get("retry_after_s")
    return float(said) if isinstance(said, int | float) else 0.0


def _unknown(code: str, message: str) -> RemoteError:
    return RemoteError(message, code=code)


#: Classes that are not in the tree. HTTP's position to continue from is an orchestrator's moment.
_MORE: Final[Mapping[str, type[SimulationError]]] = {
    ServiceUnavailableError.code: ServiceUnavailableError,
    "position_ahead": errors.MomentNotFoundError,
}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
