"""Reading the results of projections: the views of the schema ``projections``.

The views come and go with the builds below them. Rows have the columns that the view has at the moment: while a new
version of a projection is being built, the old one can still be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import SchemaVersionError

if TYPE_CHECKING:
    from worldledger_service.store.reader import Reader

Row = Mapping[str, Any]

#: PostgreSQL's codes for a missing view, or column of one, and for one replaced during the query.
_MISSING: Final = frozenset({"42P01", "42703", "3F000"})


class ViewMissingError(Exception):
    """A view is missing, or not as it should be: its projection is being rebuilt."""


async def fetch_views(reader: Reader, statement: str, *arguments: Any) -> list[Row]:
    """Return the rows of a statement over views. Raises ViewMissingError or StoreUnavailableError."""
    try:
        return [*map(dict, await reader.fetch(statement, *arguments))]
    except SchemaVersionError as error:
        if error.details.get("sqlstate") in _MISSING:
            raise ViewMissingError(error.message) from error
        raise
