"""Bulk writes that are cut off, stopped or refused in the middle: they end at once, and say why."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest
from worldledger_service.store import EventLog, Store

from worldledger.effects import EffectDraft
from worldledger.errors import StoreUnavailableError, TamperedError

from .helpers import assert_sound, draft, guards_down, start
from .proxy import Proxy

Opener = Callable[..., Awaitable[Store]]


def many(at: int, act: Callable[[], object]) -> Iterator[EffectDraft]:
    """Return more drafts than all the buffers on the way to the server can hold, and act before one of them."""
    for n in range(6000):
        if n == at:
            act()
        yield draft([n, "x" * 2000])


def fail() -> None:
    """Be an iterable's own error."""
    raise ZeroDivisionError


@pytest.mark.parametrize("at", [0, 3000, 5999], ids=["at the first row", "in the middle", "at the last row"])
async def test_the_connection_breaks(
    database_url: str, log: EventLog, store: Store, open_store: Opener, at: int
) -> None:
    """A bulk write whose connection breaks says that nothing of it was kept, and can be made again."""
    async with Proxy(database_url).running() as proxy:
        far = await open_store(proxy.url)
        with pytest.raises(StoreUnavailableError, match=r"was lost .*: nothing of this write was kept") as caught:
            await far.bulk_append(log.world_id, many(at, proxy.cut_all))
        assert "outcome" not in caught.value.details
        head = await far.bulk_append(log.world_id, [draft(n) for n in range(10)])
    assert head.seq == 11
    assert await assert_sound(store, log.world_id) == list(range(10))


@pytest.mark.both_servers
async def test_the_answer_to_the_commit_is_lost(
    database_url: str, log: EventLog, store: Store, open_store: Opener
) -> None:
    """A bulk write whose commit goes unanswered says that its outcome is not known."""
    async with Proxy(database_url).running() as proxy:
        far = await open_store(proxy.url, command_timeout=5)
        proxy.lose_answer(b"COMMIT")
        with pytest.raises(StoreUnavailableError, match="whether this write was kept is not known") as caught:
            await far.bulk_append(log.world_id, [draft(1)])
        assert caught.value.details["outcome"] == "unknown"
    assert await assert_sound(store, log.world_id) == [1]


async def test_the_server_does_not_answer_and_the_caller_leaves(
    database_url: str, log: EventLog, store: Store, open_store: Opener
) -> None:
    """A bulk write that is cancelled ends, also when the server answers nothing; nothing of it is kept."""
    async with Proxy(database_url).running() as proxy:
        far = await open_store(proxy.url)
        rule = proxy.hold_request(b"COPY")
        writing = start(far.bulk_append(log.world_id, many(0, lambda: None)))
        await rule.done.wait()
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert rule.held is not None
        rule.held[0][1].close()  # what the proxy held on to
        assert await log.append(draft("after")) == 2
    assert await assert_sound(store, log.world_id) == ["after"]


async def test_the_callers_iterable_fails(log: EventLog, store: Store) -> None:
    """What the caller's iterable raises comes out as it is; nothing is kept, and the connection is usable."""
    for at in (0, 3000):
        with pytest.raises(ZeroDivisionError):
            await store.bulk_append(log.world_id, many(at, fail))
    assert (await store.bulk_append(log.world_id, [draft(1)])).seq == 2
    assert await assert_sound(store, log.world_id) == [1]


@pytest.mark.both_servers
async def test_the_iterable_fails_after_the_server_has_refused(database_url: str, log: EventLog, store: Store) -> None:
    """Where the server has refused a row before the iterable fails, its refusal is what is told, at once."""
    async with guards_down(database_url) as intruder:
        await intruder.execute(
            "insert into effects select world_id, 2, effect, checksum, kind, source_id, sim_time"
            " from effects where world_id = $1",
            log.world_id,
        )
        with pytest.raises(TamperedError):
            await store.bulk_append(log.world_id, many(5999, fail))
        await intruder.execute("delete from effects where world_id = $1 and global_seq = 2", log.world_id)
    assert (await store.bulk_append(log.world_id, [draft(1)])).seq == 2


@pytest.mark.both_servers
async def test_pieces(log: EventLog, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that go in several pieces are all there, whether or not the last piece is full."""
    monkeypatch.setattr("worldledger_service.store.bulk._ROWS", 5)
    for count in (4, 5, 6, 10, 0):
        await store.bulk_append(log.world_id, [draft(n, req_id=f"{count}-{n}") for n in range(count)])
    assert await assert_sound(store, log.world_id) == [*range(4), *range(5), *range(6), *range(10)]
