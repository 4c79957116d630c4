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
        said = f"{name}: the service answered {status}: {error.message}"
        raise ModelError(f"http_{status}", said, may_pass=status in _PASSING) from error
    except (errors.timeout, httpx2.TimeoutException) as error:
        raise ModelError("timeout", f"{name}: the service was silent for too long", may_pass=True) from error
    except (errors.connection, httpx2.HTTPError) as error:
        raise ModelError(code, f"{name}: {what}: {error.__cause__ or error}", may_pass=True) from error
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        raise ModelError("malformed", f"{name}: the answer cannot be understood: {error}") from error
    except errors.any as error:
        raise ModelError("provider", f"{name}: {error}") from error


def text_of(value: Any) -> str:
    """Return a text of an answer, whose shape the libraries do not check. Raises TypeError."""
    if not isinstance(value, str):
        raise TypeError(f"a text was expected, not {type(value).__name__}")
    return value
