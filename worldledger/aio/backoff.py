"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import asyncio
import random
from typing import Final


class Backoff:
    """Pauses in seconds: the ``first``, and each one after it twice as long, up to the ``longest``.

    ``spread`` is what each is multiplied by, at random between two factors: so that not all who wait come at once.
    """

    __slots__ = ("_first", "_longest", "_next", "_spread")

    def __init__(self, first: float, longest: float, *, spread: tuple[float, float] = (1.0, 1.0)) -> None:
        self._first: Final = min(first, longest)
        self._longest: Final = longest
        self._spread: Final = spread
        self._next = self._first

    def next(self) -> float:
        """Return the next pause."""
        pause = self._next
        self._next = min(2 * pause, self._longest)
        low, high = self._spread
        return pause if low == high == 1.0 else pause * random.uniform(low, high)  # noqa: S311 - no secret

    async def wait(self) -> None:
        """Let the next pause pass."""
        await asyncio.sleep(self.next())

    def reset(self) -> None:
        """Begin with the first pause again: all is well."""
        self._next = self._first
