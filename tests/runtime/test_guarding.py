"""The store's guard: while a call has no answer for long, others are refused at once."""

from __future__ import annotations

import asyncio

import pytest
from worldledger_service.runtime import OrchestratorConfig
from worldledger_service.runtime.guarding import StoreGuard
from worldledger_service.store.outages import Outages

from worldledger.errors import CircuitBreakerOpenError, StoreUnavailableError


class Clock:
    """A clock that is set by hand."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time in seconds."""
        return self.now


async def test_a_stalled_call_refuses_others() -> None:
    """Those that come while the oldest call waits for long are told when to come again; then it goes on as before."""
    clock = Clock()
    guard = StoreGuard(OrchestratorConfig(), clock, Outages("postgresql://u@h/d"))
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
    guard = StoreGuard(OrchestratorConfig(breaker_recovery_s=5.0), clock, Outages("postgresql://u@h/d"))

    async def away() -> None:
        raise StoreUnavailableError("the database is away")

    with pytest.raises(StoreUnavailableError):
        await guard.call(away)
    with pytest.raises(CircuitBreakerOpenError):
        await guard.call(away)
    clock.now = 5.0
    with pytest.raises(StoreUnavailableError):
        await guard.call(away)


async def test_when_an_outage_is_over_it_is_tried_at_once() -> None:
    """The first answer after an outage ends the time for which the store is left alone: the next call is a probe."""
    clock, outages = Clock(), Outages("postgresql://u@h/d")
    guard = StoreGuard(OrchestratorConfig(breaker_recovery_s=3600.0), clock, outages)
    gone = ConnectionRefusedError(111, "Connection refused")

    async def away() -> None:
        outages.failed(gone)
        raise StoreUnavailableError("the database is away")

    async def back() -> int:
        return 1

    with pytest.raises(StoreUnavailableError):
        await guard.call(away)
    with pytest.raises(CircuitBreakerOpenError):
        await guard.call(back)
    outages.answered()
    with pytest.raises(StoreUnavailableError):  # it has gone away again before the probe
        await guard.call(away)
    with pytest.raises(CircuitBreakerOpenError):
        await guard.call(back)
    outages.answered()
    assert await guard.call(back) == 1
    assert guard.closed
