"""How long to wait before a failed attempt is repeated."""

from __future__ import annotations

import random
from typing import Final


class Backoff:
    """Pauses in seconds: the ``first``, and each one after it twice as long, up to the ``longest``.

    Each is multiplied by a random factor within ``spread``, so that waiting callers do not return all at once.
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
        """Sleep for the next pause."""
        import asyncio  # noqa: PLC0415 - programs that run no event loop use the pauses, too

        await asyncio.sleep(self.next())

    def reset(self) -> None:
        """Begin with the first pause again, after a success."""
        self._next = self._first
