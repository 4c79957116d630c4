"""Gauges: how one world of this process stands, for metrics, and for whoever keeps it open."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from worldledger_service.runtime.attachments import Attachments
    from worldledger_service.runtime.clocks import Clocks
    from worldledger_service.runtime.following import Follower
    from worldledger_service.runtime.generations import Generations
    from worldledger_service.runtime.observing import Observing
    from worldledger_service.runtime.outbox import Outbox
    from worldledger_service.runtime.quotas import Quotas
    from worldledger_service.runtime.submitting import Submitting
    from worldledger_service.runtime.ticks import Ticks


class Gauges:
    """What an Orchestrator tells of itself."""

    _attachments: Attachments
    _clocks: Clocks
    _follower: Follower
    _generations: Generations
    _observing: Observing
    _outbox: Outbox
    _submitting: Submitting
    _ticks: Ticks | None

    @property
    def quotas(self) -> Quotas:
        """The agents' quotas as they stand."""
        return self._submitting.quotas

    @property
    def waiting(self) -> int:
        """How many intents wait for their turn, or are waited for until a tick decides them."""
        return self._submitting.scheduler.waiting + (0 if self._ticks is None else self._ticks.waiting)

    @property
    def generations_cancelled(self) -> int:
        """How many generations were cancelled here."""
        return self._generations.cancelled

    @property
    def in_use(self) -> bool:
        """Whether somebody here needs the world to be kept open."""
        busy = self._attachments.in_use or self._observing.in_use or self._submitting.requests.in_flight > 0
        if self._ticks is not None and self._ticks.waiting > 0:
            return True
        return busy or len(self._outbox) > 0 or self._clocks.in_use

    @property
    def broken(self) -> bool:
        """Whether the world can no longer be followed: its log is damaged, or cannot be folded."""
        return self._follower.error is not None
