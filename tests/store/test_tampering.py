"""Appends to a world where somebody has put an effect beyond the head: refused as tampering, in every way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store

from tests.conftest import quick_settings
from worldledger.errors import RecoveryAction, TamperedError
from worldledger.genesis import NewWorld

from .exports import export_of, restored, texts
from .helpers import assert_sound, draft, guards_down

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]

_PUT = """
    insert into effects select $1, $2, effect, checksum, kind, source_id, sim_time
    from effects where world_id = $3 and global_seq = 1
"""
_TAKE_AWAY = "delete from effects where world_id = $1 and global_seq > 1"


@pytest_asyncio.fixture(loop_scope="session")
async def intruder(database_url: str, log: EventLog) -> AsyncIterator[Connection]:
    """Put an effect beyond the head of the log, and take it away again."""
    async with guards_down(database_url) as connection:
        await connection.execute(_PUT, log.world_id, 2, log.world_id)
        yield connection
        await connection.execute(_TAKE_AWAY, log.world_id)


def assert_tampered(error: BaseException, world_id: str, seq: int) -> None:
    """Check that an error says what is wrong, where, and what to do."""
    assert isinstance(error, TamperedError), error
    assert (error.details["world_id"], error.details["global_seq"]) == (world_id, seq)
    assert f"seq {seq} stands in the log beyond the head" in error.message
    assert f"run `worldledger verify {world_id}`" in error.message
    assert error.recovery is RecoveryAction.ABORT
    assert "outcome" not in error.details


@pytest.mark.both_servers
async def test_every_way_of_appending(log: EventLog, intruder: Connection) -> None:
    """A lone caller's effect, one with a req_id, a list and a request are refused, first and again."""
    for _ in range(2):
        for writing in (
            log.append_all([draft(1)]),
            log.append_all([draft(1, req_id="r")]),
            log.append_all([draft(1), draft(2)]),
            log.append_request([draft(1), draft(2)], source_id="a1", req_id="rr"),
        ):
            with pytest.raises(TamperedError) as caught:
                await writing
            assert_tampered(caught.value, log.world_id, 2)


async def test_a_place_further_on(store: Store, log: EventLog, intruder: Connection) -> None:
    """The place that is taken is named, also where it is not the next."""
    await intruder.execute("update effects set global_seq = 4 where world_id = $1 and global_seq = 2", log.world_id)
    for writing in (log.append_all([draft(n) for n in range(5)]), store.bulk_append(log.world_id, [draft(1)] * 5)):
        with pytest.raises(TamperedError) as caught:
            await writing
        assert_tampered(caught.value, log.world_id, 4)


async def test_a_caller_who_knew_the_head(log: EventLog, store: Store, database_url: str) -> None:
    """A store that knew the head, and so goes the shortest way, is refused too; with the effect gone it goes on."""
    assert [await log.append(draft(n)) for n in range(2)] == [2, 3]
    async with guards_down(database_url) as connection:
        await connection.execute(_PUT, log.world_id, 4, log.world_id)
        with pytest.raises(TamperedError) as caught:
            await log.append(draft(2))
        assert_tampered(caught.value, log.world_id, 4)
        await connection.execute("delete from effects where world_id = $1 and global_seq = 4", log.world_id)
    assert await log.append(draft(2)) == 4
    assert await assert_sound(store, log.world_id) == [0, 1, 2]


async def test_worlds_beside_it(log: EventLog, store: Store, world_id: str, intruder: Connection) -> None:
    """Other worlds whose effects are written in the same groups are not held up."""
    await store.create_world(NewWorld(world_id=f"{world_id}.beside"))
    beside = await store.log(f"{world_id}.beside")
    outcomes = await asyncio.gather(
        *(one.append(draft(n)) for n in range(20) for one in (log, beside)), return_exceptions=True
    )
    for error in outcomes[::2]:
        assert isinstance(error, BaseException)
        assert_tampered(error, log.world_id, 2)
    assert sorted(outcomes[1::2]) == list(range(2, 22))  # type: ignore[type-var]
    assert len(await assert_sound(store, beside.world_id)) == 20


@pytest.mark.both_servers
async def test_bulk_writes(log: EventLog, store: Store, world_id: str, intruder: Connection) -> None:
    """Bulk appends, new worlds and restored ones are refused where effects stand already."""
    with pytest.raises(TamperedError) as caught:
        await store.bulk_append(log.world_id, [draft(1)])
    assert_tampered(caught.value, log.world_id, 2)
    name = f"{world_id}.orphan"
    await intruder.execute("alter table effects drop constraint if exists effects_world_id_fkey")
    await intruder.execute(_PUT, name, 1, log.world_id)
    with pytest.raises(TamperedError) as caught:
        await store.create_world(NewWorld(world_id=name))
    assert_tampered(caught.value, name, 1)
    with pytest.raises(TamperedError) as caught:
        await restored(store, export_of(texts(5, name), name))
    assert_tampered(caught.value, name, 1)
    await intruder.execute("delete from effects where world_id = $1", name)


@pytest.mark.both_servers
async def test_a_head_that_is_not_that_of_the_last_effect(log: EventLog, store: Store, database_url: str) -> None:
    """Nothing is built on a checksum that is not that of the effect at the head; mended, the world goes on."""
    assert [await log.append(draft(n)) for n in range(2)] == [2, 3]
    name = log.world_id
    async with guards_down(database_url) as connection, Store.open(database_url, quick_settings()) as other:
        right = await connection.fetchval("select head_checksum from heads where world_id = $1", name)
        await connection.execute("update heads set head_checksum = sha256('other') where world_id = $1", name)
        for again in range(2):
            with pytest.raises(TamperedError, match=f"head_checksum is .* run `worldledger verify {name}`"):
                await (await other.log(name)).append_all([draft(2, req_id="r")] if again else [draft(2)])
            with pytest.raises(TamperedError, match="head_checksum is"):
                await other.bulk_append(name, [draft(2)])
        with pytest.raises(TamperedError, match="head_checksum is"):
            await store.bulk_append(name, [draft(2)])
        assert await connection.fetchval("select count(*) from effects where world_id = $1", name) == 3
        await connection.execute("update heads set head_checksum = $2 where world_id = $1", name, right)
        assert await (await other.log(name)).append(draft(2)) == 4
    assert await assert_sound(store, name) == [0, 1, 2]
