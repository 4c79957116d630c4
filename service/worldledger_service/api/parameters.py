"""The parameters that several routes share, checked so that nothing they hold can upset the database."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final
from urllib.parse import quote, urlencode

from fastapi import Path, Query
from pydantic import BeforeValidator
from starlette.requests import Request

from worldledger.canonical import MAX_INT, gate
from worldledger.chain import Position
from worldledger.drafts import MAX_WORD
from worldledger.errors import InvalidEffectError, SimulationError
from worldledger.genesis import NAME_RULE
from worldledger_service.api.errors import InvalidParameterError, PositionAheadError
from worldledger_service.api.wording import not_whole
from worldledger_service.store import WorldRecord

_DIGITS: Final = re.compile(r"[0-9]{1,16}\Z")
_NAME_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$"

WorldName = Annotated[
    str,
    Path(
        description=f"The world's name: {NAME_RULE}.",
        json_schema_extra={"pattern": _NAME_PATTERN, "minLength": 1, "maxLength": 200},
    ),
]


def whole(least: int) -> BeforeValidator:
    """Take decimal digits alone, from ``least`` to 2^53-1, and say so of anything else."""

    def check(text: Any) -> int:
        if not isinstance(text, str) or not _DIGITS.match(text) or not least <= int(text) <= MAX_INT:
            raise not_whole(least)
        return int(text)

    return BeforeValidator(check)


Seq = Annotated[int, whole(1), Path(ge=1, le=MAX_INT, description="The effect's global_seq.")]
AfterSeq = Annotated[int, whole(0), Query(ge=0, le=MAX_INT, description="Give effects after this global_seq.")]
UntilSeq = Annotated[int | None, whole(0), Query(ge=0, le=MAX_INT, description="Give effects up to this global_seq.")]
Limit = Annotated[int | None, whole(1), Query(ge=1, le=MAX_INT, description="Give at most this many.")]
#: How OpenAPI says that a text has no NUL character; `check_text` is what refuses it.
NO_NUL: Final[dict[str, Any]] = {"pattern": r"^[^\u0000]*$"}
#: How OpenAPI says what can be a world's name, where a query names one.
NAMED: Final[dict[str, Any]] = {"pattern": _NAME_PATTERN, "maxLength": 200}
Kind = Annotated[
    str | None,
    Query(min_length=1, max_length=MAX_WORD, description="Give effects of this kind only.", json_schema_extra=NO_NUL),
]
SourceId = Annotated[
    str | None,
    Query(min_length=1, max_length=MAX_WORD, description="Give effects of this source only.", json_schema_extra=NO_NUL),
]


def check_text(parameter: str, value: str | None, where: str = "query") -> None:
    """Raise InvalidParameterError for text that PostgreSQL cannot hold."""
    try:
        gate(value)
    except InvalidEffectError as error:
        raise InvalidParameterError(parameter, error.reason, where) from None


def check_reached(parameter: str, seq: int, record: WorldRecord, where: str = "query") -> None:
    """Raise PositionAheadError if a reader wants to go on from where the world has not come.

    Whoever was let go on from there would miss, without knowing, whatever comes until then.
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
