"""The parameters that several routes share, checked so that nothing they hold can upset the database; moments too."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Header, Path, Query
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError
from starlette.requests import Request

from worldledger.canonical import MAX_INT, gate
from worldledger.chain import Position
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidEffectError, SimulationError
from worldledger.genesis import NAME_PATTERN, NAME_RULE
from worldledger.moments import HEAD, Moment, UnreadableMomentError, moment_rule, parse_moment
from worldledger_service.api.problems import InvalidParameterError, PositionAheadError, not_whole
from worldledger_service.store import WorldRecord

_DIGITS: Final = re.compile(r"[0-9]{1,16}\Z")

WorldName = Annotated[
    str,
    Path(
        description=f"The world's name: {NAME_RULE}.",
        json_schema_extra={"pattern": NAME_PATTERN, "minLength": 1, "maxLength": 200},
    ),
]


def whole(least: int) -> BeforeValidator:
    """Accept decimal digits alone, from ``least`` to 2^53-1, with an error that says so."""

    def check(text: Any) -> int:
        if not isinstance(text, str) or not _DIGITS.match(text) or not least <= int(text) <= MAX_INT:
            raise not_whole(least)
        return int(text)

    return BeforeValidator(check)


Seq = Annotated[int, whole(1), Path(ge=1, le=MAX_INT, description="The effect's global_seq.")]
AfterSeq = Annotated[int, whole(0), Query(ge=0, le=MAX_INT, description="Give effects after this global_seq.")]
UntilSeq = Annotated[int | None, whole(0), Query(ge=0, le=MAX_INT, description="Give effects up to this global_seq.")]
Limit = Annotated[int | None, whole(1), Query(ge=1, le=MAX_INT, description="Give at most this many.")]


#: Where a stream of server-sent events goes on.
LastEventId = Annotated[
    str | None,
    Header(
        alias="Last-Event-ID",
        description="The last position that the client has; goes before the parameter. Browsers send it.",
        json_schema_extra={"pattern": "^[0-9]{1,16}$"},
    ),
]

_OF_HISTORY: Final = re.compile(r"(?:parent:)*([0-9]{1,16})\Z")


def seq_of_history(text: str) -> str:
    """Return a seq, which ``parent:`` may stand before; others are refused."""
    found = _OF_HISTORY.match(text)
    if found is None or not 1 <= int(found[1]) <= MAX_INT:
        what = f"{not_whole(1).message()}, or parent: and one for an effect of the parent"
        raise PydanticCustomError("seq_of_history", "{what}", {"what": what})
    return text


def held(text: str) -> str:
    """Return a text that PostgreSQL can hold; others are refused."""
    try:
        gate(text)
    except InvalidEffectError as error:
        raise PydanticCustomError("text", "{why}", {"why": error.reason}) from None
    return text


#: How OpenAPI says that a text has no NUL character.
NO_NUL: Final[dict[str, Any]] = {"pattern": r"^[^\u0000]*$"}
#: A text that PostgreSQL can hold.
Text = Annotated[str, Field(json_schema_extra=NO_NUL), AfterValidator(held)]
#: How OpenAPI says what can be a world's name, where a query names one.
NAMED: Final[dict[str, Any]] = {"pattern": NAME_PATTERN, "maxLength": 200}
Kind = Annotated[
    Text | None,
    Query(min_length=1, max_length=MAX_WORD, description="Give effects of this kind only."),
]
SourceId = Annotated[
    Text | None,
    Query(min_length=1, max_length=MAX_WORD, description="Give effects of this source only."),
]


def check_reached(parameter: str, seq: int, record: WorldRecord, where: str = "query") -> None:
    """Raise PositionAheadError if a reader wants to continue after a position that the world has not reached.

    It would miss, without knowing, all effects up to there.
    """
    if seq > record.head_seq:
        raise PositionAheadError(
            f"{parameter}: {seq} lies beyond the head of world {record.world_id!r}, which is {record.head_seq}",
            parameter=parameter,
            head_seq=record.head_seq,
            **{"in": where},
        )


def position(parameter: str, text: str) -> Position:
    """Read ``SEQ:CHECKSUM``. Raises InvalidParameterError."""
    try:
        found = Position.parse(text)
    except SimulationError as error:
        raise InvalidParameterError(parameter, error.message) from None
    if found.global_seq > MAX_INT:
        raise InvalidParameterError(parameter, f"no global_seq lies beyond {MAX_INT}")
    return found


def next_link(request: Request, **changes: Any) -> dict[str, str]:
    """Return the Link header of the next page: this request with other parameters (RFC 8288)."""
    query = {**request.query_params, **changes}
    return {"Link": f'<{quote(request.url.path)}?{urlencode(query)}>; rel="next"'}


# -- moments: ``at``, written as `worldledger.moments` says, or one of the older ones ----------------------

_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?\Z")
_EXAMPLE: Final = "2026-01-31T12:00:00Z"
_PLUS: Final = "a + in a URL is written %2B"


def finite(text: Any) -> float:
    """Read a finite number as JSON writes it."""
    if isinstance(text, str) and _NUMBER.match(text) and math.isfinite(float(text)):
        return float(text)
    raise PydanticCustomError("finite_text", "must be a finite number, such as 12.5")


def _moment(text: Any) -> datetime:
    """Read ISO 8601 with an offset: without one the moment is ambiguous."""
    try:
        found = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        what = "must be a time in ISO 8601, such as {example} ({plus})"
        raise PydanticCustomError("moment", what, {"example": _EXAMPLE, "plus": _PLUS}) from None
    if found.tzinfo is None:
        what = "has no offset from UTC: send it as {example}, or with an offset such as +02:00 ({plus})"
        raise PydanticCustomError("moment", what, {"example": _EXAMPLE, "plus": _PLUS})
    return found


def _at(text: str | None) -> str | None:
    """Return a moment that can be read; others are refused."""
    if text is not None:
        try:
            parse_moment(text)
        except UnreadableMomentError as error:
            raise PydanticCustomError("moment", "{why} ({plus})", {"why": str(error), "plus": _PLUS}) from None
    return text


_CHECKED: Final = AfterValidator(_at)
_MOST: Final = 100

_ISO: Final = (
    "[1-9][0-9]{3}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]"
    r"(:[0-5][0-9](\.[0-9]{1,6})?)?(Z|[+-](0[0-9]|1[0-4]):[0-5][0-9])"
)
#: How OpenAPI says what a moment looks like; `_CHECKED` is what reads it, and a few other spellings of times.
LOOKS: Final = {
    "pattern": r"^(head|[0-9]{1,15}|(?!sim:|wall:)[a-z][a-z_]{0,63}:[0-9]{1,15}"
    rf"|sim:-?[0-9]{{1,15}}(\.[0-9]{{1,15}})?([eE][+-]?[0-9]{{1,2}})?|(wall:)?{_ISO})$"
}
_ALONE: Final = "Only one moment may be given, by whichever parameter."

At = Annotated[
    str | None,
    Query(
        max_length=_MOST,
        description=f"The moment: {moment_rule()}. {_ALONE}",
        examples=["step:5"],
        json_schema_extra=LOOKS,
    ),
    _CHECKED,
]
From = Annotated[
    str | None,
    Query(
        alias="from",
        max_length=_MOST,
        description=f"The state at this moment …: {moment_rule()}. It, or `from_seq`, has to be given, but not both.",
        examples=["step:5"],
        json_schema_extra=LOOKS,
    ),
    _CHECKED,
]
To = Annotated[
    str | None,
    Query(
        alias="to",
        max_length=_MOST,
        description="… and at this one: the head, if not given. It may be the earlier. Not together with `to_seq`.",
        examples=["head"],
        json_schema_extra=LOOKS,
    ),
    _CHECKED,
]
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
        description="The state at the end of this turn, in a world that has turns: before the next one begins, or now.",
    ),
]


def one_moment(at: str | None, **older: Any) -> Moment:
    """Return the one moment that is asked for: the head where none is. Raises InvalidParameterError.

    ``older`` are the other parameters that a route has for it: at_seq, at_sim_time, at_wall_time, at_turn or turn.
    """
    check_one(at=at, **older)
    given = {name: value for name, value in older.items() if value is not None}
    if at is not None:
        return parse_moment(at)
    if not given:
        return HEAD
    ((name, value),) = given.items()
    if name == "at_wall_time":
        return Moment(wall_time=value.timestamp())
    if name in {"at_turn", "turn"}:
        return Moment(unit=("turn", value))
    return Moment(**{name.removeprefix("at_"): value})


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
    """Return the names of the query parameters that are asked for."""
    for field in dependant.query_params:
        yield field.alias
    for inner in dependant.dependencies:
        yield from _names(inner)
