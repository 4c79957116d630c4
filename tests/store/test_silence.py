"""Silence: who waits for a database that answers nobody may go, and what was begun goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from worldledger_service.store.silence import Silence

from tests.aio.virtual import loop, settle, virtual
from worldledger.errors import CircuitBreakerOpenError, SimulationError, StoreUnavailableError


def refusal(begun: bool) -> SimulationError:
    """Say whether something was begun."""
    return StoreUnavailableError("it was begun") if begun else CircuitBreakerOpenError()


class Asking:
    """Asks a database that answers when the test says so."""

    def __init__(self, silence: Silence) -> None:
        self.silence = silence
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    async def __call__(self) -> int:
        """Ask."""
        with self.silence.asked():
            try:
                return await self.answer
            except asyncio.CancelledError:
                self.cancelled = True
                raise

    def bear(self, left: Callable[[int], object] | None = None) -> asyncio.Task[int]:
        """Begin to wait for the answer."""
        return asyncio.get_running_loop().create_task(self.silence.bear(self(), refusal, left))


async def refused(task: asyncio.Task[int]) -> tuple[float, str]:
    """Return when a task is refused, and with which error."""
    with pytest.raises(SimulationError) as caught:
        await task
    return loop().time(), caught.value.code


@virtual
async def test_who_waits_may_go() -> None:
    """All who wait go at once when the patience is over, whenever they came; what they have begun goes on."""
    silence = Silence(2.0)
    asking = Asking(silence)
    given: list[int] = []
    first = asking.bear(given.append)
    await asyncio.sleep(1.5)
    second = Asking(silence)
    last = second.bear(given.append)
    assert await refused(first) == await refused(last) == (2.0, "store_unavailable")
    assert (silence.fallen, silence.working, asking.cancelled) == (True, 2, False)
    asking.answer.set_result(7)
    second.answer.set_exception(StoreUnavailableError("of which nobody hears"))
    await settle()
    assert given == [7]
    assert (silence.fallen, silence.working) == (False, 0)


@virtual
async def test_while_somebody_is_answered_everybody_waits() -> None:
    """The patience begins anew with each answer."""
    silence = Silence(2.0)
    asking = Asking(silence)
    waiting = asking.bear()
    for _ in range(10):
        await asyncio.sleep(1.5)
        silence.end()
    asking.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_nothing_is_begun_in_silence() -> None:
    """Whoever comes while the database is silent is told so at once, until it has answered somebody."""
    silence = Silence(2.0)
    asking, later = Asking(silence), Asking(silence)
    assert await refused(asking.bear()) == (2.0, "store_unavailable")
    assert await refused(later.bear()) == (2.0, "circuit_open")
    assert silence.working == 1
    silence.end()
    waiting = later.bear()
    await settle()
    later.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_who_asks_nothing_hears_no_silence() -> None:
    """Work that takes long without the database is waited for; between two tries of an outage it counts as asked."""
    silence = Silence(2.0)

    async def thinking() -> int:
        await asyncio.sleep(100)
        return 7

    assert await silence.bear(thinking(), refusal) == 7
    silence.away = True
    with pytest.raises(StoreUnavailableError):
        await silence.bear(thinking(), refusal)
    assert loop().time() == 102.0


@virtual
async def test_time_in_which_nobody_could_listen_does_not_count() -> None:
    """An event loop that was held up may have answers waiting; they are heard first."""
    silence = Silence(2.0)
    asking = Asking(silence)
    waiting = asking.bear()
    await settle()
    loop().advance(100)
    await settle()
    await asyncio.sleep(0.3)
    assert not silence.fallen
    asking.answer.set_result(7)
    assert await waiting == 7


@virtual
async def test_whoever_is_cancelled_takes_the_work_along() -> None:
    """As if it had awaited the work itself."""
    silence = Silence(2.0)
    asking = Asking(silence)
    waiting = asking.bear()
    await settle()
    waiting.cancel()
    await settle()
    assert waiting.cancelled()
    assert asking.cancelled
    assert silence.working == 0


@virtual
async def test_closing_gives_up_what_is_left() -> None:
    """And tells those who still wait."""
    silence = Silence(2.0)
    asking = Asking(silence)
    waiting = asking.bear()
    await settle()
    await silence.close()
    assert await refused(waiting) == (0.0, "store_unavailable")
    assert loop().timers == 0
