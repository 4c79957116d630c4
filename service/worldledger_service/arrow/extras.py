"""The check for the extra that Arrow needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from worldledger.errors import ExtraMissingError

_EXTRA: Final = "analytics"
_PACKAGES: Final = {
    "pyarrow": "pyarrow",
    "adbc_driver_manager": "adbc-driver-manager",
    "adbc_driver_postgresql": "adbc-driver-postgresql",
}


@contextmanager
def needed() -> Iterator[None]:
    """Wrap imports that need the extra. Raises ExtraMissingError, which says what to install, if it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise ExtraMissingError.of(package, _EXTRA) from error
