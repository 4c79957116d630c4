"""Bulk writing: whole or not at all, in the order given, beside everything else that goes on."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import EventLog, Store

from worldledger.effects import EffectDraft
from worldledger.errors import (
    InvalidConfigError,
    InvalidEffectError,
    InvalidNameError,
    RequestConflictError,
    ReservedKindError,
    SimTimeOrderError,
    UnknownRulesetError,
    WorldExistsError,
    WorldNotFoundError,
)
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


@pytest.mark.both_servers
async def test_bulk_writes_in_the_order_given(store: Store, log: EventLog) -> None:
    """Bulk appending takes any iterable, keeps its order whatever the keys, and tells its progress."""
    told: list[int] = []
    drafts = (draft(n, priority=n % 7, source_id=f"a{n % 5}", sim_time=n / 8) for n in range(2500))
    head = await store.bulk_append(log.world_id, drafts, told.append)
    assert (head.seq, sum(told)) == (2501, 2500)
    assert await assert_sound(store, log.world_id) == list(range(2500))
    assert head == (await store.world(log.world_id)).head


async def test_bulk_and_appends_follow_each_other(store: Store, log: EventLog, open_store: Opener) -> None:
    """After a bulk write appends go on from its head, here and in other processes, and the other way round."""
    other = await (await open_store()).log(log.world_id)
    await other.append(draft(0))
    await store.bulk_append(log.world_id, [draft(n) for n in range(1, 4)])
    assert await log.append(draft(4)) == 6
    assert await other.append(draft(5)) == 7
    await store.bulk_append(log.world_id, [draft(6)])
    assert await assert_sound(store, log.world_id) == list(range(7))


async def test_nothing_in_bulk_changes_nothing(store: Store, log: EventLog) -> None:
    """A bulk write of nothing leaves the head as it was, and the world verified."""
    await log.append(draft(0))
    before = (await store.world(log.world_id)).head
    assert await store.bulk_append(log.world_id, []) == before
    assert await store.bulk_append(log.world_id, iter(())) == before
    assert await assert_sound(store, log.world_id) == [0]


_BAD: dict[str, tuple[Any, type[Exception]]] = {
    "a value": (draft(math.nan), InvalidEffectError),
    "a kind": (draft(kind="StateDigest"), ReservedKindError),
    "a time": (draft(sim_time=-5.0), SimTimeOrderError),
    "a cause": (draft(caused_by=10**9), InvalidEffectError),
    "no draft": (None, InvalidEffectError),
}


@pytest.mark.parametrize(("bad", "error"), _BAD.values(), ids=_BAD.keys())
async def test_a_bad_draft_in_bulk_undoes_all(
    store: Store, log: EventLog, admin: Connection, bad: Any, error: type[Exception]
) -> None:
    """One bad draft, however late, and nothing is written; its index is named, and the world goes on."""
    drafts = [*(draft(n, req_id=f"r{n}") for n in range(1500)), bad, draft("never")]
    with pytest.raises(error) as caught:
        await store.bulk_append(log.world_id, drafts)
    assert caught.value.details["index"] == 1500  # type: ignore[attr-defined]
    new = NewWorld(world_id=f"{log.world_id}.new", time_authority="client")
    with pytest.raises(error):
        await store.import_world(new, drafts)
    for table in ("worlds", "heads", "effects", "requests"):
        assert not await admin.fetchval(f"select count(*) from {table} where world_id = $1", new.world_id)
    assert await log.append(draft("good", req_id="r0")) == 2
    assert await assert_sound(store, log.world_id) == ["good"]
    assert (await store.import_world(new, drafts[:3])).head_seq == 4


async def test_what_the_callers_own_iterable_raises_comes_out(store: Store, log: EventLog) -> None:
    """An error of the caller's own, while it makes the drafts, comes out as it is, and nothing is written."""

    def drafts(error: Exception) -> Iterator[EffectDraft]:
        yield from (draft(n) for n in range(1200))
        raise error

    for error in (LookupError("my own"), FileNotFoundError(2, "No such file", "games.pgn"), TimeoutError("mine")):
        with pytest.raises(type(error)) as caught:
            await store.bulk_append(log.world_id, drafts(error))
        assert caught.value is error
        with pytest.raises(type(error)) as caught:
            await store.import_world(NewWorld(world_id=f"{log.world_id}.new"), drafts(error))
        assert caught.value is error
    assert await log.append(draft("good")) == 2
    assert await assert_sound(store, log.world_id) == ["good"]


@pytest.mark.both_servers
async def test_requests_in_bulk_are_requests(store: Store, log: EventLog) -> None:
    """A draft written in bulk answers for its req_id afterwards."""
    await store.bulk_append(log.world_id, [draft(n, req_id=f"r{n}", sim_time=1.0) for n in range(3)])
    (receipt,) = await log.append_all([draft(1, req_id="r1")])
    assert (receipt.global_seq, receipt.replayed) == (3, True)
    with pytest.raises(RequestConflictError):
        await log.append(draft("other", req_id="r1"))
    assert await assert_sound(store, log.world_id, [receipt]) == [0, 1, 2]


@pytest.mark.both_servers
@pytest.mark.parametrize("times", ["known", "twice"])
async def test_a_request_again_in_bulk_undoes_all(store: Store, log: EventLog, times: str) -> None:
    """A req_id that the world knows, or that comes twice, fails the whole bulk write and is named."""
    if times == "known":
        await log.append(draft("first", req_id="r, (5)"))
    drafts = [draft(0, req_id="new"), draft(1, req_id="r, (5)"), *([draft(2, req_id="r, (5)")] * (times == "twice"))]
    with pytest.raises(RequestConflictError) as caught:
        await store.bulk_append(log.world_id, drafts)
    assert caught.value.details["req_id"] == "r, (5)"
    assert (await log.append_all([draft("free", req_id="new")]))[0].replayed is False
    assert await assert_sound(store, log.world_id) == [*(["first"] if times == "known" else []), "free"]


async def test_a_long_bulk_write_has_no_time_limit(log: EventLog, open_store: Opener, world_id: str) -> None:
    """The time that one statement may take does not limit how long a bulk write may."""
    store = await open_store(command_timeout=0.6)
    loop = asyncio.get_running_loop()

    def drafts(until: float) -> Iterator[EffectDraft]:
        while loop.time() < until:
            yield draft("x" * 2000)

    await store.bulk_append(world_id, drafts(loop.time() + 0.8))
    await store.import_world(NewWorld(world_id=f"{world_id}.new"), drafts(loop.time() + 0.8))
    assert await log.validate_integrity()


async def test_appends_beside_a_bulk_write(store: Store, log: EventLog, open_store: Opener) -> None:
    """Appends to the same world, by this process and another, wait for a bulk write and come after it or before."""
    other = await (await open_store()).log(log.world_id)
    work: list[Any] = [store.bulk_append(log.world_id, [draft(["bulk", n]) for n in range(3000)])]
    work += [of.append(draft(["one", n])) for n in range(10) for of in (log, other)]
    work += [store.bulk_append(log.world_id, [draft(["bulk too", n]) for n in range(500)])]
    await asyncio.gather(*work)
    written = await assert_sound(store, log.world_id)
    assert len(written) == 3520
    for name, count in (("bulk", 3000), ("bulk too", 500)):
        first = written.index([name, 0])
        assert written[first : first + count] == [[name, n] for n in range(count)]


async def test_a_bulk_write_waits_for_its_world_alone(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """A bulk write that has to wait for its world's head keeps no other world waiting."""
    other_id = f"{log.world_id}.other"
    await store.create_world(NewWorld(world_id=other_id))
    async with holding_head(database_url, log.world_id):
        bulk = start(store.bulk_append(log.world_id, [draft(n) for n in range(10)]))
        await wait_for_waiters(admin)
        assert await (await store.log(other_id)).append(draft()) == 2
        assert not bulk.done()
    assert (await bulk).seq == 11


async def test_a_cancelled_bulk_write_leaves_nothing(store: Store, log: EventLog) -> None:
    """A bulk write whose caller goes away in the middle is undone, and the world goes on."""
    started = asyncio.Event()

    def drafts() -> Iterator[EffectDraft]:
        for n in range(100_000):
            if n == 5000:
                started.set()
            yield draft("x" * 1000)

    bulk = start(store.bulk_append(log.world_id, drafts()))
    await started.wait()
    bulk.cancel()
    with pytest.raises(asyncio.CancelledError):
        await bulk
    assert await log.append(draft("good")) == 2
    assert await assert_sound(store, log.world_id) == ["good"]


@pytest.mark.both_servers
async def test_a_world_is_imported_whole(store: Store, world_id: str) -> None:
    """A world comes into being together with its first effects, its genesis being the first."""
    told: list[int] = []
    world = NewWorld(world_id=world_id, config={"a": 1e16}, experiment="e", time_authority="client")
    record = await store.import_world(world, (draft(n, sim_time=n) for n in range(1001)), told.append)
    assert (record.head_seq, record.sim_time, sum(told)) == (1002, 1000.0, 1001)
    assert await assert_sound(store, world_id) == list(range(1001))


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"world_id": "a b"}, InvalidNameError),
        ({"ruleset": "go"}, UnknownRulesetError),
        ({"config": {"a": math.inf}}, InvalidConfigError),
        ({"config": {"a": "x" * 2**20}}, InvalidConfigError),
        ({"time_authority": "No"}, InvalidConfigError),
    ],
)
async def test_a_world_that_cannot_be_is_refused(
    store: Store, world_id: str, changed: dict[str, Any], error: type[Exception]
) -> None:
    """A world with a bad name, ruleset, config or authority is refused, and nothing of it is kept."""
    with pytest.raises(error):
        await store.create_world(NewWorld(**{"world_id": world_id, **changed}))
    with pytest.raises(WorldNotFoundError):
        await store.world(world_id)


async def test_a_world_that_is_there_stays_as_it_is(store: Store, log: EventLog) -> None:
    """Creating or importing a world that is there is refused and changes nothing."""
    await log.append(draft("old"))
    with pytest.raises(WorldExistsError) as caught:
        await store.import_world(NewWorld(world_id=log.world_id), [draft("new")])
    assert caught.value.details["world_id"] == log.world_id
    with pytest.raises(WorldExistsError):
        await store.create_world(NewWorld(world_id=log.world_id))
    assert await assert_sound(store, log.world_id) == ["old"]


async def test_bulk_into_a_world_that_is_not_there(store: Store) -> None:
    """Bulk appending to a world that nobody made is an error."""
    with pytest.raises(WorldNotFoundError):
        await store.bulk_append("nobodys", [draft()])
