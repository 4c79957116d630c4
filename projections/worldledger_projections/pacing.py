"""How long a runner waits: between two looks for news, and after something went wrong."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from typing import Final

import structlog

from worldledger_projections.outages import is_outage

#: Seconds at most for more news to gather, when there is some.
_BREATH: Final = 0.02
#: Seconds to wait after the first failure; it doubles with each, up to the second number.
_BACKOFF: Final = (0.05, 5.0)

log = structlog.get_logger("worldledger.projections")


class Pace:
    """The pauses of one runner, and what it tells of troubles: once for each, and once when they are over."""

    def __init__(self, poll_interval: float) -> None:
        self._poll_interval = poll_interval
        self._breath = min(poll_interval / 5, _BREATH)
        self._woken = asyncio.Event()
        self._failing: str | None = None
        #: how many rounds have failed in a row
        self.failures = 0

    def wake(self) -> None:
        """Let the next look be soon."""
        self._woken.set()

    async def rest(self, *, brief: bool) -> None:
        """Wait for the next look, or for being woken; what comes just after is taken in the same look.

        ``brief``: more news is to be expected, and the wait is short.
        """
        if not brief:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_interval):
                    await self._woken.wait()
        if brief or self._woken.is_set():
            await asyncio.sleep(self._breath)
            self._woken.clear()

    async def after(self, error: Exception) -> None:
        """Wait after a round that failed, longer each time."""
        what = "outage" if is_outage(error) else f"{type(error).__name__}: {error}"
        if what != self._failing:
            self._failing = what
            if what == "outage":
                log.warning("projections wait for the database", error=str(error) or type(error).__name__)
            else:
                log.error("projections cannot be fed; trying again", error=what, exc_info=error)
        first, longest = _BACKOFF
        pause = min(first * 2.0 ** min(self.failures, 20), longest)
        self.failures += 1
        await asyncio.sleep(pause * (0.5 + random.random()))  # noqa: S311 - only so that not all come at once

    def went_well(self) -> None:
        """Note that a round did not fail."""
        if self._failing is not None:
            log.warning("projections are fed again", failures=self.failures)
        self._failing, self.failures = None, 0
