"""The store's guard: while a call has no answer for long, others are refused at once."""

from __future__ import annotations

import asyncio

import pytest

from service.runtime import OrchestratorConfig
from service.runtime.guarding import StoreGuard
from worldledger.errors import CircuitBreakerOpenError, StoreUnavailableError


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Give the time in seconds."""
        return self.now


async def test_a_stalled_call_refuses_others() -> None:
    """Those that come while the oldest call waits for long are told when to come again; then it goes on as before."""
    clock = Clock()
    guard = StoreGuard(OrchestratorConfig(), clock)
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def stalled() -> int:
        return await answer

    async def quick() -> int:
        return 1

    waiting = asyncio.get_running_loop().create_task(guard.call(stalled))
    await asyncio.sleep(0)
    assert await guard.call(quick) == 1
    found = [guard.closed]
    clock.now = 100.0
    found.append(guard.closed)
    with pytest.raises(CircuitBreakerOpenError) as refused:
        await guard.call(quick)
    assert refused.value.retry_after_s == 1.0
    answer.set_result(2)
    assert await waiting == 2
    found.append(guard.closed)
    assert found == [True, False, True]
    assert await guard.call(quick) == 1


async def test_one_call_that_failed_to_the_end_opens_it() -> None:
    """An append is tried again until its deadline: after one that failed so, the store is left alone for a while."""
    clock = Clock()
    guard = StoreGuard(OrchestratorConfig(breaker_recovery_s=5.0), clock)

    async def away() -> None:
        raise StoreUnavailableError("the database is away")

    with pytest.raises(StoreUnavailableError):
        await guard.call(away)
    with pytest.raises(CircuitBreakerOpenError):
        await guard.call(away)
    clock.now = 5.0
    with pytest.raises(StoreUnavailableError):
        await guard.call(away)
