"""Single flights: one task for all who ask for the same at a time."""

from __future__ import annotations

import asyncio

import pytest

from worldledger.aio import SingleFlight
from worldledger.errors import StoreUnavailableError


class Work:
    """Counts how often it is done; each time it waits until it is let go."""

    def __init__(self) -> None:
        self.begun = 0
        self.go = asyncio.Event()

    async def __call__(self) -> int:
        """Do it."""
        self.begun += 1
        number = self.begun
        await self.go.wait()
        return number


async def test_those_who_ask_at_the_same_time_share_one_call() -> None:
    """However many ask while it is under way, it is done once; who asks after that has it done anew."""
    flights, work = SingleFlight[str, int](), Work()
    asking = [asyncio.create_task(flights.join("a", work)) for _ in range(3)]
    other = asyncio.create_task(flights.join("b", work))
    await asyncio.sleep(0)
    assert len(flights) == 2
    work.go.set()
    assert await asyncio.gather(*asking) == [1, 1, 1]
    assert await other == 2
    assert len(flights) == 0
    assert await flights.join("a", work) == 3


async def test_who_goes_away_leaves_it_to_the_others() -> None:
    """A caller that is cancelled, or has waited long enough, does not end it for those who still wait."""
    flights, work = SingleFlight[str, int](), Work()
    first = asyncio.create_task(flights.join("a", work))
    second = asyncio.create_task(flights.join("a", work))
    await asyncio.sleep(0)
    first.cancel()
    with pytest.raises(TimeoutError):
        await flights.join("a", work, 0.0)
    work.go.set()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_closing_tells_those_who_wait() -> None:
    """What is under way is cancelled by `close`, and those who wait get an error and no cancellation."""
    flights, work = SingleFlight[str, int](), Work()
    waiting = asyncio.create_task(flights.join("a", work))
    await asyncio.sleep(0)
    await flights.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        await waiting
