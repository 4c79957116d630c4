"""Runners killed at random moments: the rows are those of a clean rebuild, none missing and none counted twice."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from multiprocessing.process import BaseProcess
from typing import Any

import pytest
from worldledger_service.store import Store

from tests.waiting import wait_for

from . import worker
from .helpers import append, assert_equal_to_log, assert_verified, rows_of, story
from .tiny import trio

pytestmark = pytest.mark.slow

#: Processes begin as forks of one that has imported everything, which saves each of them most of a second.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["__main__", worker.__name__])


class Workers:
    """Two runners in processes of their own, so that one is always there to take over; killing one starts another."""

    def __init__(self, url: str, batch: int) -> None:
        self._how = (url, batch)
        self._processes: list[BaseProcess] = []

    async def start(self) -> None:
        """Start one more, and wait until it has begun."""
        told, tells = FORKS.Pipe(duplex=False)
        with told:
            with tells:
                process = FORKS.Process(target=worker.main, args=(*self._how, tells))
                await asyncio.to_thread(process.start)
            self._processes.append(process)
            assert await asyncio.to_thread(told.recv) == "ready"

    async def kill(self) -> None:
        """Kill the older one, which is at work, with SIGKILL; start another."""
        await self.start()
        await self._end(self._processes.pop(0))

    async def end(self) -> None:
        """Leave none behind."""
        for process in self._processes:
            await self._end(process)

    @staticmethod
    async def _end(process: BaseProcess) -> None:
        process.kill()
        await asyncio.to_thread(process.join)
        process.close()


@asynccontextmanager
async def workers(url: str, batch: int) -> AsyncIterator[Workers]:
    """Return runners that end with the test."""
    made = Workers(url, batch)
    try:
        await made.start()
        yield made
    finally:
        await made.end()


@pytest.fixture
def kills(thorough: bool) -> int:
    """Return how many runners are killed."""
    return 25 if thorough else 3


async def test_kills_of_live_runners(
    store: Store, pool: Any, make_engine: Any, worlds: Any, database_url: str, kills: int
) -> None:
    """Kills under appends to many worlds."""
    names = await worlds(12)
    pick = random.Random(3)
    stop = asyncio.Event()

    async def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            await append(store, pick.choice(names), story(n * 104, pick.choice([1, 2, 30])))
            await asyncio.sleep(0.002)

    writing = asyncio.get_running_loop().create_task(write())
    async with workers(database_url, 40) as running:
        for _ in range(kills):
            await asyncio.sleep(pick.random() * 0.3)
            before = await pool.fetchval("select coalesce(sum(effects_done), 0) from projection_builds")
            await running.kill()
            await wait_for(lambda: _more(pool, before), "another goes on")  # noqa: B023
        stop.set()
        await writing
    engine = make_engine(trio())
    await engine.run_until_caught_up(timeout=60)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")


async def test_kills_during_rebuilds(
    store: Store, pool: Any, make_engine: Any, worlds: Any, database_url: str, kills: int, thorough: bool
) -> None:
    """Kills while builds are filled and take over, one world much larger than the others."""
    names = await worlds(20 if thorough else 8)
    for n, name in enumerate(names):
        await store.bulk_append(name, story(0, (400 if n else 8000) // (1 if thorough else 4)))
    engine = make_engine(trio())
    await engine.run_until_caught_up(timeout=60)
    clean = [await rows_of(pool, which) for which in ("counts", "said", "things")]
    pick = random.Random(4)
    async with workers(database_url, 60) as running:
        for kill in range(kills):
            if kill % 2 == 0:
                for which in ("counts", "said", "things"):
                    await engine.rebuild(which)
            await asyncio.sleep(pick.random() * 0.6)
            before = await pool.fetchval("select coalesce(sum(effects_done), 0) from projection_builds")
            await running.kill()
            if await pool.fetchval("select count(*) from projection_builds where status = 'building'"):
                await wait_for(lambda: _more(pool, before), "another goes on")  # noqa: B023
            # The live views serve what they served all the time.
            assert [await rows_of(pool, which) for which in ("counts", "said", "things")] == clean
    await engine.run_until_caught_up(timeout=60)
    assert [await rows_of(pool, which) for which in ("counts", "said", "things")] == clean
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")
    assert await pool.fetchval("select count(*) from projection_builds where status = 'live' and build !~ '_1$'") == 3


async def _more(pool: Any, before: int) -> bool:
    builds = "select coalesce(sum(effects_done), 0) <> $1 from projection_builds"
    return bool(await pool.fetchval(builds, before))
