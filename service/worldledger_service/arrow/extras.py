"""What of Arrow is not installed with the service itself."""

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
    """Import inside what needs the extra. Raises ExtraMissingError, which says what to install, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = _PACKAGES.get((error.name or "").partition(".")[0])
        if package is None:
            raise
        raise ExtraMissingError.of(package, _EXTRA) from error
