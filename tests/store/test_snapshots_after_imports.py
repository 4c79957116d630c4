"""Snapshots of worlds that come by an import: beside it, after its commits, and nothing of them in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from worldledger_service.store import Store
from worldledger_service.store.bulk import WorldsAtOnce

from worldledger.chain import StoredEffect
from worldledger.drafts import check_draft
from worldledger.folding import Fold
from worldledger.genesis import NewWorld

from .helpers import assert_sound
from .states import moved, replayed, snapshots, until_snapshot

Opener = Callable[..., Awaitable[Store]]


async def kinds(store: Store, world_id: str) -> set[str]:
    """Return the kinds of a world's effects."""
    return {row.kind async for batch in store.reader.batches(world_id) for row in batch}


async def check(store: Store, world_id: str) -> None:
    """Wait for the snapshots of an imported world, and look at what they are."""
    found = await until_snapshot(store, world_id, 120, digest=False)
    assert [each.global_seq for each in found] == [40, 80, 120]
    for each in found:
        assert each.state_digest == (await replayed(store, world_id, each.global_seq)).state.digest()
    assert "StateDigest" not in await kinds(store, world_id)
    await assert_sound(store, world_id)


async def test_an_imported_world_has_snapshots_soon(open_store: Opener, world_id: str) -> None:
    """At the usual places, though nobody has asked for a state."""
    store = await open_store(snapshot_every=40)
    await store.import_world(NewWorld(world_id=world_id), [moved(n) for n in range(150)])
    await check(store, world_id)


async def test_a_world_that_asks_for_fewer_has_fewer(open_store: Opener, world_id: str) -> None:
    """The spacing that its genesis names counts, not the service's."""
    store = await open_store(snapshot_every=40)
    await store.import_world(NewWorld(world_id=world_id, snapshot_every=1000), [moved(n) for n in range(150)])
    assert not store._snapshotter._imported
    assert await snapshots(store, world_id) == []


async def test_worlds_that_are_written_together_have_them(open_store: Opener, world_id: str) -> None:
    """Each that is long enough; a short one has none, as ever."""
    store = await open_store(snapshot_every=40)
    worlds = WorldsAtOnce(store.reader, max_effect_bytes=10_000, written=store.imported)
    drafts = [check_draft(moved(n)) for n in range(150)]
    given = [NewWorld(world_id=f"{world_id}-{name}", time_authority="client") for name in ("long", "short")]
    assert await worlds.write([worlds.seal(given[0], drafts), worlds.seal(given[1], drafts[:30])]) == [None, None]
    assert list(store._snapshotter._imported) == [f"{world_id}-long"]
    await check(store, f"{world_id}-long")
    assert await snapshots(store, f"{world_id}-short") == []


async def test_they_wait_while_anything_is_imported(open_store: Opener, world_id: str) -> None:
    """So an import of many worlds is not slowed down by the snapshots of those that are in."""
    store = await open_store(snapshot_every=40)
    with store.reader.bulk.one():
        await store.import_world(NewWorld(world_id=world_id), [moved(n) for n in range(150)])
        (task,) = store._snapshotter._imported.values()
        await store.world(world_id)
        assert not task.done()
        assert await snapshots(store, world_id) == []
    await asyncio.wait([task])
    await check(store, world_id)


async def test_a_process_that_ends_meanwhile_leaves_nothing_broken(
    open_store: Opener, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not written is made when somebody asks for a state, as of any world."""
    monkeypatch.setattr("worldledger_service.store.snapshotter._CLOSE_SECONDS", 0.0)
    store = await open_store(snapshot_every=40)
    await store.import_world(NewWorld(world_id=world_id), [moved(n) for n in range(150)])
    assert store._snapshotter._imported
    await store._snapshotter.close()
    assert not store._snapshotter._imported
    other = await open_store(snapshot_every=40)
    state = await other.states.state_at(world_id, 151)
    assert state.state_digest == (await replayed(other, world_id, 151)).state.digest()
    assert [each.global_seq for each in await snapshots(other, world_id)][:3] == [40, 80, 120]
    await assert_sound(other, world_id)


async def test_a_state_that_is_asked_for_meanwhile_is_folded_once(
    open_store: Opener, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks waits for the snapshots that are being taken, and goes on from the newest."""
    store = await open_store(snapshot_every=40)
    writing, go_on = asyncio.Event(), asyncio.Event()
    write = store.states.snapshots.write

    async def held(*given: Any) -> None:
        writing.set()
        await go_on.wait()
        await write(*given)

    monkeypatch.setattr(store.states.snapshots, "write", held)
    await store.import_world(NewWorld(world_id=world_id), [moved(n) for n in range(150)])
    await writing.wait()
    folded: list[int] = []
    feed = Fold.feed

    def counting(self: Fold, rows: Sequence[StoredEffect]) -> None:
        folded.append(len(rows))
        feed(self, rows)

    monkeypatch.setattr(Fold, "feed", counting)
    asking = asyncio.create_task(store.states.state_at(world_id, 151))
    await store.world(world_id)
    assert not asking.done()
    go_on.set()
    assert (await asking).global_seq == 151
    assert sum(folded) == 31
