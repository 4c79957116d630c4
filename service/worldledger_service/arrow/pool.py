"""Arrow for a long-running service: nothing is loaded or opened before it is needed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from worldledger.errors import ExtraMissingError

if TYPE_CHECKING:
    from worldledger_service.arrow.connections import Connections
    from worldledger_service.arrow.reading import Effects


# -- the check for the extra that Arrow needs -------------------------------------------------------------


_EXTRA: Final = "analytics"
_PACKAGES: Final = {
    "pyarrow": "pyarrow",
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
}


def needed() -> AbstractContextManager[None]:
    """Wrap imports that need the extra. Raises ExtraMissingError, which says what to install, if it is missing."""
    return ExtraMissingError.where_missing(_PACKAGES, _EXTRA)


class ArrowPool:
    """Lends the reader of effects as Arrow, with a few connections of its own."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self._url = url
        self._timeout = timeout
        self._connections: Connections | None = None

    def effects(self) -> Effects:
        """Return the reader of effects. Raises ExtraMissingError if Arrow is not installed."""
        with needed():
            from worldledger_service.arrow.connections import Connections  # noqa: PLC0415 - large, and not always installed
            from worldledger_service.arrow.reading import Effects  # noqa: PLC0415

        if self._connections is None:
            self._connections = Connections(self._url, timeout=self._timeout)
        return Effects(self._connections)

    async def close(self) -> None:
        """End running statements, and the connections."""
        if self._connections is not None:
            await self._connections.close()
