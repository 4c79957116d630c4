"""What goes wrong with the services of models: the errors of a provider's library as ModelErrors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import httpx2

from worldledger.llm.model import ModelError

#: Statuses by which a service says that another try may go better.
_PASSING: Final = frozenset({408, 409, 429, 500, 502, 503, 504, 529})
#: The type of an answer that comes piece by piece.
_STREAM: Final = "text/event-stream"
#: What to do about a status.
_ADVICE: Final = {
    400: "look at the persona's parameters: they are passed on as they are",
    401: "look at the key that it is given",
    403: "look at the key that it is given",
    404: "look at the model's name and the service's address",
    429: "it is asked too often, or too much: a persona may have a budget and a pause",
}


class Errors(NamedTuple):
    """The errors of a provider's library: of a status, of silence, of the connection, and of all."""

    status: Any
    timeout: Any
    connection: Any
    any: Any


@contextmanager
def mapped(errors: Errors, name: str, code: str, what: str) -> Iterator[None]:
    """Turn what a library raises into a ModelError, a lost connection into one of this code."""
    try:
        yield
    except errors.status as error:
        status = error.status_code
        advice = _ADVICE.get(status, "try again later" if status in _PASSING else None)
        said = f"{name}: the service answered {status}: {error.message}" + (f"; {advice}" if advice else "")
        raise ModelError(f"http_{status}", said, may_pass=status in _PASSING) from error
    except (errors.timeout, httpx2.TimeoutException) as error:
        said = f"{name}: the service was silent for too long; look whether it is busy, or ask a smaller model"
        raise ModelError("timeout", said, may_pass=True) from error
    except (errors.connection, httpx2.HTTPError) as error:
        said = f"{name}: {what}: {error.__cause__ or error}; look whether it runs, and at its address"
        raise ModelError(code, said, may_pass=True) from error
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        said = f"{name}: the answer cannot be understood: {error}; look whether the service speaks this protocol"
        raise ModelError("malformed", said) from error
    except errors.any as error:
        raise ModelError("provider", f"{name}: {error}") from error


def without_end(name: str, response: Any, *, begun: bool) -> ModelError:
    """Return the error of an answer that has not ended in order: it was cut off, or is none of this protocol.

    ``begun``: whether any of it could be read.
    """
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if begun or kind == _STREAM:
        return ModelError("cut", f"the answer of {name} was cut off", may_pass=True)
    what = f"{name}: the service answered with {kind or 'what has no type'}, which is no stream of this protocol"
    return ModelError("malformed", f"{what}; look at its address (--base-url)")


def text_of(value: Any) -> str:
    """Return a text of an answer, whose shape the libraries do not check. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value
