"""Appending, and the EventLog over it."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import EventLog, Store

from tests.rules.chains import chain_checksum
from worldledger.effects import EventLogEntry
from worldledger.genesis import NewWorld

from .helpers import assert_sound, draft, payloads

if TYPE_CHECKING:
    from .helpers import Connection


@pytest.mark.both_servers
async def test_append_gives_the_global_seq_of_a_durable_effect(log: EventLog, admin: Connection) -> None:
    """Append answers with the effect's global_seq, and anybody else sees the effect by then."""
    for n in range(3):
        seq = await log.append(draft(n))
        assert seq == n + 2
        assert await admin.fetchval(
            "select effect from effects where world_id = $1 and global_seq = $2", log.world_id, seq
        )


async def test_the_log_fills_in_what_a_draft_cannot_know(
    open_store: Callable[..., Awaitable[Store]], world_id: str
) -> None:
    """The log gives each effect its uuid, seq, times and world; the rest is as the caller said it."""
    store = await open_store(clock=lambda: 1700000000.5, new_uuid=lambda: "5" * 32)
    await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
    log = await store.log(world_id)
    await log.append(draft("é", sim_time=2, priority=3, req_id="r1", caused_by=1), source_metadata={"file": "x.pgn"})
    (entry,) = await log.get_entries_since(1)
    assert dict(entry.effect) == {
        "uuid": "5" * 32,
        "kind": "Said",
        "payload": {"n": "é"},
        "global_seq": 2,
        "sim_time": 2.0,
        "source_id": "a1",
        "schema_version": "1.0.0",
        "world_id": world_id,
        "priority": 3,
        "req_id": "r1",
        "wall_time": 1700000000.5,
        "caused_by": 1,
        "source_metadata": {"file": "x.pgn"},
    }


async def test_entries_have_all_fields(log: EventLog) -> None:
    """An entry has all its fields; without a req_id it has the empty string, without metadata an empty dict."""
    await log.append(draft(1))
    await log.append(draft(2, req_id="r", source_metadata={"a": 1}))
    await log.append(draft(3, source_metadata={"a": 1}), source_metadata={"b": 2})
    first, second, third = await log.get_entries_since(1)
    assert isinstance(first, EventLogEntry)
    assert set(EventLogEntry.model_fields) == {
        *("global_seq", "sim_time", "wall_time", "effect", "source_metadata", "checksum", "req_id")
    }
    assert (first.req_id, first.source_metadata) == ("", {})
    assert (second.req_id, second.source_metadata) == ("r", {"a": 1})
    assert third.source_metadata == {"b": 2}
    assert (first.global_seq, first.sim_time, first.wall_time) == tuple(
        first.effect[name] for name in ("global_seq", "sim_time", "wall_time")
    )


async def test_entries_since(log: EventLog) -> None:
    """Entries after a seq come ascending, as many as asked for; nothing lies after the head."""
    await log.append_all([draft(n) for n in range(5)])
    assert [entry.global_seq for entry in await log.get_entries_since(0)] == [1, 2, 3, 4, 5, 6]
    assert [entry.global_seq for entry in await log.get_entries_since(-3, limit=2)] == [1, 2]
    assert [entry.global_seq for entry in await log.get_entries_since(4)] == [5, 6]
    assert await log.get_entries_since(6) == []
    assert await log.get_entries_since(2**70) == []
    assert await log.get_entries_since(0, limit=0) == []


@pytest.mark.both_servers
async def test_a_list_is_one_unit_in_its_order(log: EventLog, store: Store) -> None:
    """A list is written whole, in its order, with a receipt for each draft; an empty one writes nothing."""
    receipts = await log.append_all([draft(n, source_id=f"a{9 - n}", priority=n) for n in range(9)])
    assert [receipt.global_seq for receipt in receipts] == list(range(2, 11))
    assert await log.append_all([]) == []
    assert await log.append_request([], source_id="a", req_id="r") == []
    assert await assert_sound(store, log.world_id, receipts) == list(range(9))


@pytest.mark.both_servers
async def test_the_stored_bytes_are_the_hashed_bytes(log: EventLog, admin: Connection) -> None:
    """The five documented lines compute every checksum from the text that is stored, whatever it holds."""
    values: list[Any] = [
        1e16,
        5e-324,
        -1.5,
        2**53 - 1,
        '\U0001f600 ä \\ " \n',
        [],
        {},
        None,
        True,
        {"z": 1, "ä": 2, "a": 3},
    ]
    await log.append_all([draft(value) for value in values])
    rows = await admin.fetch(
        "select effect::text as text, checksum from effects where world_id = $1 order by global_seq", log.world_id
    )
    previous = None
    for row in rows:
        effect = orjson.loads(row["text"])
        assert orjson.dumps(effect, option=orjson.OPT_SORT_KEYS).decode() == row["text"]
        previous = chain_checksum(effect, previous)
        assert row["checksum"].hex() == previous
    assert await payloads(log) == values
    assert await log.validate_integrity()


@pytest.mark.both_servers
async def test_many_callers_make_one_gapless_log(log: EventLog, store: Store) -> None:
    """Whoever calls at the same time, each gets a seq of its own, and there is no gap."""
    receipts = [*await asyncio.gather(*(log.append_all([draft(n)]) for n in range(120)))]
    written = await assert_sound(store, log.world_id, [receipt for (receipt,) in receipts])
    assert sorted(written) == list(range(120))
    assert sorted(receipt.global_seq for (receipt,) in receipts) == list(range(2, 122))


async def test_callers_of_many_worlds(store: Store, world_id: str) -> None:
    """Callers of several worlds at once each get their world's next seq."""
    names = [f"{world_id}.{n}" for n in range(12)]
    await asyncio.gather(*(store.create_world(NewWorld(world_id=name)) for name in names))

    async def append(name: str, n: int) -> None:
        log = await store.log(name)
        await log.append_all([draft(n), draft(n, req_id=f"r{n}", source_id="b")])

    await asyncio.gather(*(append(name, n) for n in range(6) for name in names))
    for name in names:
        assert sorted(await assert_sound(store, name)) == sorted([*range(6), *range(6)])


async def test_every_uuid_is_a_fresh_version_4(log: EventLog) -> None:
    """Effects have uuids of version 4, in hex, each another."""
    await log.append_all([draft(n) for n in range(600)])
    uuids = [entry.effect["uuid"] for entry in await log.get_entries_since(0)]
    assert len(set(uuids)) == 601
    assert all(re.fullmatch(r"[0-9a-f]{12}4[0-9a-f]{3}[89ab][0-9a-f]{15}", uuid) for uuid in uuids)


@pytest.mark.both_servers
async def test_a_large_group_is_written_in_pieces(open_store: Callable[..., Awaitable[Store]], world_id: str) -> None:
    """Units larger than a group, and more units than a group holds, are all written, each whole."""
    store = await open_store(max_group=10)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    sizes = [25, 1, 9, 10, 11, 1, 1, 1, 30, 2]
    await asyncio.gather(*(log.append_all([draft([unit, n]) for n in range(size)]) for unit, size in enumerate(sizes)))
    written = await assert_sound(store, world_id)
    assert sorted(written) == [[unit, n] for unit, size in enumerate(sizes) for n in range(size)]
    for unit, size in enumerate(sizes):
        first = written.index([unit, 0])
        assert written[first : first + size] == [[unit, n] for n in range(size)]


async def test_wide_groups_of_several_worlds_go_side_by_side(store: Store, world_id: str) -> None:
    """Long lists for several worlds at once, beside short ones, are all written."""
    names = [f"{world_id}.{n}" for n in range(4)]
    logs = []
    for name in names:
        await store.create_world(NewWorld(world_id=name))
        logs.append(await store.log(name))
    work = [log.append_all([draft(n) for n in range(250)]) for log in logs]
    work += [log.append_all([draft(-1)]) for log in logs for _ in range(3)]
    await asyncio.gather(*work)
    for name in names:
        assert len(await assert_sound(store, name)) == 253
