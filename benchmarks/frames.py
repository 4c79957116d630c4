"""Frames, density and search of a world of a million effects.

Blocks are measured in processor time, beside the same effects folded without frames: as a state is (read, checked,
folded), and as an agent's views are kept.
"""

from __future__ import annotations

import asyncio
import gzip
import statistics
import time
from collections.abc import Awaitable, Callable
from functools import partial

from worldledger_service.runtime.frames import block, coarse, kept_places, view_block
from worldledger_service.runtime.replays import Replay
from worldledger_service.store import Store
from worldledger_service.store.density import density, marks_of
from worldledger_service.store.searching import Wanted, search
from worldledger_service.store.snapshots import advance, take

from benchmarks.harness import ROUNDS, Goal, Report, say
from benchmarks.million import command
from benchmarks.states import moved
from worldledger.frames import BLOCK
from worldledger.genesis import NewWorld
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.policies import policy_spec

COUNT = 1_000_000
WORLD = "frames"
AGENT = "watcher"
#: Blocks that are measured, spread over the world.
BLOCKS = 20


async def run(report: Report, url: str, store: Store) -> None:
    """Import the world, and measure."""
    say("frames")
    await store.create_world(NewWorld(world_id=WORLD))
    policy = policy_spec(ObservationPolicy(PolicyConfig(distance_limit=40_000.0)))
    payload = {"agent_id": AGENT, "policy": policy, "permissions": [], "weight": 1}
    registration = {
        "kind": "AgentRegistered",
        "payload": payload,
        "source_id": "worldledger",
        "schema_version": "1.0.0",
    }
    await (await store.log(WORLD)).append_judged([registration], {}, system=True)  # type: ignore[list-item]
    await store.bulk_append(WORLD, (_draft(index) for index in range(COUNT - 2)))  # type: ignore[misc]
    await store.states.state_at(WORLD, COUNT)
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    firsts = [COUNT // BLOCK // (BLOCKS + 1) * (n + 1) * BLOCK + 1 for n in range(BLOCKS)]

    async def fold(first: int) -> None:
        base = await store.states.base_at(WORLD, first)
        take(base.fold, base.checksum)
        await advance(store.reader, base, first + BLOCK - 1)

    async def follow(first: int) -> None:
        replay = await Replay.begin(store, WORLD, AGENT, first)
        replay.view()
        await replay.go(first + BLOCK - 1)

    async def frames(first: int) -> None:
        await block(store, WORLD, first, first + BLOCK - 1)

    async def views(first: int) -> None:
        await view_block(store, WORLD, AGENT, first, first + BLOCK - 1)

    for what, work, peer in (
        ("a block over the fold of its effects", frames, fold),
        ("an agent's block over its incremental views", views, follow),
    ):
        ratios = []
        for first in firsts:
            await work(first)
            ratios.append(await _processor(partial(work, first)) / await _processor(partial(peer, first)))
        report.note(Goal(f"{what}, processor time", statistics.median(ratios), 1.5, at_least=False))
    await _coarse(report, store)
    await _density(report, store)
    await _search(report, store)


def _draft(index: int) -> dict[str, object]:
    """Return movements, with a word now and then."""
    if index % 10 == 0:
        said = {"text": f"word number {index}, {'needle' if index % 100_000 == 0 else 'hay'}"}
        return {"kind": "Speak", "payload": said, "source_id": f"agent-{index % 100}", "schema_version": "1.0.0"}
    return moved(index)


async def _processor(work: Callable[[], Awaitable[None]]) -> float:
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        await work()
        times.append(time.process_time() - start)
    return statistics.median(times)


async def _coarse(report: Report, store: Store) -> None:
    moments = range(1, COUNT + 1, COUNT // 500)
    start = time.perf_counter()
    found = await coarse(store, WORLD, await kept_places(store, WORLD, 1, COUNT), moments)
    seconds = time.perf_counter() - start
    report.tell("coarse frames of 1M effects", seconds, "s")
    report.tell("effects between two of them", found.every, "")
    size = len(gzip.compress(found.columns, 6)) / 2**20
    report.note(Goal("coarse frames of 1M effects, 500 asked for: MiB in gzip", size, 1, at_least=False, unit="MiB"))


async def _density(report: Report, store: Store) -> None:
    record = await store.world(WORLD)
    for by in ("seq", "sim_time"):
        times = []
        for _ in range(ROUNDS + 1):
            start = time.perf_counter()
            await density(store.reader, record, await marks_of(store.reader, record), 200, by)
            times.append(time.perf_counter() - start)
        what = f"density of 1M effects by {by}, warm"
        report.note(Goal(what, statistics.median(times[1:]) * 1000, 50, at_least=False, unit="ms"))


async def _search(report: Report, store: Store) -> None:
    first, whole = [], []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        seen = 0
        async for reached in search(store.reader, WORLD, Wanted("needle", 0, COUNT, 1000)):
            if reached.hits and not seen:
                first.append(time.perf_counter() - start)
            seen += len(reached.hits)
        whole.append(time.perf_counter() - start)
        assert seen == COUNT // 100_000
    report.note(Goal("search through 1M effects", statistics.median(whole), 3, at_least=False, unit="s"))
    report.tell("first hit of a search, 100,000 effects away", statistics.median(first), "s")
