"""Guarding the store: while the database is away, or does not answer, agents are told so at once.

The breaker alone would open late: an append is tried again until its deadline before it counts as failed. So a call
that is made while an earlier one has been waiting for long is refused as if the breaker were open.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from worldledger.aio import CircuitBreaker
from worldledger.errors import CircuitBreakerOpenError, StoreUnavailableError

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig

P = ParamSpec("P")
R = TypeVar("R")

#: Seconds after which a call that has no answer says that the database does not answer.
_STALLED: Final = 4.0
#: Seconds after which to ask again.
_AGAIN: Final = 1.0


class StoreGuard:
    """Makes calls of one world's store, through a circuit breaker."""

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float]) -> None:
        self.breaker = CircuitBreaker(
            config.breaker_failures,
            config.breaker_recovery_s,
            clock=clock,
            counts=lambda error: isinstance(error, StoreUnavailableError),
        )
        self._clock = clock
        self._numbers = count()
        #: when each call that is under way has begun, the oldest first
        self._under_way: dict[int, float] = {}

    @property
    def closed(self) -> bool:
        """Whether calls are made as usual: the database answers, as far as is known."""
        return self.breaker.state == "CLOSED" and not self._stalled()

    async def call(self, func: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Give what ``func`` gives. Raises CircuitBreakerOpenError without calling it, and what it raises."""
        if self._stalled():
            raise CircuitBreakerOpenError(_AGAIN)
        number = next(self._numbers)
        self._under_way[number] = self._clock()
        try:
            return await self.breaker.call(func, *args, **kwargs)
        finally:
            del self._under_way[number]

    def _stalled(self) -> bool:
        for begun in self._under_way.values():
            return self._clock() - begun > _STALLED
        return False
