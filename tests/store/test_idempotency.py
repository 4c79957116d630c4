"""The same request twice is one effect, for ever: whoever sends it, whenever, by whichever door."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import EventLog, Receipt, Store

from tests.waiting import wait_for
from worldledger.errors import InvalidEffectError, RequestConflictError, SimTimeOrderError

from .helpers import assert_sound, draft, holding_head, start, wait_for_waiters

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


def _again(receipts: list[Receipt]) -> list[Receipt]:
    return [receipt._replace(replayed=True) for receipt in receipts]


@pytest.mark.both_servers
async def test_a_request_again_is_answered_with_its_first_receipt(log: EventLog, store: Store) -> None:
    """The same draft under the same req_id is one effect, also when other things happened in between."""
    first = await log.append_all([draft(1, req_id="r")])
    assert not first[0].replayed
    await log.append(draft(2))
    assert await log.append_all([draft(1, req_id="r")]) == _again(first)
    assert await log.append(draft(1, req_id="r")) == first[0].global_seq
    assert await assert_sound(store, log.world_id, first) == [1, 2]


@pytest.mark.both_servers
async def test_a_request_again_by_another_process(log: EventLog, store: Store, open_store: Opener) -> None:
    """Another process, or the same after a restart, knows the requests of all."""
    first = await log.append_all([draft(1, req_id="r")])
    other = await (await open_store()).log(log.world_id)
    assert await other.append_all([draft(1, req_id="r")]) == _again(first)
    second = await other.append_all([draft(2, req_id="r2")])
    assert await log.append_all([draft(2, req_id="r2")]) == _again(second)
    assert await assert_sound(store, log.world_id) == [1, 2]


@pytest.mark.both_servers
async def test_the_same_request_at_the_same_time(log: EventLog, store: Store) -> None:
    """Callers that send the same request at once are all answered with the one effect that it makes."""
    answers = await asyncio.gather(*(log.append_all([draft(1, req_id="r")]) for _ in range(20)))
    assert len({answer[0].global_seq for answer in answers}) == 1
    assert sum(not answer[0].replayed for answer in answers) == 1
    assert await assert_sound(store, log.world_id) == [1]


@pytest.mark.both_servers
async def test_the_same_request_twice_in_one_list(log: EventLog, store: Store) -> None:
    """In a list, a request that comes again is answered with what its first draft makes."""
    receipts = await log.append_all([draft(1, req_id="r"), draft(2), draft(1, req_id="r"), draft(3, req_id="s")])
    assert [receipt.global_seq for receipt in receipts] == [2, 3, 2, 4]
    assert [receipt.replayed for receipt in receipts] == [False, False, True, False]
    again = await log.append_all([draft(1, req_id="r"), draft(1, req_id="r")])
    assert again == _again([receipts[0]] * 2)
    assert await assert_sound(store, log.world_id, receipts) == [1, 2, 3]


@pytest.mark.both_servers
async def test_known_and_new_requests_in_one_list(log: EventLog, store: Store) -> None:
    """A list of requests, some made before, writes the new ones and answers each draft in its place."""
    first = await log.append_all([draft(1, req_id="r1"), draft(3, req_id="r3")])
    drafts = [draft(0, req_id="r0"), draft(1, req_id="r1"), draft(2), draft(3, req_id="r3"), draft(0, req_id="r0")]
    receipts = await log.append_all(drafts)
    assert [receipt.global_seq for receipt in receipts] == [4, 2, 5, 3, 4]
    assert [receipt.replayed for receipt in receipts] == [False, True, False, True, True]
    assert receipts[1] == first[0]._replace(replayed=True)
    assert await assert_sound(store, log.world_id, receipts) == [1, 3, 0, 2]


async def test_the_key_belongs_to_the_source(log: EventLog, store: Store) -> None:
    """Two sources may use the same req_id for different things."""
    await log.append_all([draft(1, req_id="r"), draft(2, req_id="r", source_id="a2")])
    assert await assert_sound(store, log.world_id) == [1, 2]


@pytest.mark.parametrize(
    "other",
    [{"n": 2}, {"kind": "Moved"}, {"schema_version": "2.0.0"}, {"priority": 1}, {"caused_by": 1}, {"sim_time": 0.5}],
    ids=lambda other: next(iter(other)),
)
async def test_another_body_under_the_same_key_is_refused(
    log: EventLog, store: Store, other: dict[str, object]
) -> None:
    """A req_id that comes back with another body is refused, naming the seq that it made."""
    await log.append(draft(1, req_id="r"))
    changed: dict[str, Any] = {"n": 1, "req_id": "r", **other}
    with pytest.raises(RequestConflictError) as caught:
        await log.append(draft(**changed))
    assert (caught.value.details["req_id"], caught.value.details["global_seq"]) == ("r", 2)
    with pytest.raises(RequestConflictError) as caught:
        await log.append_all([draft("new"), draft(**changed)])
    assert caught.value.details["index"] == 1
    assert await assert_sound(store, log.world_id) == [1]


async def test_another_body_in_the_same_list_is_refused(log: EventLog, store: Store) -> None:
    """One req_id with two bodies in one list is refused before anything is written."""
    for second in (draft(2, req_id="r"), draft(1, req_id="r", sim_time=1.0)):
        with pytest.raises(RequestConflictError) as caught:
            await log.append_all([draft(1, req_id="r"), second])
        assert caught.value.details["index"] == 1
    assert await assert_sound(store, log.world_id) == []


async def test_of_two_bodies_at_the_same_time_one_wins(log: EventLog, store: Store) -> None:
    """When the same req_id comes with different bodies at once, one is written and the others are refused."""
    outcomes = await asyncio.gather(
        *(log.append_all([draft(n % 3, req_id="r")]) for n in range(12)), return_exceptions=True
    )
    (written,) = await assert_sound(store, log.world_id)
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, list) is (n % 3 == written)
        assert isinstance(outcome, (list, RequestConflictError))


async def test_a_retry_need_not_repeat_the_time(log: EventLog) -> None:
    """A retry may leave sim_time out or state what the effect has, whatever the world's time is by then."""
    first = await log.append_all([draft(1, req_id="r", sim_time=2.0)])
    await log.append(draft(sim_time=9.0))
    assert await log.append_all([draft(1, req_id="r")]) == _again(first)
    assert await log.append_all([draft(1, req_id="r", sim_time=2.0)]) == _again(first)
    untimed = await log.append_all([draft(2, req_id="s")])
    assert await log.append_all([draft(2, req_id="s", sim_time=9.0)]) == _again(untimed)


async def test_a_refused_request_does_not_use_up_its_key(log: EventLog, store: Store) -> None:
    """After a refusal the same req_id can be used, with another body, too."""
    await log.append(draft("now", sim_time=5.0))
    with pytest.raises(SimTimeOrderError):
        await log.append(draft("early", req_id="r", sim_time=1.0))
    with pytest.raises(InvalidEffectError):
        await log.append(draft("caused", req_id="r", caused_by=99))
    with pytest.raises(SimTimeOrderError):
        await log.append_all([draft("x", req_id="r"), draft(sim_time=1.0)])
    assert await log.append(draft("good", req_id="r")) == 3
    assert await assert_sound(store, log.world_id) == ["now", "good"]


@pytest.mark.both_servers
async def test_a_request_of_several_effects(log: EventLog, store: Store, open_store: Opener) -> None:
    """A request may make several effects; again, it is answered with all of them, by any process."""
    drafts = [draft(n) for n in range(3)]
    first = await log.append_request(drafts, source_id="a1", req_id="r")
    assert [receipt.global_seq for receipt in first] == [2, 3, 4]
    await log.append(draft("between"))
    other = await (await open_store()).log(log.world_id)
    for again in (log, other):
        assert await again.append_request(drafts, source_id="a1", req_id="r") == _again(first)
    entries = await log.get_entries_since(1)
    assert [entry.req_id for entry in entries] == ["r", "r", "r", ""]
    rows = [entry.effect["payload"]["n"] for entry in entries]
    assert rows == [0, 1, 2, "between"]
    assert await log.validate_integrity()
    assert (await store.world(log.world_id)).head_seq == 5


async def test_another_number_or_order_of_effects_is_another_body(log: EventLog) -> None:
    """A request that comes back with more, fewer or reordered effects is refused."""
    await log.append_request([draft(0), draft(1)], source_id="a1", req_id="r")
    for drafts in ([draft(0)], [draft(1), draft(0)], [draft(0), draft(1), draft(2)]):
        with pytest.raises(RequestConflictError):
            await log.append_request(drafts, source_id="a1", req_id="r")
    with pytest.raises(RequestConflictError):
        await log.append(draft(0, req_id="r"))


async def test_a_request_of_one_effect_is_the_drafts_own(log: EventLog) -> None:
    """A request of one effect and a draft with that req_id are the same request."""
    first = await log.append_request([draft(0)], source_id="a1", req_id="r")
    assert await log.append_all([draft(0, req_id="r")]) == _again(first)


@pytest.mark.both_servers
async def test_a_repeat_that_waits_with_its_first(
    store: Store, log: EventLog, admin: Connection, database_url: str
) -> None:
    """A request and its repeat that wait together, in units of other things, are told apart after the first commit."""
    async with holding_head(database_url, log.world_id):
        blocker = start(log.append(draft("blocker")))
        await wait_for_waiters(admin)
        units = [[draft(1, req_id="r"), draft("a")], [draft("b"), draft(1, req_id="r")], [draft(2, req_id="r")]]
        tasks = [start(log.append_all(unit)) for unit in units]
        await wait_for(lambda: store.waiting == 5, "all wait")
    one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
    assert await blocker == 2
    assert isinstance(one, list)
    assert isinstance(two, list)
    assert isinstance(three, RequestConflictError)
    assert [receipt.global_seq for receipt in one] == [3, 4]
    assert [(receipt.global_seq, receipt.replayed) for receipt in two] == [(5, False), (3, True)]
    assert await assert_sound(store, log.world_id) == ["blocker", 1, "a", "b"]
    assert store.waiting == 0


@pytest.mark.both_servers
async def test_odd_keys_are_keys(log: EventLog, store: Store) -> None:
    """Any text that a draft may carry is a key, compared character by character."""
    keys = ["r", "R", " r", "r\n", "é", "e\u0301", "\U0001f600", "x" * 200, "'; drop table requests; --", "%s", "\\"]
    for _ in range(2):
        for number, key in enumerate(keys):
            assert await log.append(draft(number, req_id=key)) == number + 2
    assert await assert_sound(store, log.world_id) == list(range(len(keys)))
