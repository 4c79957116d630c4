"""Builds that sit out for a while, because something is wrong with them alone: their table was altered, say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import structlog

#: Seconds to sit out after the first failure; it doubles with each, up to the second number.
_PAUSES: Final = (1.0, 60.0)

log = structlog.get_logger("worldledger.projections")


class Bench:
    """Who sits out until when, and why."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, float]] = {}
        #: what went wrong, by build
        self.why: dict[str, str] = {}

    def has(self, build: str) -> bool:
        """Tell whether a build sits out now."""
        return build in self._until and self._clock() < self._until[build][0]

    def send(self, build: str, error: Exception) -> None:
        """Let a build sit out."""
        first, longest = _PAUSES
        pause = min(self._until.get(build, (0.0, first / 2))[1] * 2, longest)
        self._until[build] = self._clock() + pause, pause
        why = f"{type(error).__name__}: {error}"
        if self.why.get(build) != why:
            log.error("a build cannot be written; the others go on", build=build, error=why, exc_info=error)
        self.why[build] = why

    def recall(self, build: str) -> None:
        """Note that all is well with a build."""
        if self._until.pop(build, None) is not None:
            del self.why[build]
            log.warning("a build is written again", build=build)
