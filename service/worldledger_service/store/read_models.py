"""Reading what projections have made of the logs: the views of the schema ``projections``.

The views come and go with the builds behind them. Rows are given with whatever columns the view has at the moment:
while a new version of a projection is being built, people go on reading the old one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import SchemaVersionError

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

Row = Mapping[str, Any]

#: What PostgreSQL says of a view, or a column of one, that is not there; and of one replaced during the query.
_MISSING: Final = frozenset({"42P01", "42703", "3F000"})


class ViewMissingError(Exception):
    """A view is not there, or not as it should be: its projection is being made anew."""


async def fetch_views(reader: Reader, statement: str, *arguments: Any) -> list[Row]:
    """Return the rows of a statement over views. Raises ViewMissingError or StoreUnavailableError."""
    try:
        return [*map(dict, await reader.fetch(statement, *arguments))]
    except SchemaVersionError as error:
        if error.details.get("sqlstate") in _MISSING:
            raise ViewMissingError(error.message) from error
        raise
