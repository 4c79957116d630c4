"""Queues of timed delivery."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.aio.virtual import at_once, loop, settle, virtual
from worldledger.aio import QueueClosedError, TimedQueue

#: Seconds that floats add and subtract without rounding.
TIMES = st.integers(0, 10 * 1024).map(lambda n: n / 1024) | st.integers(0, 5).map(float)


async def got(queue: TimedQueue[str]) -> tuple[float, str]:
    """Take an item, and say when."""
    item = await queue.get()
    return loop().time(), item


@virtual
async def test_an_item_is_given_at_its_time() -> None:
    """Not before, and not after."""
    queue: TimedQueue[str] = TimedQueue()
    await queue.put_at(2.5, "late")
    await queue.put_at(1.0, "soon")
    assert [await got(queue), await got(queue)] == [(1.0, "soon"), (2.5, "late")]


@virtual
async def test_what_is_due_is_given_without_yielding() -> None:
    """Where an item is due and nobody waits, taking it does not yield to the event loop; putting never does."""
    queue: TimedQueue[str] = TimedQueue()
    at_once(queue.put_at(0.0, "now"))
    at_once(queue.put_at(-math.inf, "long ago"))
    assert at_once(queue.get()) == "long ago"
    assert at_once(queue.get()) == "now"


@virtual
async def test_an_earlier_put_wakes_a_sleeping_get() -> None:
    """A get that sleeps until an item's time gives one that is put meanwhile for an earlier time."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(100.0, "late")
    waiting = asyncio.ensure_future(got(queue))
    await settle()
    queue.put_nowait_at(3.0, "earlier")
    assert await waiting == (3.0, "earlier")
    waiting = asyncio.ensure_future(got(queue))
    await settle()
    queue.put_nowait_at(0.0, "at once")
    assert await waiting == (3.0, "at once")
    assert len(queue) == 1


@virtual
async def test_waiters_are_served_in_the_order_of_their_calls() -> None:
    """Each gets one item, the first the first; one who comes when an item falls due does not overtake."""
    queue: TimedQueue[str] = TimedQueue()
    waiting = [asyncio.ensure_future(got(queue)) for _ in range(3)]
    await settle()
    for item in "abcd":
        queue.put_nowait_at(1.0, item)
    loop().advance(1.0)
    waiting.append(asyncio.ensure_future(got(queue)))
    assert [item for _, item in await asyncio.gather(*waiting)] == ["a", "b", "c", "d"]


@virtual
async def test_a_cancelled_get_loses_nothing() -> None:
    """Cancelled while it sleeps, or when it has just been woken, it leaves the item to the next."""
    queue: TimedQueue[str] = TimedQueue()
    first, second, third = [asyncio.ensure_future(got(queue)) for _ in range(3)]
    await settle()
    queue.put_nowait_at(5.0, "a")
    first.cancel()
    await settle()
    queue.put_nowait_at(0.0, "b")  # wakes the second …
    second.cancel()  # … which goes away before it can take it
    assert await third == (0.0, "b")
    assert await got(queue) == (5.0, "a")
    assert first.cancelled()
    assert second.cancelled()


@virtual
async def test_waiters_that_go_away_leave_nothing_behind() -> None:
    """No timer, no place in line."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(50.0, "a")
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(5)]
    await settle()
    assert loop().timers == 1
    for task in waiting:
        task.cancel()
    await settle()
    assert loop().timers == 0
    loop().advance(50.0)
    assert at_once(queue.get()) == "a"


@virtual
async def test_a_timeout_takes_nothing() -> None:
    """A get that is given up at the very time of an item has taken it, or leaves it."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(2.0, "a")
    taken = []
    try:
        async with asyncio.timeout(2.0):
            taken.append(await queue.get())
    except TimeoutError:
        pass
    assert len(taken) + len(queue) == 1


@virtual
async def test_draining_takes_what_is_due() -> None:
    """Without waiting, in order, as many as wanted; what is not due stays."""
    queue: TimedQueue[str] = TimedQueue()
    for at, item in [(3.0, "d"), (1.0, "a"), (2.0, "b"), (2.0, "c"), (9.0, "e")]:
        queue.put_nowait_at(at, item)
    assert queue.drain_due() == []
    loop().advance(3.0)
    assert queue.drain_due(2) == ["a", "b"]
    assert queue.drain_due() == ["c", "d"]
    assert len(queue) == 1


@virtual
async def test_a_get_whose_item_was_drained_waits_on() -> None:
    """It was woken for nothing, keeps its place, and gives the next item."""
    queue: TimedQueue[str] = TimedQueue()
    waiting = [asyncio.ensure_future(got(queue)) for _ in range(2)]
    await settle()
    queue.put_nowait_at(0.0, "a")
    assert queue.drain_due() == ["a"]
    await settle()
    queue.put_nowait_at(4.0, "b")
    queue.put_nowait_at(6.0, "c")
    assert await asyncio.gather(*waiting) == [(4.0, "b"), (6.0, "c")]


@virtual
async def test_a_lagging_loop_gives_what_is_overdue_at_once() -> None:
    """When the loop comes round late, items that fell due meanwhile are given in order of their times."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(1.0, "b")
    queue.put_nowait_at(0.5, "a")
    waiting = [asyncio.ensure_future(got(queue)) for _ in range(2)]
    await settle()
    loop().advance(7.0)
    assert await asyncio.gather(*waiting) == [(7.0, "a"), (7.0, "b")]


@virtual
async def test_another_clock_can_be_given() -> None:
    """Times are then times of that clock, also where it goes slower than the loop's."""
    queue: TimedQueue[str] = TimedQueue(lambda: 1000.0 + loop().time() / 2)
    queue.put_nowait_at(1001.0, "a")
    at, item = await got(queue)
    assert item == "a"
    assert at == pytest.approx(2.0, abs=0.0011)


@virtual
async def test_an_item_of_no_time_is_never_given() -> None:
    """Infinity means never, and is no time that an event loop could not take; what is not a number is refused."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(math.inf, "never")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(100_000.0):
            await queue.get()
    with pytest.raises(ValueError, match="not a number"):
        queue.put_nowait_at(math.nan, "when?")
    assert len(queue) == 1


@virtual
async def test_closing_tells_everybody() -> None:
    """Who waits, also one that has just been woken, and who comes later gets QueueClosedError; no timer is left."""
    queue: TimedQueue[str] = TimedQueue()
    waiting = [asyncio.ensure_future(queue.get()) for _ in range(3)]
    await settle()
    queue.put_nowait_at(9.0, "late")
    queue.put_nowait_at(0.0, "now")
    queue.close()
    queue.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 3
    with pytest.raises(QueueClosedError):
        await queue.get()
    with pytest.raises(QueueClosedError):
        queue.put_nowait_at(0.0, "more")
    with pytest.raises(QueueClosedError):
        queue.drain_due()
    assert queue.closed
    assert len(queue) == 0
    assert loop().timers == 0


@virtual
async def test_closing_stops_the_timer() -> None:
    """Of one who sleeps until an item's time, nothing is left."""
    queue: TimedQueue[str] = TimedQueue()
    queue.put_nowait_at(9.0, "late")
    waiting = asyncio.ensure_future(queue.get())
    await settle()
    assert loop().timers == 1
    queue.close()
    assert loop().timers == 0
    with pytest.raises(QueueClosedError):
        await waiting


@virtual
async def test_the_oldest_can_be_merged() -> None:
    """The new item has the time and the place of the last that it stands for."""
    queue: TimedQueue[str] = TimedQueue()
    for at, item in [(1.0, "a"), (2.0, "b"), (2.0, "c"), (2.0, "d"), (3.0, "e")]:
        queue.put_nowait_at(at, item)
    waiting = asyncio.ensure_future(got(queue))
    await settle()
    queue.merge_oldest(3, "".join)
    assert len(queue) == 3
    assert await waiting == (2.0, "abc")
    assert [await got(queue), await got(queue)] == [(2.0, "d"), (3.0, "e")]


@virtual
async def test_a_merge_that_fails_changes_nothing() -> None:
    """Neither does one of fewer than two."""
    queue: TimedQueue[str] = TimedQueue()

    def fail(items: Sequence[str]) -> str:
        raise ArithmeticError(items)

    for item in "abc":
        queue.put_nowait_at(0.0, item)
    queue.merge_oldest(1, fail)
    with pytest.raises(ArithmeticError):
        queue.merge_oldest(9, fail)
    assert queue.drain_due() == ["a", "b", "c"]


@given(st.lists(st.tuples(TIMES, TIMES), max_size=30), st.integers(1, 3))
@virtual
async def test_order_and_times_hold(puts: list[tuple[float, float]], waiters: int) -> None:
    """Whatever is put when: nothing is lost, nothing early or late; of what is there, the earliest goes first."""
    queue: TimedQueue[int] = TimedQueue()
    taken: list[tuple[float, int]] = []

    async def take() -> None:
        while True:
            item = await queue.get()
            taken.append((loop().time(), item))

    takers = [asyncio.ensure_future(take()) for _ in range(waiters)]
    puts.sort(key=lambda put: put[0])
    for number, (put_at, deliver_at) in enumerate(puts):
        await asyncio.sleep(put_at - loop().time())
        queue.put_nowait_at(deliver_at, number)
    await asyncio.sleep(11.0)
    for task in takers:
        task.cancel()
    await settle()
    assert sorted(number for _, number in taken) == list(range(len(puts)))
    for at, number in taken:
        assert max(puts[number]) <= at <= max(puts[number]) + 0.0011
    # A delivery may come before another that was put first only if it is due first, or the other was put later.
    for (_, first), (_, second) in pairwise(taken):
        assert (puts[first][1], first) < (puts[second][1], second) or puts[second][0] >= max(puts[first]) - 0.0011
    assert loop().timers == 0


@given(st.lists(st.sampled_from(["put", "get", "cancel", "drain", "pass"]), max_size=40), st.randoms())
@virtual
async def test_nothing_is_lost_or_doubled(steps: list[str], random: Any) -> None:
    """Puts, gets, cancellations and drains in any order: every item is given once, to one who was there to take it."""
    queue: TimedQueue[int] = TimedQueue()
    gets: list[asyncio.Task[int]] = []
    drained: list[int] = []
    count = 0
    choice = random.random
    for step in steps:
        if step == "put":
            queue.put_nowait_at(loop().time() + int(choice() * 3), count)
            count += 1
        elif step == "get":
            gets.append(asyncio.ensure_future(queue.get()))
        elif step == "cancel" and gets:
            gets[int(choice() * len(gets))].cancel()
        elif step == "drain":
            drained += queue.drain_due(2)
        elif step == "pass":
            await asyncio.sleep(int(choice() * 2))
        if choice() < 0.5:
            await settle()
    await asyncio.sleep(5.0)
    taken = [task.result() for task in gets if task.done() and not task.cancelled()]
    rest = queue.drain_due()
    assert sorted(taken + drained + rest) == list(range(count))
    waiting = [task for task in gets if not task.done()]
    assert not (waiting and rest)
    queue.close()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert loop().timers == 0
