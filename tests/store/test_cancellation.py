"""Callers that go away: nothing is broken behind them, and everybody else gets an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
from worldledger_service.store import EventLog, Store

from tests.waiting import wait_for

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


async def test_a_waiting_caller_that_goes_away_leaves_nothing(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """What a caller waited to write is not written if it goes away first; those around it are."""
    async with holding_head(database_url, log.world_id):
        tasks = [start(log.append(draft(0)))]
        await wait_for_waiters(admin)
        tasks += [start(log.append(draft(n))) for n in range(1, 6)]
        await wait_for(lambda: store.waiting == 5, "they wait")
        tasks[2].cancel()
        tasks[4].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [isinstance(outcome, asyncio.CancelledError) for outcome in outcomes] == [
        False,
        False,
        True,
        False,
        True,
        False,
    ]
    assert await assert_sound(store, log.world_id) == [0, 1, 3, 5]
    assert store.waiting == 0


async def test_the_caller_that_writes_for_others_goes_away(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """When the caller goes away that is just writing, others are answered; its own effect is there at most once."""
    async with holding_head(database_url, log.world_id):
        leader = start(log.append(draft("leader")))
        await wait_for_waiters(admin)
        others = [start(log.append(draft(n))) for n in range(4)]
        await wait_for(lambda: store.waiting == 4, "they wait")
        leader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leader
    assert max(await asyncio.gather(*others)) in {5, 6}
    written = await assert_sound(store, log.world_id)
    assert sorted(n for n in written if n != "leader") == [0, 1, 2, 3]
    assert written.count("leader") <= 1
    assert await log.append(draft("after")) == len(written) + 2


async def test_a_caller_goes_away_while_its_request_is_settled(
    store: Store, log: EventLog, open_store: Opener, admin: Connection, database_url: str
) -> None:
    """A caller that goes away while another process is first leaves the world in order, and may send again."""
    other = await (await open_store()).log(log.world_id)
    await other.append(draft("other"))
    async with holding_head(database_url, log.world_id):
        caller = start(log.append(draft("mine", req_id="r")))
        await wait_for_waiters(admin)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        next_one = start(log.append(draft("next")))
    await next_one
    (receipt,) = await log.append_all([draft("mine", req_id="r")])
    written = await assert_sound(store, log.world_id, [receipt])
    assert sorted(written) == ["mine", "next", "other"]


@pytest.mark.parametrize(
    "step", [*range(0, 12, 3), *(pytest.param(n, marks=pytest.mark.thorough) for n in range(12) if n % 3)]
)
async def test_going_away_at_any_moment(store: Store, log: EventLog, step: int) -> None:
    """Callers that go away after any number of turns of the event loop break nothing; a retry makes one effect."""
    for round_ in range(2):
        tasks = [start(log.append(draft([round_, n], req_id=f"{round_}-{n}"))) for n in range(4)]
        for _ in range(step):
            await asyncio.sleep(0)
        tasks[0].cancel()
        tasks[2].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    receipts = [
        (await log.append_all([draft([round_, n], req_id=f"{round_}-{n}")]))[0] for round_ in range(2) for n in range(4)
    ]
    written = await assert_sound(store, log.world_id, receipts)
    assert sorted(written) == [[round_, n] for round_ in range(2) for n in range(4)]


async def test_a_time_limit_of_the_callers_own(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """A caller that stops waiting after a while gets its time-out, and the store goes on."""
    async with holding_head(database_url, log.world_id):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(log.append(draft("slow", req_id="r")), 0.05)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await log.append(draft("slow too"))
    await log.append(draft("slow", req_id="r"))
    written = await assert_sound(store, log.world_id)
    assert written.count("slow") == 1
    assert written.count("slow too") <= 1
