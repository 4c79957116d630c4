"""Reading what projections have made: views that may be missing for a moment, and waiting for a projection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import orjson
from worldledger_projections.base import Projection

from worldledger_service.api.context import Services
from worldledger_service.api.errors import ProjectionUnavailableError
from worldledger_service.runtime.guarding import reading
from worldledger_service.store.read_models import Row, ViewMissingError

T = TypeVar("T")


async def viewed(found: Services, ask: Callable[[], Awaitable[T]]) -> T:
    """Return what is read from the views. Raises ProjectionUnavailableError where one is missing, and as `reading`."""

    async def view() -> T:
        try:
            return await ask()
        except ViewMissingError as error:
            what = "what this projection has made is not to be had at the moment"
            raise ProjectionUnavailableError(what) from error

    return await reading(found.store.outages, view())


# -- rendering ---------------------------------------------------------------------------------------------


def to_json(value: Any) -> bytes:
    """Write an answer; times in UTC, with Z."""
    return orjson.dumps(value, option=orjson.OPT_UTC_Z)


def near_member(guesses: Sequence[str]) -> bytes:
    """Return the member `near` of a page, behind a comma: what may have been meant; nothing where there is nothing."""
    return b',"near":%b' % orjson.dumps(guesses) if guesses else b""


def as_told(projection: Projection, row: Row) -> Mapping[str, Any]:
    """Return a row as it is shown: JSON columns as the JSON that they hold."""
    texts = [column.name for column in projection.columns if column.type in {"json", "jsonb"}]
    return {**row, **{name: orjson.Fragment(row[name]) for name in texts if row.get(name) is not None}}
