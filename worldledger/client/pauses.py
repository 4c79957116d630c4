"""How long to wait before a failed attempt is repeated."""

from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.05
_LONGEST_SECONDS: Final = 5.0


class Pauses:
    """Pauses in seconds, each about twice as long as the one before, up to about five seconds.

    They are randomised, so that the clients of a service that is back do not reconnect all at once.
    """

    def __init__(self) -> None:
        self._next = _FIRST

    def next(self) -> float:
        """Return the next pause."""
        pause = self._next
        self._next = min(2 * pause, _LONGEST_SECONDS)
        return pause * random.uniform(0.5, 1.0)  # noqa: S311 - it need not be unpredictable
