"""Guarding the store: while the database is away, or does not answer, agents are told so soon.

An append is tried again until its deadline before it counts as failed, and a frozen server fails nothing at all.
Whoever calls waits only as long as the database answers somebody (`worldledger_service.store.silence`). What was begun
goes on, and the same request again joins it; whoever comes later is refused at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from itertools import count
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from worldledger.aio import CircuitBreaker
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError
from worldledger_service.store.silence import RETRY_SECONDS, unanswered

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger_service.store.outages import Outages

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds after which a call that has no answer says that the world cannot be written, though others are answered: a
#: lock is held, say, or one connection hangs.
_STALLED: Final = 10.0
#: Seconds in which the store tells what it has given up at its deadline.
_MOMENT: Final = 1.0


async def reading(outages: Outages, work: Coroutine[Any, Any, R], left: Callable[[R], object] | None = None) -> R:
    """Return what is read, unless the database falls silent: then StoreUnavailableError is raised.

    ``left`` is handed what comes when nobody waits for it any more.
    """
    return await outages.silence.bear(work, lambda _: unanswered(), left)


async def writing(outages: Outages, work: Coroutine[Any, Any, R], *, begun: Callable[[], bool] | None = None) -> R:
    """Return what is written under a req_id, unless the database falls silent.

    Then StoreUnavailableError is raised, whose outcome is unknown, if this was begun, or the same is under way already
    (``begun``); and CircuitBreakerOpenError if nothing was tried. The work goes on in any case.
    """

    def refusal(tried: bool) -> SimulationError:
        return undecided() if tried or (begun is not None and begun()) else CircuitBreakerOpenError(RETRY_SECONDS)

    return await outages.silence.bear(work, refusal)


async def doing(outages: Outages, work: Coroutine[Any, Any, R], again: str, *, begun: bool = False) -> R:
    """Return what is done once however often it is asked for, unless the database falls silent; it goes on then.

    StoreUnavailableError, which says how to ask ``again``, is raised if this, or the same, was ``begun``; otherwise
    CircuitBreakerOpenError.
    """

    def refusal(tried: bool) -> SimulationError:
        return undecided(again) if tried or begun else CircuitBreakerOpenError(RETRY_SECONDS)

    return await outages.silence.bear(work, refusal)


async def writing_once(outages: Outages, work: Coroutine[Any, Any, R], deadline: float) -> R:
    """Return what is written without a req_id, so that nobody could ask later what became of it.

    It is waited for, whatever the database does, for ``deadline`` seconds, and a moment in which the store tells at its
    own deadline what is so. Then StoreUnavailableError is raised, whose outcome is unknown. CircuitBreakerOpenError is
    raised if nothing was tried.
    """

    def refusal(tried: bool) -> SimulationError:
        return undecided("read the log") if tried else CircuitBreakerOpenError(RETRY_SECONDS)

    return await outages.silence.bear(work, refusal, within=deadline + _MOMENT)


def undecided(again: str = "send it again with the same req_id, or read the log") -> StoreUnavailableError:
    """Make the error for what goes on without its caller; ``again`` says how that finds out what became of it."""
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
        """Whether calls are made as usual: the database answers, as far as is known."""
        return self.breaker.state == "CLOSED" and not self._outages.silence.fallen and not self._stalled()

    async def read(self, work: Coroutine[Any, Any, R], left: Callable[[R], object] | None = None) -> R:
        """Return what is read; see `reading`."""
        return await reading(self._outages, work, left)

    async def write(self, work: Coroutine[Any, Any, R], *, begun: Callable[[], bool] | None = None) -> R:
        """Return what is written under a req_id; see `writing`."""
        return await writing(self._outages, work, begun=begun)

    async def call(self, func: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Return what ``func`` gives. Raises CircuitBreakerOpenError without calling it, and what it raises."""
        if self._outages.silence.fallen or self._stalled():
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
            return self._clock() - begun > _STALLED
        return False
