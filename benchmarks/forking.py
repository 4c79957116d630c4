"""Forks: the time and the rows of one of a world of a million effects, and of ten thousand of them, which are idle."""

from __future__ import annotations

import asyncio
import statistics
import time

import asyncpg
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from benchmarks.harness import Goal, Report, say
from benchmarks.million import command
from benchmarks.states import moved
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

COUNT = 1_000_000
SINGLE = 50
MANY = 10_000
#: Forks that are made at the same time.
AT_ONCE = 8

#: Bytes of the rows of one world: without snapshots, and its snapshots.
_ROWS = """
select (select sum(pg_column_size(w)) from worlds w where world_id = $1)
     + (select sum(pg_column_size(h)) from heads h where world_id = $1)
     + (select sum(pg_column_size(e)) from effects e where world_id = $1)
     + (select coalesce(sum(pg_column_size(r)), 0) from requests r where world_id = $1) as rows,
       (select coalesce(sum(pg_column_size(s)), 0) from snapshots s where world_id = $1) as snapshot
"""
_SIZE = "select pg_database_size(current_database())"


async def run(report: Report, url: str, store: Store) -> None:
    """Measure single forks, then many, and what the many cost while nothing happens in them."""
    say("forking")
    await store.import_world(NewWorld(world_id="million"), (moved(index) for index in range(COUNT)))  # type: ignore[misc]
    await store.states.snapshot("million")
    head = (await store.world("million")).head_seq
    connection = await asyncpg.connect(url)
    try:
        times: list[float] = []
        for number in range(SINGLE):
            start = time.perf_counter()
            await store.fork("million", Moment(seq=head - number), NewFork(world_id=f"single-{number}"))
            times.append(time.perf_counter() - start)
        say(f"  median {statistics.median(times) * 1000:.1f} ms, most {max(times) * 1000:.1f} ms")
        what = "fork of a world of 1M effects, near a snapshot: median"
        report.note(Goal(what, statistics.median(times) * 1000, 100, at_least=False, unit="ms"))
        found = await connection.fetchrow(_ROWS, "single-0")
        assert found is not None
        report.note(Goal("fork: its rows", found["rows"] / 1000, 20, at_least=False, unit="KB"))
        report.found.append(("fork: its snapshot", found["snapshot"] / 1000, "KB"))

        before = await connection.fetchval(_SIZE)
        start = time.perf_counter()
        numbers = iter(range(MANY))

        async def make() -> None:
            for number in numbers:
                await store.fork("million", Moment(seq=head), NewFork(world_id=f"many-{number}"))

        await asyncio.gather(*(make() for _ in range(AT_ONCE)))
        each = (time.perf_counter() - start) / MANY
        grown = await connection.fetchval(_SIZE) - before
        say(f"  {MANY:,} forks: {each * 1000:.1f} ms and {grown / MANY / 1000:.1f} KB each")
        report.found.append((f"{MANY:,} forks of a world of 1M effects: each", each * 1000, "ms"))
        report.found.append(
            (f"{MANY:,} forks of a world of 1M effects: each, with its snapshot", grown / MANY / 1000, "KB")
        )
        await _idle(report, url, connection)
    finally:
        await connection.close()


async def _idle(report: Report, url: str, connection: asyncpg.Connection[asyncpg.Record]) -> None:
    """Feed the projections, then feed them again while nothing has happened."""
    feed = ["project", "--once", "--database-url", url]
    start = time.perf_counter()
    await asyncio.to_thread(command, feed)
    say(f"  first feeding: {time.perf_counter() - start:.1f} s")
    seconds: list[float] = []
    await connection.execute("vacuum (analyze)")
    before = await connection.fetchval(
        "select sum(pg_relation_size(oid)) from pg_class where relkind in ('r', 'i', 't')"
    )
    for _ in range(3):
        start = time.perf_counter()
        await asyncio.to_thread(command, feed)
        seconds.append(time.perf_counter() - start)
    after = await connection.fetchval(
        "select sum(pg_relation_size(oid)) from pg_class where relkind in ('r', 'i', 't')"
    )
    say(f"  feeding of idle forks: {statistics.median(seconds):.1f} s, {after - before:,} bytes more")
    report.found.append(
        (f"feeding {MANY:,} idle forks, with the start of the command", statistics.median(seconds), "s")
    )
    report.note(
        Goal(
            "idle forks: growth of the database by three feedings",
            float(after - before),
            0,
            at_least=False,
            unit="bytes",
        )
    )
