"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.05
_MOST: Final = 5.0


class Pauses:
    """Pauses in seconds, each about twice as long as the one before, up to about five seconds.

    They differ by chance, so that the clients of a service that has come back do not come all at once.
    """

    def __init__(self) -> None:
        self._next = _FIRST

    def next(self) -> float:
        """Return the next one."""
        pause = self._next
        self._next = min(2 * pause, _MOST)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - nobody is to be kept from guessing it
