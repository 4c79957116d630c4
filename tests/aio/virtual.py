"""An event loop on whose clock time passes at once: it jumps to the next timer when there is nothing else to do."""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _Selector(selectors.SelectSelector):
    """Never waits: says how long it would have."""

    def __init__(self, passed: Callable[[float], None]) -> None:
        super().__init__()
        self._passed = passed

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen: a test waits for what nobody does")
        if timeout > 0:
            self._passed(timeout)
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0.0 seconds."""

    _scheduled: list[asyncio.TimerHandle]
    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Selector(self._pass))
        #: what the loop was told went wrong
        self.errors: list[Mapping[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.errors.append(context))

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self._now

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """Set a timer; like uvloop, this loop cannot take an infinite time."""
        if math.isinf(when):
            raise OverflowError("cannot convert float infinity to integer")
        return super().call_at(when, callback, *args, context=context)

    def advance(self, seconds: float) -> None:
        """Let time pass without letting anybody run: the loop lags."""
        self._now += seconds

    @property
    def timers(self) -> int:
        """How many timers are set."""
        return sum(not timer.cancelled() for timer in self._scheduled)

    @property
    def busy(self) -> bool:
        """Whether anybody else is ready to go on."""
        return bool(self._ready)

    def _pass(self, seconds: float) -> None:
        timers = [timer.when() for timer in self._scheduled if not timer.cancelled()]
        # The very time of the timer: a sum of floats might fall short of it.
        self._now = max(self._now, float(min(timers))) if timers else self._now + seconds


def loop() -> VirtualLoop:
    """Return the running loop."""
    running = asyncio.get_running_loop()
    assert isinstance(running, VirtualLoop)
    return running


def virtual(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Run an asynchronous test on such a loop; errors that the loop is told of fail it."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            used = runner.get_loop()
            assert isinstance(used, VirtualLoop)
            result = runner.run(test(*args, **kwargs))
            assert not used.errors, used.errors
            return result

    return run


async def settle() -> None:
    """Let everybody go as far as they come without time passing."""
    await asyncio.sleep(0)
    while loop().busy:
        await asyncio.sleep(0)


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that must not yield to the event loop."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    coroutine.close()
    raise AssertionError("it yielded to the event loop")
