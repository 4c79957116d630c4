"""Connections that break in the middle: what was acknowledged is there, and nothing is there twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Receipt, Store

from tests.waiting import wait_for
from worldledger.drafts import CheckedDraft
from worldledger.errors import StoreUnavailableError
from worldledger.rulesets import Ruleset
from worldledger.world import WorldState

from .helpers import assert_sound, draft, start
from .proxy import Proxy

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]

_TERMINATE = """
    select count(pg_terminate_backend(pid)) from pg_stat_activity
    where datname = current_database() and application_name = 'worldledger'
"""


@pytest_asyncio.fixture(loop_scope="session")
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    """Return a proxy before the server."""
    async with Proxy(database_url).running() as running:
        yield running


@pytest_asyncio.fixture(loop_scope="session")
async def far_log(log: EventLog, proxy: Proxy, open_store: Opener) -> EventLog:
    """Return the log of a store that reaches the server through the proxy, and has written to it once."""
    store = await open_store(proxy.url, command_timeout=0.4, append_deadline=20)
    far = await store.log(log.world_id)
    assert await far.append(draft("first")) == 2
    return far


@pytest.mark.both_servers
async def test_an_answer_that_got_lost_is_found_again(far_log: EventLog, store: Store, proxy: Proxy) -> None:
    """An effect whose acknowledgement got lost is found in the log and acknowledged, not written again."""
    rule = proxy.lose_answer(b"needle")
    (receipt,) = await far_log.append_all([draft("needle")])
    assert rule.done.is_set()
    assert (receipt.global_seq, receipt.replayed) == (3, False)
    assert await assert_sound(store, far_log.world_id, [receipt]) == ["first", "needle"]


async def test_a_request_that_got_lost_is_sent_again(far_log: EventLog, store: Store, proxy: Proxy) -> None:
    """An effect that never reached the server is written when the connection is back."""
    proxy.lose_request(b"needle")
    (receipt,) = await far_log.append_all([draft("needle")])
    assert await assert_sound(store, far_log.world_id, [receipt]) == ["first", "needle"]


@pytest.mark.parametrize("lost", ["answer", "request"])
async def test_a_group_of_requests_whose_outcome_is_unknown(
    far_log: EventLog, store: Store, proxy: Proxy, lost: str
) -> None:
    """Many callers in one lost group, with and without req_ids, are each answered once and rightly."""
    (proxy.lose_answer if lost == "answer" else proxy.lose_request)(b"needle 9")
    units = [[draft(f"needle {n}", req_id=f"r{n}" if n % 2 else None), draft(f"and {n}")] for n in range(12)]
    receipts = await asyncio.gather(*(far_log.append_all(unit) for unit in units))
    written = await assert_sound(store, far_log.world_id, [receipt for some in receipts for receipt in some])
    assert sorted(written[1:]) == sorted(one["payload"]["n"] for unit in units for one in unit)


@pytest.mark.both_servers
async def test_the_answer_to_the_second_try_gets_lost_too(
    far_log: EventLog, log: EventLog, store: Store, proxy: Proxy
) -> None:
    """A write that is repeated under the head's lock, and whose commit goes unanswered, is found again as well."""
    await log.append(draft("somebody else was first"))
    rule = proxy.lose_answer(b"COMMIT")
    receipts = await far_log.append_all([draft("needle"), draft("needle too", req_id="r")])
    assert rule.done.is_set()
    written = await assert_sound(store, log.world_id, receipts)
    assert written == ["first", "somebody else was first", "needle", "needle too"]


async def test_the_second_try_never_commits(far_log: EventLog, log: EventLog, store: Store, proxy: Proxy) -> None:
    """A write under the head's lock that is cut off before its commit is made again."""
    await log.append(draft("somebody else was first"))
    for _ in range(3):
        proxy.lose_request(b"COMMIT")
    receipts = await far_log.append_all([draft("needle")])
    assert await assert_sound(store, log.world_id, receipts) == ["first", "somebody else was first", "needle"]


@pytest.mark.both_servers
async def test_a_statement_that_arrives_late_does_nothing(far_log: EventLog, store: Store, proxy: Proxy) -> None:
    """A statement that was stuck on its way while its effect was written by another way changes nothing any more."""
    rule = proxy.hold_request(b"needle")
    receipts = await far_log.append_all([draft("needle")])
    assert b"INSERT 0 0" in await rule.release()
    assert await far_log.append(draft("after")) == 4
    assert await assert_sound(store, far_log.world_id, receipts) == ["first", "needle", "after"]


async def test_a_statement_that_arrives_between_two_tries(far_log: EventLog, store: Store, proxy: Proxy) -> None:
    """A stuck statement that arrives after the next try was cut off counts, and is not written once more."""
    stuck = proxy.hold_request(b"needle")

    async def arrive() -> None:
        assert b"INSERT 0 1" in await stuck.release()

    cut = proxy.lose_request(b"COMMIT", before_cut=arrive)
    receipts = await far_log.append_all([draft("needle")])
    assert cut.done.is_set()
    assert await assert_sound(store, far_log.world_id, receipts) == ["first", "needle"]


async def test_a_server_that_stays_away_is_told_with_what_is_known(
    log: EventLog, store: Store, proxy: Proxy, open_store: Opener
) -> None:
    """When the database stays away, callers are told whether their effect may have been written."""
    far_store = await open_store(proxy.url, append_deadline=1.0, command_timeout=0.5)
    far = await far_store.log(log.world_id)
    await far.append(draft("first"))
    proxy.lose_answer(b"needle")
    proxy.refuse_all()
    with pytest.raises(StoreUnavailableError) as caught:
        await far.append(draft("needle", req_id="r"))
    assert caught.value.details["outcome"] == "unknown"
    assert "send it again with the same req_id" in str(caught.value)
    with pytest.raises(StoreUnavailableError) as caught:
        await far.append(draft("never sent"))
    assert "outcome" not in caught.value.details
    proxy.accept_again()
    (receipt,) = await far.append_all([draft("needle", req_id="r")])
    assert receipt.replayed
    assert await assert_sound(store, log.world_id, [receipt]) == ["first", "needle"]


@pytest.mark.both_servers
async def test_connections_cut_again_and_again(log: EventLog, store: Store, admin: Connection) -> None:
    """While the server ends the store's sessions over and over, callers are answered, each effect there once."""
    receipts: list[Receipt] = []

    async def caller(number: int) -> None:
        for n in range(20):
            fields = {"req_id": f"{number}-{n}"} if number % 2 else {}
            receipts.extend(await log.append_all([draft([number, n], **fields)]))

    tasks = [start(caller(number)) for number in range(8)]
    cuts = 0
    for done in range(0, 150, 10):
        await wait_for(lambda: len(receipts) >= done, "more is written")  # noqa: B023 - awaited here
        cuts += await admin.fetchval(_TERMINATE)
    await asyncio.gather(*tasks)
    assert cuts >= 10
    written = await assert_sound(store, log.world_id, receipts)
    assert sorted(written) == [[number, n] for number in range(8) for n in range(20)]


async def test_the_network_cut_again_and_again(far_log: EventLog, store: Store, proxy: Proxy) -> None:
    """While the network breaks over and over, callers are answered, and each effect is there once."""
    receipts: list[Receipt] = []

    async def caller(number: int) -> None:
        for n in range(20):
            receipts.extend(await far_log.append_all([draft([number, n])]))

    tasks = [start(caller(number)) for number in range(6)]
    for done in range(0, 110, 10):
        await wait_for(lambda: len(receipts) >= done, "more is written")  # noqa: B023 - awaited here
        proxy.cut_all()
    await asyncio.gather(*tasks)
    written = await assert_sound(store, far_log.world_id, receipts)
    assert sorted(written[1:]) == [[number, n] for number in range(6) for n in range(20)]


async def test_a_read_is_repeated_on_another_connection(log: EventLog, proxy: Proxy, open_store: Opener) -> None:
    """A read whose connection turns out to be dead is answered all the same, over another one."""
    await log.append(draft("first"))
    far_store = await open_store(proxy.url)
    cut = proxy.lose_answer(log.world_id.encode())
    assert (await far_store.reader.effect(log.world_id, 2)).global_seq == 2
    assert cut.done.is_set()
    cut = proxy.lose_answer(log.world_id.encode())
    assert [row.global_seq async for batch in far_store.reader.batches(log.world_id) for row in batch] == [1, 2]
    assert cut.done.is_set()


class _Marking(Ruleset):
    """A ruleset that marks each draft that it decides on, so that deciding twice would show."""

    def decide(self, draft: CheckedDraft, state: WorldState | None) -> CheckedDraft:
        return draft._replace(schema_version=f"{draft.schema_version}+")


async def test_what_is_settled_is_decided_anew(
    log: EventLog, proxy: Proxy, open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lone caller's draft whose write was lost is decided on as it was given, not on top of the first decision."""
    monkeypatch.setattr("worldledger_service.store.store.load_ruleset", lambda _: _Marking())
    far_store = await open_store(proxy.url)
    far = await far_store.log(log.world_id)
    for _ in range(2):
        await far.append(draft("first"))
    cut = proxy.lose_request(b"needle")
    await far.append(draft("needle"))
    assert cut.done.is_set()
    versions = {entry.effect["schema_version"] for entry in await log.get_entries_since(1)}
    assert versions == {f"{draft()['schema_version']}+"}
