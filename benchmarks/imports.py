"""Imports with and without snapshots to follow, and the first state of an imported world.

Pairs of imports, one of each way, in turn: the ratio of their rates is what an import pays for its snapshots. The
processor's seconds that the importing process, the database and the process of the snapshots have used until the
import's end say how much of that is work, where other programs share the machine.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NamedTuple
from unittest.mock import patch

import asyncpg
import psutil
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_service.store.import_snapshots import ImportSnapshots

from benchmarks.harness import Figure, Goal, Report, say
from benchmarks.states import LONG, moved
from worldledger.genesis import NewWorld

#: Effects of an import, and how many pairs of them are measured.
SIZES = {200_000: 7, LONG: 5}
WITH, WITHOUT = "with snapshots to follow", "without snapshots"
WAYS = {WITH: Settings(), WITHOUT: Settings(snapshot_every=10**8)}
#: Seconds after an import's end at which its world's first state is asked for.
AFTER = 5.0


class Used(NamedTuple):
    """Seconds of the processors that were used by somebody, up to some moment."""

    client: float
    server: float
    worker: float

    def since(self, before: Used) -> Used:
        """Return what was used since an earlier moment."""
        return Used(*(now - then for now, then in zip(self, before, strict=True)))


async def run(report: Report, url: str) -> None:
    """Measure the first state after an import into an empty database, then the imports."""
    async with Store.open(url, Settings()) as store:
        await _import(store, "million", LONG)
        await asyncio.sleep(AFTER)
        start = time.perf_counter()
        await store.states.state_at("million", LONG)
        took = time.perf_counter() - start
        report.note(Goal(f"first state {AFTER:g} s after an import of {LONG:,}", took, 1, at_least=False, unit="s"))
    connection = await asyncpg.connect(url)
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    server = backend.parent()
    assert server is not None
    for count, pairs in SIZES.items():
        say(f"imports of {count:,}, with snapshots and without")
        used: dict[str, list[Used]] = {way: [] for way in WAYS}
        figures = {way: Figure(f"import of {count:,} {way}") for way in WAYS}
        report.figures |= {figure.name: figure for figure in figures.values()}
        for turn in range(pairs):
            for way in list(WAYS)[:: 1 if turn % 2 else -1]:
                await connection.execute("checkpoint")  # what the one before has left to be done
                async with Store.open(url, WAYS[way]) as store:  # which waits for the snapshots when it is closed
                    with nullcontext() if way == WITH else _keeping_nothing():
                        before, start = _used(server), time.perf_counter()
                        await _import(store, f"imported-{time.time_ns()}", count)
                        figures[way].rates.append(count / (time.perf_counter() - start))
                        used[way].append(_used(server).since(before))
        ratios = [one / other for one, other in zip(figures[WITH].rates, figures[WITHOUT].rates, strict=True)]
        what = f"import of {count:,}, with snapshots to follow over without: median of {pairs} pairs"
        report.note(Goal(what, statistics.median(ratios), 0.95))
        for way in WAYS:
            report.tell(figures[way].name, figures[way].rate, "/s")
            for who in Used._fields:
                seconds = statistics.median(getattr(each, who) for each in used[way])
                report.tell(f"{figures[way].name}: processor's seconds of the {who}", seconds, "s")
    await connection.close()


def _keeping_nothing() -> AbstractContextManager[object]:
    """Have imports keep no effects for snapshots."""
    return patch.object(ImportSnapshots, "through", lambda _, rows: rows)


async def _import(store: Store, name: str, count: int) -> None:
    await store.import_world(NewWorld(world_id=name), (moved(index) for index in range(count)))  # type: ignore[misc]


def _used(server: psutil.Process) -> Used:
    here = psutil.Process()
    workers = [child for child in here.children() if child != server]
    return Used(_seconds([here]), _seconds([server, *server.children()]), _seconds(workers))


def _seconds(processes: list[psutil.Process]) -> float:
    return sum(_each(processes))


def _each(processes: list[psutil.Process]) -> Iterator[float]:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            yield times.user + times.system
