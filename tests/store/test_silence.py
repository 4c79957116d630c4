"""Watchdog: who waits for a database that answers nobody may go, and what was begun goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from worldledger_service.store.outages import Watchdog

from tests.aio.virtual import loop, settle, virtual
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError


def refusal(begun: bool) -> SimulationError:
    """Say whether something was begun."""
    return StoreUnavailableError("it was begun") if begun else CircuitBreakerOpenError()


class Asking:
    """Asks a database that answers when the test says so."""

    def __init__(self, watchdog: Watchdog) -> None:
        self.watchdog = watchdog
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def __call__(self) -> int:
        """Ask."""
        with self.watchdog.asked():
            try:
                return await self.answer
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    def wait(self, left: Callable[[int], object] | None = None) -> asyncio.Task[int]:
        """Begin to wait for the answer."""
        return asyncio.get_running_loop().create_task(self.watchdog.run(self(), refusal, left))


async def refused(task: asyncio.Task[int]) -> tuple[float, str]:
    """Return when a task is refused, and with which error."""
    with pytest.raises(SimulationError) as caught:
        await task
    return loop().time(), caught.value.code


@virtual
async def test_who_waits_may_go() -> None:
    """All who wait go at once when the patience is over, whenever they came; what they have begun goes on."""
    watchdog = Watchdog(2.0)
    asking = Asking(watchdog)
    given: list[int] = []
    first = asking.wait(given.append)
    await asyncio.sleep(1.5)
    second = Asking(watchdog)
    last = second.wait(given.append)
    assert await refused(first) == await refused(last) == (2.0, "store_unavailable")
    assert (watchdog.expired, watchdog.working, asking.cancelled) == (True, 2, False)
    asking.answer.set_result(7)
    second.answer.set_exception(StoreUnavailableError("of which nobody hears"))
    await settle()
    assert given == [7]
    assert (watchdog.expired, watchdog.working) == (False, 0)


@virtual
async def test_while_somebody_is_answered_everybody_waits() -> None:
    """The patience begins anew with each answer."""
    watchdog = Watchdog(2.0)
    asking = Asking(watchdog)
    waiting = asking.wait()
    for _ in range(10):
        await asyncio.sleep(1.5)
        watchdog.answered()
    asking.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_nothing_is_begun_in_silence() -> None:
    """Whoever comes while the database is silent is told so at once, until it has answered somebody."""
    watchdog = Watchdog(2.0)
    asking, later = Asking(watchdog), Asking(watchdog)
    assert await refused(asking.wait()) == (2.0, "store_unavailable")
    assert await refused(later.wait()) == (2.0, "circuit_open")
    assert watchdog.working == 1
    watchdog.answered()
    waiting = later.wait()
    await settle()
    later.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_who_asks_nothing_hears_no_silence() -> None:
    """Work that takes long without the database is waited for; between two tries of an outage it counts as asked."""
    watchdog = Watchdog(2.0)

    async def thinking() -> int:
        await asyncio.sleep(100)
        return 7

    assert await watchdog.run(thinking(), refusal) == 7
    watchdog.away = True
    with pytest.raises(StoreUnavailableError):
        await watchdog.run(thinking(), refusal)
    assert loop().time() == 102.0


@virtual
async def test_time_in_which_nobody_could_listen_does_not_count() -> None:
    """An event loop that was held up may have answers waiting; they are heard first."""
    watchdog = Watchdog(2.0)
    asking = Asking(watchdog)
    waiting = asking.wait()
    await settle()
    loop().advance(100)
    await settle()
    await asyncio.sleep(0.3)
    assert not watchdog.expired
    asking.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_whoever_is_cancelled_takes_the_work_along() -> None:
    """As if it had awaited the work itself."""
    watchdog = Watchdog(2.0)
    asking = Asking(watchdog)
    waiting = asking.wait()
    await settle()
    waiting.cancel()
    await settle()
    assert waiting.cancelled()
    assert asking.cancelled
    assert watchdog.working == 0


@virtual
async def test_closing_gives_up_what_is_left() -> None:
    """And tells those who still wait."""
    watchdog = Watchdog(2.0)
    asking = Asking(watchdog)
    waiting = asking.wait()
    await settle()
    await watchdog.close()
    assert await refused(waiting) == (0.0, "store_unavailable")
    assert loop().timers == 0
