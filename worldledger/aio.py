"""asyncio primitives: cancel tokens, timed queues, breakers, backoff, single flights, tasks that end together.

They do no I/O and read only the clock that they are given; time passes by the timers of the event loop. Like the rest
of asyncio they belong to one event loop and are not safe to use from other threads.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, Generic, Literal, ParamSpec, TypeAlias, TypeVar

from worldledger.backoff import Backoff
from worldledger.errors import CircuitBreakerOpenError, QueueClosedError, StoreUnavailableError

# -- cancel tokens: they tell a running generation to stop ------------------------------------------------
#
# Source: docs/reference/contracts.md, "Cancel tokens".


class CancelToken:
    """Tells one generation of one agent to stop, once and for a reason.

    ``context_seq`` is the view_seq that the generation began from; ``reason`` is why it was cancelled and
    ``cancelled_at`` when, in seconds of ``clock``; both are None before that. If it was stale, ``details`` name the
    setting by which it was, the setting's value and the interrupt policy; otherwise they are empty. From another
    thread, cancel it by ``loop.call_soon_threadsafe(token.cancel, reason)``.
    """

    __slots__ = (
        "_callbacks", "_cancelled", "_clock", "agent_id", "cancelled_at", "context_seq", "details", "reason", "req_id",
    )  # fmt: skip

    def __init__(
        self, req_id: str, agent_id: str, context_seq: int = 0, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.req_id = req_id
        self.agent_id = agent_id
        self.context_seq = context_seq
        self.reason: str | None = None
        self.details: dict[str, Any] = {}
        self.cancelled_at: float | None = None
        self._clock = clock
        self._cancelled = asyncio.Event()
        self._callbacks: list[Callable[[], object]] = []

    def __repr__(self) -> str:
        what = f"cancelled: {self.reason!r}" if self.cancelled else "live"
        return f"<CancelToken {self.req_id!r} of {self.agent_id!r} at {self.context_seq}, {what}>"

    @property
    def cancelled(self) -> bool:
        """True once the generation is to stop. It is cheap: check it before every generated token."""
        return self._cancelled.is_set()

    def cancel(self, reason: str) -> None:
        """Cancel the generation; only the first reason counts, and cancelling again does nothing.

        All callbacks have been called when this returns. If callbacks raise, the others are still called first; then
        the error is raised, several of them as an ExceptionGroup.
        """
        if self._cancelled.is_set():
            return
        self.reason = reason
        self.cancelled_at = self._clock()
        self._cancelled.set()
        callbacks, self._callbacks = self._callbacks, []
        errors: list[Exception] = []
        for callback in callbacks:
            try:
                callback()
            except Exception as error:  # noqa: BLE001 - raised below, when all have been told
                errors.append(error)
        if len(errors) == 1:
            raise errors[0]
        if errors:
            raise ExceptionGroup(f"callbacks of {self!r} failed", errors)

    def add_callback(self, callback: Callable[[], object]) -> None:
        """Register a callback for the moment of cancellation; it is called at once if that has passed."""
        if self._cancelled.is_set():
            callback()
        else:
            self._callbacks.append(callback)

    def remove_callback(self, callback: Callable[[], object]) -> None:
        """Remove a callback; nothing happens if it is not registered."""
        if callback in self._callbacks:
            self._callbacks.remove(callback)

    async def wait_cancelled(self) -> None:
        """Wait until the token is cancelled."""
        await self._cancelled.wait()


# -- queues with timed delivery ---------------------------------------------------------------------------
#
# Source: docs/reference/contracts.md, "Timed queues".
#
# One timer is set for the earliest item, so an item that is put later with an earlier time is not late, and waiting
# calls are served in order.


T = TypeVar("T")

#: Shortest and longest sleep, in seconds. A timer may fire a little early by the queue's clock: without the shortest
#: sleep, the loop would spin until then. Some event loops cannot take an infinite sleep.
_SLEEP: Final = (0.001, 3600.0)


class TimedQueue(Generic[T]):
    """Items that become due at given times, in seconds of ``clock`` (the event loop's own unless given).

    An item is never given out before its time. Of the items that are due, the one with the earliest time comes first,
    and of those with the same time the one put first. Nothing is lost when a ``get`` is cancelled, and waiting calls
    are served in their order. The queue has no bound of its own: the producer watches its length, and can
    `merge_oldest`.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock
        self._heap: list[tuple[float, int, T]] = []
        self._puts = 0
        #: futures of the waiting gets; only the first is ever woken, and it wakes the next
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._closed = False

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def closed(self) -> bool:
        """True once it has been closed."""
        return self._closed

    # -- putting -------------------------------------------------------------------------------------------

    async def put_at(self, deliver_at: float, item: T) -> None:
        """Put an item that becomes due at ``deliver_at``; never waits (see `put_nowait_at`)."""
        self.put_nowait_at(deliver_at, item)

    def put_nowait_at(self, deliver_at: float, item: T) -> None:
        """Put an item that becomes due at ``deliver_at``; a time in the past means at once.

        Raises ValueError if that is not a number, and QueueClosedError if the queue is closed.
        """
        if self._closed:
            raise QueueClosedError
        if math.isnan(deliver_at):
            raise ValueError("deliver_at is not a number")
        self._puts += 1
        heapq.heappush(self._heap, (deliver_at, self._puts, item))
        if self._waiters and self._heap[0][1] == self._puts:  # only a new first item changes who is woken when
            self._arrange()

    def merge_oldest(self, count: int, merge: Callable[[Sequence[T]], T]) -> None:
        """Replace the ``count`` next items, due or not, by the one that ``merge`` makes of them, in their order.

        The new item takes the place and the time of the last of them, so none is given out early. If ``merge`` raises,
        the queue stays as it was. Nothing happens with fewer than two items.
        """
        count = min(count, len(self._heap))
        if count < 2:
            return
        merged = [heapq.heappop(self._heap) for _ in range(count)]
        deliver_at, put, _ = merged[-1]
        try:
            merged = [(deliver_at, put, merge([item for _, _, item in merged]))]
        finally:
            for entry in merged:
                heapq.heappush(self._heap, entry)

    # -- getting -------------------------------------------------------------------------------------------

    async def get(self) -> T:
        """Wait until the next item is due, and take it. Does not yield to the loop if it is due and no call waits.

        Raises QueueClosedError if the queue is closed, now or while waiting.
        """
        if self._closed:
            raise QueueClosedError
        if not self._waiters and self._is_due():
            return heapq.heappop(self._heap)[2]
        loop = asyncio.get_running_loop()
        waiter = loop.create_future()
        self._waiters.append(waiter)
        try:
            while True:
                self._arrange()
                await waiter
                if self._closed:
                    raise QueueClosedError
                if self._is_due():
                    # Nothing is awaited from here on, so an item that is taken is also returned.
                    return heapq.heappop(self._heap)[2]
                # The queue was drained meanwhile, or the timer was early: wait on, still as the first.
                waiter = self._waiters[0] = loop.create_future()
        finally:
            if not self._closed:
                self._waiters.remove(waiter)
                self._arrange()

    def drain_due(self, limit: int | None = None) -> list[T]:
        """Take the items that are due, at most ``limit``, in their order; never waits.

        Raises QueueClosedError if the queue is closed.
        """
        if self._closed:
            raise QueueClosedError
        now = self._now()
        taken: list[T] = []
        while self._heap and self._heap[0][0] <= now and (limit is None or len(taken) < limit):
            taken.append(heapq.heappop(self._heap)[2])
        return taken

    def close(self) -> None:
        """Close the queue: its items are dropped, waiting calls raise QueueClosedError. Closing again does nothing."""
        self._closed = True
        self._heap.clear()
        self._stop_timer()
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._waiters.clear()

    # -- waking --------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _is_due(self) -> bool:
        return bool(self._heap) and self._heap[0][0] <= self._now()

    def _arrange(self) -> None:
        """Make sure that the first waiter is woken when the first item is due."""
        if not self._waiters or not self._heap:
            self._stop_timer()
            return
        deliver_at = self._heap[0][0]
        now = self._now()
        if deliver_at <= now:
            self._stop_timer()
            if not self._waiters[0].done():
                self._waiters[0].set_result(None)
        elif self._timer is None or self._timer_at != deliver_at:
            self._stop_timer()
            loop = asyncio.get_running_loop()
            ahead = 0.0 if self._clock is None else loop.time() - now  # how far the loop's clock is ahead of ours
            shortest, longest = _SLEEP
            when = min(max(deliver_at, now + shortest), now + longest) + ahead
            self._timer = loop.call_at(when, self._on_timer)
            self._timer_at = deliver_at

    def _on_timer(self) -> None:
        self._timer = None
        self._arrange()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


# -- work that is done once for all concurrent callers ----------------------------------------------------


K = TypeVar("K", bound=Hashable)


async def join(task: asyncio.Task[T]) -> T:
    """Return a task's result; a cancelled caller leaves it running for the others.

    Raises StoreUnavailableError if the task itself was cancelled because its owner is being closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and not (caller is not None and caller.cancelling()):
            raise StoreUnavailableError("the world is being closed") from None
        raise


class SingleFlight(Generic[K, T]):
    """Calls by key, each in a task of its own: a call with the same key waits for the task that is under way.

    A caller that is cancelled, or has waited long enough, leaves the task running for the others.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the task under way, or a new one that runs ``make``."""
        task = self._tasks.get(key)
        if task is None or task.done():  # a finished task shows an earlier moment
            task = self._tasks[key] = asyncio.get_running_loop().create_task(make())
            task.add_done_callback(partial(self._ended, key))
        return task

    async def join(self, key: K, make: Callable[[], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Return the task's result, or raise its error; see `join`. Raises TimeoutError after ``timeout``."""
        task = self.begin(key, make)
        async with asyncio.timeout(timeout):
            return await join(task)

    async def close(self) -> None:
        """Cancel the tasks under way; waiting calls get an error."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: K, task: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, even if no caller is left


# -- tasks that end together: the first of several, all of them, or one beside a block --------------------


async def first_of(*works: Coroutine[Any, Any, Any], timeout: float | None = None) -> list[asyncio.Task[Any] | None]:
    """Run all until the first has ended, or for ``timeout`` seconds; then cancel the others and wait for them.

    Returns a task for each, in their order, or None for one that had not ended or was cancelled. Errors stay in the
    tasks.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work) for work in works]
    ended: set[asyncio.Task[Any]] = set()
    try:
        ended, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(tasks)
    return [task if task in ended and not task.cancelled() else None for task in tasks]


async def all_of(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all until they have ended; the first error cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


@asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run something beside the block, and cancel it at the end."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
    finally:
        await _end([task])


async def to_its_end(work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Return what some work comes to. If the caller is cancelled meanwhile, it still has so many seconds."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=seconds)
        raise
    finally:
        await _end([task])


async def _end(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and return once all have ended: none outlives its caller.

    A caller that is cancelled meanwhile waits for them nevertheless. They are cancelled once more, so that they hurry.
    """

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    cancel()
    await until_done(tasks, hurry=cancel)


async def until_done(
    awaited: Sequence[asyncio.Future[Any]], seconds: float | None = None, *, hurry: Callable[[], object] | None = None
) -> None:
    """Return once all are done, or after so many seconds; their errors stay in them. For what ends at a block's end.

    A caller that is cancelled meanwhile, however often, waits nevertheless, and is cancelled then; ``hurry`` is called
    at the first time.
    """
    loop = asyncio.get_running_loop()
    until = math.inf if seconds is None else loop.time() + seconds
    again: asyncio.CancelledError | None = None
    while (left := [each for each in awaited if not each.done()]) and (pause := until - loop.time()) > 0:
        try:
            await asyncio.wait(left, timeout=None if seconds is None else pause)
        except asyncio.CancelledError as error:
            if again is None and hurry is not None:
                hurry()
            again = error
    if again is not None:
        try:
            raise again
        finally:
            again = None  # its traceback has this frame, and with it all that its callers hold


# -- circuit breakers -------------------------------------------------------------------------------------
#
# Source: docs/reference/contracts.md, "Circuit breakers".
#
# =========  ==========================================  ==========================================================
# state      a call                                      leaves it by
# =========  ==========================================  ==========================================================
# CLOSED     is made; any number at once                 ``failure_threshold`` failures in a row: OPEN
# OPEN       is refused                                  ``recovery_timeout`` has passed, or `try_again` was called:
#                                                        the next call makes it HALF_OPEN and is its probe
# HALF_OPEN  is refused while a probe is under way,      the probe succeeds: CLOSED; it fails: OPEN
#            else it is the next probe
# =========  ==========================================  ==========================================================
#
# It uses a monotonic clock, allows one probe at a time, and forgets failures after a success.


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


__all__ = [
    "Backoff",
    "CancelToken",
    "CircuitBreaker",
    "QueueClosedError",
    "SingleFlight",
    "TimedQueue",
    "all_of",
    "first_of",
    "join",
    "running",
]
