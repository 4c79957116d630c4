"""Several processes on one database: stores that know nothing of each other race on the same worlds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
from worldledger_service.store import EventLog, Receipt, Store

from tests.waiting import wait_for
from worldledger.errors import InvalidEffectError, RequestConflictError, WorldExistsError
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


async def _logs(open_store: Opener, world_id: str, count: int) -> list[EventLog]:
    return [await (await open_store()).log(world_id) for _ in range(count)]


async def test_stores_that_take_turns(log: EventLog, store: Store, open_store: Opener) -> None:
    """A store whose idea of the head is old catches up with what others wrote, and writes after it."""
    logs = [log, *await _logs(open_store, log.world_id, 2)]
    for n in range(9):
        assert await logs[n % 3].append(draft(n)) == n + 2
    assert await assert_sound(store, log.world_id) == list(range(9))


async def test_stores_that_race(log: EventLog, store: Store, open_store: Opener) -> None:
    """Stores that write to one world at the same time make one gapless log with all effects, each once."""
    logs = [log, *await _logs(open_store, log.world_id, 2)]

    async def caller(number: int, of: EventLog) -> list[Receipt]:
        receipts = []
        for n in range(15):
            receipts += await of.append_all([draft([number, n, part]) for part in range(1 + n % 3)])
        return receipts

    receipts = await asyncio.gather(*(caller(number, logs[number % 3]) for number in range(12)))
    written = await assert_sound(store, log.world_id, [receipt for some in receipts for receipt in some])
    assert sorted(written) == sorted([c, n, part] for c in range(12) for n in range(15) for part in range(1 + n % 3))
    for number in range(12):
        assert [entry for entry in written if entry[0] == number] == sorted(e for e in written if e[0] == number)


async def test_stores_that_race_with_the_same_requests(log: EventLog, store: Store, open_store: Opener) -> None:
    """The same requests sent to several stores at once are one effect each, and all callers are told the same."""
    logs = [log, *await _logs(open_store, log.world_id, 2)]

    async def caller(of: EventLog) -> list[Receipt]:
        receipts: list[Receipt] = []
        for n in range(12):
            receipts += await of.append_all([draft(n, req_id=f"r{n}"), draft(n, req_id=f"s{n}")])
        return receipts

    answers = await asyncio.gather(*(caller(of) for of in logs for _ in range(3)))
    assert len({tuple(receipt[:3] for receipt in answer) for answer in answers}) == 1
    for told in zip(*answers, strict=True):
        assert sum(not receipt.replayed for receipt in told) == 1
    assert sorted(await assert_sound(store, log.world_id, answers[0])) == sorted([*range(12), *range(12)])


async def test_requests_of_several_effects_that_race(log: EventLog, store: Store, open_store: Opener) -> None:
    """A request of several effects is written once and whole, whichever store is first."""
    logs = [log, *await _logs(open_store, log.world_id, 2)]
    drafts = [draft(n) for n in range(4)]
    others = [start(of.append(draft("other"))) for of in logs]
    answers = await asyncio.gather(
        *(of.append_request(drafts, source_id="a1", req_id=f"r{n}") for n in range(6) for of in logs)
    )
    await asyncio.gather(*others)
    for n in range(6):
        assert len({tuple(receipt[:3] for receipt in answer) for answer in answers[3 * n : 3 * n + 3]}) == 1
    rows = await log.get_entries_since(1)
    by_request = [[row.effect["payload"]["n"] for row in rows if row.req_id == f"r{n}"] for n in range(6)]
    assert by_request == [[0, 1, 2, 3]] * 6
    assert (await store.reader.verify(log.world_id)).verified


async def test_one_key_with_two_bodies_in_two_stores(log: EventLog, store: Store, open_store: Opener) -> None:
    """When two stores get one req_id with different bodies, one is written and the other refused."""
    logs = [log, *await _logs(open_store, log.world_id, 1)]
    for n in range(10):
        work = [of.append_all([draft([n, who], req_id=f"r{n}")]) for who, of in enumerate(logs)]
        outcomes = await asyncio.gather(*work, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes].count(RequestConflictError) == 1
        assert [type(outcome) for outcome in outcomes].count(list) == 1
    assert [n for n, _ in await assert_sound(store, log.world_id)] == list(range(10))


async def test_stores_that_race_on_many_worlds(store: Store, open_store: Opener, world_id: str) -> None:
    """Stores that write to many worlds in one statement each never block each other for good."""
    names = [f"{world_id}.{n}" for n in range(8)]
    await asyncio.gather(*(store.create_world(NewWorld(world_id=name)) for name in names))
    stores = [store, await open_store(), await open_store()]

    async def caller(of: Store, number: int) -> None:
        for n in range(6):
            for name in names if number % 2 else reversed(names):
                await (await of.log(name)).append_all([draft(n, req_id=f"{number}-{n}", source_id=f"s{number % 5}")])

    await asyncio.gather(*(caller(of, 3 * number + at) for number in range(4) for at, of in enumerate(stores)))
    for name in names:
        assert sorted(await assert_sound(store, name)) == sorted([*range(6)] * 12)


async def test_a_world_of_a_busy_lock_does_not_spoil_others(
    store: Store, world_id: str, admin: Connection, database_url: str
) -> None:
    """A head that somebody holds for long keeps nobody else's world waiting until it is let go."""
    names = [f"{world_id}.{n}" for n in range(4)]
    logs = []
    for name in names:
        await store.create_world(NewWorld(world_id=name))
        logs.append(await store.log(name))
    async with holding_head(database_url, names[0]):
        blocked = start(logs[0].append(draft("blocked")))
        await wait_for_waiters(admin)
        for _ in range(2):
            await asyncio.gather(*(log.append(draft("free")) for log in logs[1:]))
        group = [start(log.append(draft("all"))) for log in logs]
        await asyncio.gather(*group[1:])
        assert not blocked.done()
        assert not group[0].done()
    assert await blocked == 2
    assert await asyncio.gather(*group) == [3, 4, 4, 4]


async def test_a_cause_that_another_process_wrote(log: EventLog, open_store: Opener) -> None:
    """A store whose idea of the head is old takes a cause that lies beyond it, and refuses one that nobody wrote."""
    (other,) = await _logs(open_store, log.world_id, 1)
    await other.append_all([draft(n) for n in range(5)])
    assert await log.append(draft("effect", caused_by=6)) == 7
    await other.append(draft())
    with pytest.raises(InvalidEffectError, match="names seq 9, which does not come before this effect"):
        await log.append(draft(caused_by=9))


async def test_a_request_that_another_process_made_long_ago(log: EventLog, open_store: Opener) -> None:
    """A retry is answered with its first receipt by a store that has an old idea of the head, whatever it states."""
    (other,) = await _logs(open_store, log.world_id, 1)
    (first,) = await log.append_all([draft(1, req_id="r", sim_time=1.0)])
    await log.append(draft(sim_time=50.0))
    assert await other.append_all([draft(1, req_id="r", sim_time=1.0)]) == [first._replace(replayed=True)]


async def test_a_world_made_twice_at_once(store: Store, open_store: Opener, world_id: str) -> None:
    """Of those who create one world at the same time one succeeds and the others are told that it is there."""
    stores = [store, await open_store(), await open_store()]
    work = [of.create_world(NewWorld(world_id=world_id, config={"by": n})) for n, of in enumerate(stores)]
    outcomes = await asyncio.gather(*work, return_exceptions=True)
    assert [isinstance(outcome, WorldExistsError) for outcome in outcomes].count(True) == 2
    assert await assert_sound(store, world_id) == []


async def test_a_group_meets_another_process(
    store: Store, log: EventLog, open_store: Opener, admin: Connection, database_url: str
) -> None:
    """Callers whose group meets another process's on the head are all answered, whichever comes first."""
    (other,) = await _logs(open_store, log.world_id, 1)
    async with holding_head(database_url, log.world_id):
        theirs = start(other.append_all([draft("theirs"), draft("theirs too")]))
        await wait_for_waiters(admin)
        ours = [start(log.append(draft("ours")))]
        await wait_for_waiters(admin, 2)
        ours += [start(log.append(draft(f"ours {n}"))) for n in range(4)]
        await wait_for(lambda: store.waiting == 4, "they wait")
    (first, second) = await theirs
    seqs = await asyncio.gather(*ours)
    assert sorted([first.global_seq, second.global_seq, *seqs]) == [2, 3, 4, 5, 6, 7, 8]
    assert second.global_seq == first.global_seq + 1
    assert sorted(await assert_sound(store, log.world_id)) == [
        "ours",
        *(f"ours {n}" for n in range(4)),
        "theirs",
        "theirs too",
    ]
