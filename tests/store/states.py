"""Tools of the tests about states: movements, worlds with snapshots, waiting for what is taken in the background."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from worldledger_service.store import EventLog, Store

from worldledger.effects import EffectDraft
from worldledger.folding import Fold
from worldledger.genesis import NewWorld
from worldledger.rulesets import load_ruleset

if TYPE_CHECKING:
    from worldledger_service.store.snapshots import SnapshotRecord


def moved(n: int, **fields: Any) -> EffectDraft:
    """Make a Move of one of ten entities."""
    made: dict[str, Any] = {
        "kind": "Move",
        "payload": {"to": [float(n), 0.5, 2.0]},
        "source_id": f"a{n % 10}",
        "schema_version": "1.0.0",
        **fields,
    }
    return made  # type: ignore[return-value]


async def world_of_moves(store: Store, world_id: str, count: int, *, every: int | None = None) -> EventLog:
    """Create a world whose movements were brought by an import that was given up before it took snapshots.

    sim_time is the number.
    """
    world = NewWorld(world_id=world_id, time_authority="client", snapshot_every=every)
    with store.reader.bulk.one():  # for which the snapshots wait
        await store.import_world(world, [moved(n, sim_time=float(n)) for n in range(1, count + 1)])
        tasks = list(store._snapshotter._imported.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return await store.log(world_id)


async def replayed(store: Store, world_id: str, seq: int) -> Fold:
    """Fold a world from its genesis, by the rules alone."""
    world = await store.world(world_id)
    fold = Fold(world_id, load_ruleset(world.ruleset))
    async for batch in store.reader.batches(world_id, until_seq=seq):
        fold.feed(batch)
    return fold


async def snapshots(store: Store, world_id: str) -> list[SnapshotRecord]:
    """Return all snapshots of a world."""
    return await store.states.page(world_id, limit=10_000)


async def until_snapshot(store: Store, world_id: str, seq: int, *, digest: bool = True) -> list[SnapshotRecord]:
    """Wait until there is a snapshot at a seq, with its digest in the log; return all. The limit only ends a hang."""
    deadline = asyncio.get_running_loop().time() + 120
    while True:
        found = await snapshots(store, world_id)
        if any(each.global_seq == seq and (each.digest_seq or not digest) for each in found):
            return found
        assert asyncio.get_running_loop().time() < deadline, [each.global_seq for each in found]
        await asyncio.sleep(0.01)
