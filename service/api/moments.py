"""Moments of a world in query parameters: a seq, a sim_time, a wall time or a turn."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final

from fastapi import Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from service.api.errors import InvalidParameterError
from service.api.parameters import whole
from worldledger.canonical import MAX_INT

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_EXAMPLE: Final = "2026-01-31T12:00:00Z"
_PLUS: Final = "a + in a URL is written %2B"


def finite(text: Any) -> float:
    """Read a finite number as JSON writes it."""
    if isinstance(text, str) and _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    raise PydanticCustomError("finite_text", "must be a finite number, such as 12.5")


def _moment(text: Any) -> datetime:
    """Read ISO 8601 with an offset: without one nobody knows which moment is meant."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        what = "must be a time in ISO 8601, such as {example} ({plus})"
        raise PydanticCustomError("moment", what, {"example": _EXAMPLE, "plus": _PLUS}) from None
    if found.tzinfo is None:
        what = "has no offset from UTC: send it as {example}, or with an offset such as +02:00 ({plus})"
        raise PydanticCustomError("moment", what, {"example": _EXAMPLE, "plus": _PLUS})
    return found


AtSeq = Annotated[int | None, whole(1), Query(ge=1, le=MAX_INT, description="The state after this global_seq.")]
AtSimTime = Annotated[
    float | None,
    BeforeValidator(finite),
    Query(description="The state after the last effect at or before this sim_time, in seconds."),
]
AtWallTime = Annotated[
    datetime | None,
    BeforeValidator(_moment),
    Query(
        description="The state after the last effect at or before this time: ISO 8601 with its offset or Z.",
        examples=[_EXAMPLE],
    ),
]
AtTurn = Annotated[
    int | None,
    whole(0),
    Query(
        ge=0,
        le=MAX_INT,
        description="The state at the end of this turn of a simulation: before the next one begins, or now.",
    ),
]


def check_one(**moments: object) -> None:
    """Raise InvalidParameterError where more than one moment is given."""
    given = [name for name, moment in moments.items() if moment is not None]
    if len(given) > 1:
        raise InvalidParameterError(given[1], f"contradicts {given[0]}; give one of {', '.join(moments)}")


async def known(request: Request) -> None:
    """Raise InvalidParameterError for a parameter that the route does not know. A dependency of routers.

    A misspelt moment would be answered with another one.
    """
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    names = set(_names(route.dependant))
    for name in request.query_params:
        if name not in names:
            close = get_close_matches(name, names, 1)
            hint = f"did you mean {close[0]!r}? " if close else ""
            told = f"it has {', '.join(sorted(names))}" if names else "it has none"
            raise InvalidParameterError(name, f"is no parameter of this route: {hint}{told}")


async def once(request: Request) -> None:
    """Raise InvalidParameterError for a parameter that stands twice, or that the route does not know."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name in seen:
            raise InvalidParameterError(name, "stands more than once")
        seen.add(name)
    await known(request)


def _names(dependant: Dependant) -> Iterator[str]:
    """Give the names of the query parameters that are asked for."""
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _names(inner)
