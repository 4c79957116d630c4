"""Circuit breakers. Source: docs/reference/contracts.md, "Circuit breakers".

=========  ==========================================  ==========================================================
state      a call                                      leaves it by
=========  ==========================================  ==========================================================
CLOSED     is made; any number at once                 ``failure_threshold`` failures in a row: OPEN
OPEN       is refused                                  ``recovery_timeout`` has passed, or `try_again` was called:
                                                       the next call makes it HALF_OPEN and is its probe
HALF_OPEN  is refused while a probe is under way,      the probe succeeds: CLOSED; it fails: OPEN
           else it is the next probe
=========  ==========================================  ==========================================================

It uses a monotonic clock, allows one probe at a time, and forgets failures after a success.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable
from typing import Final, Literal, ParamSpec, TypeAlias, TypeVar

from worldledger.errors import CircuitBreakerOpenError

P = ParamSpec("P")
R = TypeVar("R")

State: TypeAlias = Literal["CLOSED", "OPEN", "HALF_OPEN"]

#: Seconds after which to ask again while a probe is under way: how long that takes is not known.
_PROBE_S: Final = 1.0


class CircuitBreaker:
    """Stops calling what fails again and again, then tries it with one call at a time.

    ``counts`` tells which errors are failures. Any other error (a refused request, say) says nothing about the guarded
    service: it neither counts as a failure nor as a success. A cancelled call is not a failure either.
    ``recovery_timeout`` and ``last_failure_time`` are seconds of ``clock``, which must never go back.
    """

    def __init__(
        self,
        failure_threshold: int = 5,
        recovery_timeout: float = 30.0,
        *,
        clock: Callable[[], float] = time.monotonic,
        counts: Callable[[BaseException], bool] = lambda _: True,
    ) -> None:
        if failure_threshold < 1 or not 0 <= recovery_timeout < math.inf:
            raise ValueError(
                "a breaker needs a failure_threshold of at least 1 and a finite recovery_timeout, 0 or more"
            )
        self.failure_threshold = failure_threshold
        self.recovery_timeout = recovery_timeout
        #: failures since the last success
        self.failure_count = 0
        self.last_failure_time = 0.0
        self._clock = clock
        self._counts = counts
        self._state: State = "CLOSED"
        self._probing = False
        #: whether the next call may probe before the timeout
        self._rested = False
        #: how often the state has changed; the result of a call that began in another state does not count
        self._changes = 0

    @property
    def state(self) -> State:
        """``CLOSED``, ``OPEN`` or ``HALF_OPEN``. It becomes half open with the first call after the timeout."""
        return self._state

    def try_again(self) -> None:
        """Let the next call be a probe, however little time has passed: what failed is known to be back."""
        self._rested = self._state == "OPEN"

    async def call(self, func: Callable[P, Awaitable[R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``func``; return its result or raise its error.

        Raises CircuitBreakerOpenError, with the seconds after which to ask again, without calling it. A function that
        may hang needs a timeout of its own: nothing else is let through while it runs as a probe.
        """
        if self._state != "CLOSED":
            self._begin_probe()
        began = self._changes
        try:
            result = await func(*args, **kwargs)
        except Exception as error:
            if began == self._changes:
                self._probing = False
                if self._counts(error):
                    self._failed()
            raise
        except BaseException:  # cancelled: the next call may probe
            if began == self._changes:
                self._probing = False
            raise
        if began == self._changes:
            self._probing = False
            self.failure_count = 0
            if self._state == "HALF_OPEN":
                self._change("CLOSED")
        return result

    def _begin_probe(self) -> None:
        if self._state == "OPEN":
            rest = self.last_failure_time + self.recovery_timeout - self._clock()
            if rest > 0 and not self._rested:
                raise CircuitBreakerOpenError(rest)
            self._change("HALF_OPEN")
        elif self._probing:
            raise CircuitBreakerOpenError(min(_PROBE_S, self.recovery_timeout))
        self._probing = True

    def _failed(self) -> None:
        self.failure_count += 1
        self.last_failure_time = self._clock()
        if self.failure_count >= self.failure_threshold:  # if still half open, this one is enough
            self._change("OPEN")

    def _change(self, state: State) -> None:
        self._state = state
        self._rested = False
        self._changes += 1
