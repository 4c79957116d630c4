"""Turns: who may be judged and written now. The stages backpressure, priority and fairness, put together.

Each stage is its own class (`backpressure.py`, `priorities.py`, `fairness.py`); here is what they share, the waiting.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Final, Literal, Self

from worldledger.errors import BackpressureError, DeadlineExceededError, SimulationError
from worldledger_service.runtime.backpressure import Backpressure
from worldledger_service.runtime.fairness import Ticket
from worldledger_service.runtime.priorities import Priorities

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig

#: Shortest and longest sleep for a deadline, in seconds: a timer may fire a little before its time.
_SLEEP: Final = (0.001, 3600.0)


class _Waiter(Ticket):
    """A ticket with the one who holds it. The result of ``told`` is None for a turn, else the error to raise."""

    __slots__ = ("place", "told", "turn")

    def __init__(self, turn: Turn, told: asyncio.Future[SimulationError | None]) -> None:
        super().__init__(turn.agent_id, turn.priority, turn.weight)
        self.turn = turn
        self.told = told
        self.place: Literal["nowhere", "deferred", "line"] = "nowhere"


class Turn:
    """One turn, to be used once: ``async with scheduler.turn(…):``."""

    __slots__ = ("_scheduler", "agent_id", "deadline_at", "priority", "req_id", "weight")

    def __init__(
        self, scheduler: Scheduler, agent_id: str, priority: int, weight: int, deadline_at: float | None, req_id: str
    ) -> None:
        self._scheduler = scheduler
        self.agent_id = agent_id
        self.priority = priority
        self.weight = weight
        self.deadline_at = deadline_at
        self.req_id = req_id

    async def __aenter__(self) -> Self:
        if not self._scheduler.try_begin(self):
            await self._scheduler.wait(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scheduler.end()


class Scheduler:
    """Gives turns, at most ``max_in_flight`` at once.

    Whoever finds room has its turn at once, without yielding to the event loop. Else it waits in line, where the next
    is chosen by priority, age and fairness (`Priorities`); if the line is full, the configuration's
    ``backpressure_policy`` says who goes. A waiter that is cancelled leaves nothing behind. ``deadline_at`` is in
    seconds of ``clock``.
    """

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._most = config.max_in_flight
        self._deadline_ms = config.deadline_ms
        self._in_flight = 0
        self._arrivals = 0
        self._backpressure: Backpressure[_Waiter] = Backpressure(config)
        self._line: Priorities[_Waiter] = Priorities(config.ageing_ms / 1000.0)

    @property
    def in_flight(self) -> int:
        """How many have their turn now."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """How many are in line; never more than ``max_pending``."""
        return len(self._line)

    @property
    def deferred(self) -> int:
        """How many wait for room in the line; only with the policy ``defer``."""
        return self._backpressure.deferred

    def turn(
        self,
        agent_id: str,
        priority: int = 0,
        weight: int = 1,
        *,
        deadline_at: float | None = None,
        req_id: str = "",
    ) -> Turn:
        """Return a turn to enter: it begins with the ``async with`` block, which may have to wait, and ends with it.

        Entering raises DeadlineExceededError if the deadline has passed or passes in waiting, and BackpressureError if
        there is no room (``drop_newest``) or others have taken its place (``shed_oldest``).
        """
        return Turn(self, agent_id, priority, weight, deadline_at, req_id)

    def try_begin(self, turn: Turn) -> bool:
        """Begin a turn if there is room. Nobody is overtaken: while there is room, nobody waits."""
        if turn.deadline_at is not None and self._clock() >= turn.deadline_at:
            raise self._too_late(turn, self._clock())
        if self._in_flight >= self._most:
            return False
        self._in_flight += 1
        return True

    async def wait(self, turn: Turn) -> None:
        """Wait in line until the turn has begun."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(turn, loop.create_future())
        began = self._clock()
        self._receive(waiter)
        timer = _Timer(self._clock, turn.deadline_at, lambda: self._dismiss(waiter, self._too_late(turn, began)))
        try:
            refused = await waiter.told
        except asyncio.CancelledError:
            if waiter.place != "nowhere":
                self._remove(waiter)
            elif not waiter.told.cancelled() and waiter.told.result() is None:
                self.end()
            raise
        finally:
            timer.stop()
        if refused is not None:
            raise refused

    def end(self) -> None:
        """End a turn that has begun: the next in line has it."""
        self._in_flight -= 1
        if not len(self._line):
            return
        now = self._clock()
        while self._in_flight < self._most and (waiter := self._line.first(now)) is not None:
            if waiter.told.done():  # cancelled just now
                self._remove(waiter)
                continue
            self._line.serve(waiter)
            self._backpressure.leave(waiter)
            waiter.place = "nowhere"
            self._in_flight += 1
            waiter.told.set_result(None)
            self._refill()

    # -- the line ------------------------------------------------------------------------------------------

    def _receive(self, waiter: _Waiter) -> None:
        policy = self._backpressure.policy
        if self._backpressure.has_room(waiter.agent_id):
            self._enter(waiter)
        elif policy == "defer":
            self._backpressure.defer(waiter)
            waiter.place = "deferred"
        elif policy == "drop_newest":
            raise BackpressureError(waiter.agent_id, policy)
        else:
            oldest = self._backpressure.oldest(waiter.agent_id)
            self._dismiss(oldest, BackpressureError(oldest.agent_id, policy))
            self._enter(waiter)

    def _enter(self, waiter: _Waiter) -> None:
        self._arrivals += 1
        waiter.number = self._arrivals
        waiter.since = self._clock()
        waiter.place = "line"
        self._backpressure.enter(waiter)
        self._line.add(waiter)

    def _dismiss(self, waiter: _Waiter, error: SimulationError) -> None:
        """Let a waiter go that has had no turn, and tell it why."""
        self._remove(waiter)
        if not waiter.told.done():
            waiter.told.set_result(error)

    def _remove(self, waiter: _Waiter) -> None:
        if waiter.place == "line":
            self._line.discard(waiter)
            self._backpressure.leave(waiter)
        elif waiter.place == "deferred":
            self._backpressure.forget(waiter)
        waiter.place = "nowhere"
        self._refill()

    def _refill(self) -> None:
        """Let deferred ones in, as far as there is room."""
        while (waiter := self._backpressure.readmit()) is not None:
            self._enter(waiter)

    def _too_late(self, turn: Turn, began: float) -> DeadlineExceededError:
        waited = 0.0 if turn.deadline_at is None else max(0.0, turn.deadline_at - began) * 1000.0
        return DeadlineExceededError(turn.req_id, self._deadline_ms or round(waited, 3))


class _Timer:
    """Calls once when a deadline has passed, as its clock tells it; never without a deadline."""

    def __init__(self, clock: Callable[[], float], deadline_at: float | None, call: Callable[[], None]) -> None:
        self._clock = clock
        self._deadline_at = deadline_at
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._sleep()

    def stop(self) -> None:
        """Call no more."""
        if self._handle is not None:
            self._handle.cancel()

    def _sleep(self) -> None:
        if self._deadline_at is None:
            return
        rest = self._deadline_at - self._clock()
        if self._handle is not None and rest <= 0:
            self._call()
            return
        shortest, longest = _SLEEP
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(min(max(rest, shortest), longest), self._sleep)
