"""Snapshots and state digests that are taken while worlds are written."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import orjson
import pytest
from worldledger_service.store import EventLog, Store
from worldledger_service.store.replaying import check_replay

from worldledger.errors import ReservedKindError
from worldledger.genesis import NewWorld
from worldledger.rulesets import load_ruleset

from .helpers import assert_sound
from .states import moved, replayed, snapshots, until_snapshot, world_of_moves

if TYPE_CHECKING:
    from .helpers import Connection

Opener = Callable[..., Awaitable[Store]]


async def digests(log: EventLog) -> list[dict[str, object]]:
    """Return the payloads of the state digests in a world's log."""
    return [orjson.loads(row.text)["payload"] async for batch in log.batches(kind="StateDigest") for row in batch]


async def test_appends_take_snapshots_and_record_their_digests(open_store: Opener, world_id: str) -> None:
    """Every so many effects a snapshot is taken beside the appends, and the state's digest stands in the chain."""
    store = await open_store(snapshot_every=40)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    for n in range(130):
        await log.append(moved(n))
    found = await until_snapshot(store, world_id, 120)
    assert [each.global_seq for each in found] == [40, 80, 120]
    for said, snapshot in zip(await digests(log), found, strict=True):
        fold = await replayed(store, world_id, snapshot.global_seq)
        assert said == {
            "at_seq": snapshot.global_seq,
            "state_digest": fold.state.digest(),
            "ruleset": "sandbox",
            "ruleset_version": 1,
        }
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.agreed
    assert (verdict.digests, verdict.snapshots) == (3, 3)
    await assert_sound(store, world_id)


async def test_a_digest_alters_nothing_but_the_last_effect(open_store: Opener, world_id: str) -> None:
    """The state after a StateDigest is the one before it, apart from last_effect_seq, _time and _kind."""
    store = await open_store()
    await world_of_moves(store, world_id, 20)
    before = (await store.states.state_at(world_id, 21)).state
    await store.snapshot(world_id)
    after = (await store.states.state_at(world_id, 22)).state
    assert after.metadata["last_effect_kind"] == "StateDigest"
    changed = {"last_effect_seq", "last_effect_time", "last_effect_kind"}
    assert {k: v for k, v in after.metadata.items() if k not in changed} == {
        k: v for k, v in before.metadata.items() if k not in changed
    }
    assert (after.entities, after.spatial_index) == (before.entities, before.spatial_index)


async def test_two_processes_write_one_digest(open_store: Opener, world_id: str) -> None:
    """Processes that append to one world take the same snapshots, and of each digest there is one in the log."""
    stores = [await open_store(snapshot_every=25) for _ in range(3)]
    await stores[0].create_world(NewWorld(world_id=world_id))
    logs = [await store.log(world_id) for store in stores]
    await asyncio.gather(*(logs[n % 3].append(moved(n)) for n in range(240)))
    await until_snapshot(stores[0], world_id, 225)
    said = [each["at_seq"] for each in await digests(logs[0])]
    assert len(said) == len(set(said))
    found = {each.global_seq for each in await snapshots(stores[0], world_id)}
    assert set(said) <= found
    assert set(range(25, 226, 25)) <= found
    for store in stores:
        await store.close()  # with what they still have to write
    await assert_sound(stores[0], world_id)


async def test_a_world_says_how_often(store: Store, world_id: str) -> None:
    """A world made with snapshot_every keeps to it, whatever the service's own spacing is."""
    await store.create_world(NewWorld(world_id=world_id, snapshot_every=30))
    log = await store.log(world_id)
    await log.append_all([moved(n) for n in range(100)])
    assert [each.global_seq for each in await until_snapshot(store, world_id, 90)] == [30, 60, 90]


@pytest.mark.parametrize("every", [2, 3])
async def test_digests_do_not_call_for_further_digests(open_store: Opener, world_id: str, every: int) -> None:
    """However close the spacing: the digest of a snapshot is no reason for the next one, for ever."""
    store = await open_store()
    await store.create_world(NewWorld(world_id=world_id, snapshot_every=every))
    log = await store.log(world_id)
    await log.append_all([moved(n) for n in range(40)])
    await store.close()
    head = (await store.world(world_id)).head_seq
    assert head < 41 + 42
    assert head == 41 + len(await digests(log))


async def test_imports_write_no_digests(open_store: Opener, world_id: str) -> None:
    """A world that was imported has exactly the effects it came with."""
    store = await open_store(snapshot_every=10)
    await world_of_moves(store, world_id, 100)
    await store.close()
    assert (await store.world(world_id)).head_seq == 101


async def test_a_snapshot_on_request(store: Store, world_id: str) -> None:
    """Whoever asks gets one at the head with its digest; asking again, with nothing new, changes nothing."""
    log = await world_of_moves(store, world_id, 33)
    first = await store.snapshot(world_id)
    assert (first.global_seq, first.digest_seq) == (34, 35)
    assert await store.snapshot(world_id) == first
    assert (await store.world(world_id)).head_seq == 35
    await log.append(moved(3))
    assert (await store.snapshot(world_id)).global_seq == 36
    assert [each.global_seq for each in await snapshots(store, world_id)] == [34, 36]


async def test_nobody_else_writes_digests(log: EventLog) -> None:
    """A client that posts a StateDigest is refused, and so is one that speaks as the service."""
    with pytest.raises(ReservedKindError):
        await log.append(moved(1, kind="StateDigest"))
    with pytest.raises(ReservedKindError, match="the service's own"):
        await log.append(moved(1, source_id="worldledger", req_id="digest:3"))


async def test_a_digest_is_a_digest(store: Store, world_id: str) -> None:
    """An effect that an older log has under a digest's req_id is not taken for the digest."""
    log = await world_of_moves(store, world_id, 3)
    await log.append_all([moved(1, source_id="worldledger", req_id="digest:5")], system=True)
    taken = await store.snapshot(world_id)
    assert (taken.global_seq, taken.digest_seq) == (5, None)


async def test_a_database_that_refuses_snapshots_takes_appends(
    open_store: Opener, admin: Connection, world_id: str
) -> None:
    """Where snapshots cannot be written, appends and states go on without."""
    store = await open_store(snapshot_every=10)
    await store.create_world(NewWorld(world_id=world_id))
    log = await store.log(world_id)
    name = f"none_of_{world_id.replace('-', '_')}"
    await admin.execute(f"alter table snapshots add constraint {name} check (world_id <> '{world_id}') not valid")
    await log.append_all([moved(n) for n in range(50)])
    assert (await store.states.state_at(world_id, 51)).state.spatial_index["a9"] == (49.0, 0.5, 2.0)
    await store.close()
    assert await snapshots(store, world_id) == []
    assert (await store.world(world_id)).head_seq == 51
