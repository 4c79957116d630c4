"""Guarding the store: while the database is away or does not answer, callers are told so soon.

An append is tried again until its deadline before it counts as failed, and a frozen server fails nothing at all. A
caller waits only as long as the database answers some call (`worldledger_service.store.outages`). Work that was begun
goes on, and the same request again joins it; later calls are refused at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from worldledger.aio import CircuitBreaker
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError
from worldledger_service.store.outages import RETRY_SECONDS, unanswered

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger_service.store.outages import Outages

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds after which a call without an answer shows that the world cannot be written, though other calls are
#: answered: because a lock is held, say, or one connection hangs.
_STALLED_SECONDS: Final = 10.0
#: Seconds in which the store tells what it has given up at its deadline.
_MOMENT_SECONDS: Final = 1.0
#: How the caller of a write with a req_id finds out what became of it.
SAME_REQUEST: Final = "send it again with the same req_id, or read the log"


async def guarded(
    outages: Outages,
    work: Coroutine[Any, Any, R],
    *,
    again: str | None = None,
    begun: Callable[[], bool] | None = None,
    left: Callable[[R], object] | None = None,
    deadline: float | None = None,
) -> R:
    """Return the result of ``work``, unless the database falls silent; the work goes on in any case.

    ``again`` is for work that writes: it says how the caller finds out what became of it. ``left`` is handed a result
    that comes when no caller waits any more. With a ``deadline`` in seconds the caller stays through a silence until
    then, and for the moment in which the store itself tells the outcome: for writes without a req_id, about which
    nothing could be asked later.

    Raises StoreUnavailableError if the work was begun, and for a read; for a write its outcome is unknown then, also if
    the same write is under way already (``begun``). Raises CircuitBreakerOpenError if a write was not tried.
    """

    def refusal(tried: bool) -> SimulationError:
        if again is None:
            return unanswered()
        return undecided(again) if tried or (begun is not None and begun()) else CircuitBreakerOpenError(RETRY_SECONDS)

    within = None if deadline is None else deadline + _MOMENT_SECONDS
    return await outages.watchdog.run(work, refusal, left, within=within)


def undecided(again: str) -> StoreUnavailableError:
    """Return the error for work that goes on without its caller; ``again`` says how that finds out the outcome."""
    return StoreUnavailableError(
        f"the database does not answer; whether this call is written is not known yet: {again}",
        retry_after_s=RETRY_SECONDS,
        outcome="unknown",
    )


class StoreGuard:
    """Makes calls of one world's store, through a circuit breaker."""

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float], outages: Outages) -> None:
        self.breaker = CircuitBreaker(
            config.breaker_failures,
            config.breaker_recovery_s,
            clock=clock,
            counts=lambda error: isinstance(error, StoreUnavailableError),
        )
        self._clock = clock
        self._outages = outages
        #: the outages that were over when a call failed last
        self._over = 0
        self._numbers = count()
        #: when each call that is under way has begun, the oldest first
        self._under_way: dict[int, float] = {}

    @property
    def closed(self) -> bool:
        """True if calls are made as usual: the database answers, as far as is known."""
        return self.breaker.state == "CLOSED" and not self._outages.watchdog.expired and not self._stalled()

    def read(self, work: Coroutine[Any, Any, R], left: Callable[[R], object] | None = None) -> Coroutine[Any, Any, R]:
        """Return the result of work that only reads; see `guarded`."""
        return guarded(self._outages, work, left=left)

    def write(self, work: Coroutine[Any, Any, R], *, begun: Callable[[], bool] | None = None) -> Coroutine[Any, Any, R]:
        """Return the result of work that writes under a req_id; see `guarded`."""
        return guarded(self._outages, work, again=SAME_REQUEST, begun=begun)

    async def call(self, func: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return the result of ``func``. Raises its errors, and CircuitBreakerOpenError without calling it."""
        if self._outages.watchdog.expired or self._stalled():
            raise CircuitBreakerOpenError(RETRY_SECONDS)
        if self.breaker.state == "OPEN" and self._outages.over > self._over:
            self.breaker.try_again()
        number = next(self._numbers)
        self._under_way[number] = self._clock()
        try:
            return await self.breaker.call(func, *args, **kwargs)
        except StoreUnavailableError:
            self._over = self._outages.over
            raise
        finally:
            del self._under_way[number]

    def _stalled(self) -> bool:
        for begun in self._under_way.values():
            return self._clock() - begun > _STALLED_SECONDS
        return False
