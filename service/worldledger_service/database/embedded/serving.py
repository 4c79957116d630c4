"""Which service serves the database of a home: it holds ``service.lock``, which says at what address.

The kernel releases the lock however the service ends, so what is read here is true. Of several services on one home it
is the first; the others serve without it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.home import FileLock, open_home

_FILE: Final = "service.lock"
#: The longest address.
_MOST: Final = 1000
#: How often the lock is tried, and seconds between two attempts: who reads it holds it for a moment.
_ATTEMPTS: Final = 5
_PAUSE: Final = 0.02


@contextmanager
def announcing(home: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that takes the address at which this process serves a home's database; it holds until the end.

    Raises EmbeddedServerError for a home that cannot be used.
    """
    with FileLock(open_home(home).path / _FILE) as lock:

        def announce(address: str) -> None:
            for _ in range(_ATTEMPTS):
                if lock.try_exclusive():
                    os.ftruncate(lock.fd, 0)
                    os.pwrite(lock.fd, address.encode(), 0)
                    return
                time.sleep(_PAUSE)

        yield announce


def served_at(home: Path) -> str | None:
    """Return the address of the service that serves a home's database; None if there is none that says so."""
    try:
        path = open_home(home, create=False).path / _FILE
        if not path.exists():
            return None
        with FileLock(path) as lock:
            if lock.try_shared():
                return None
            return os.pread(lock.fd, _MOST, 0).decode(errors="replace") or None
    except (OSError, EmbeddedServerError):
        return None
