"""Builds: made once, filled, resumed, cancelled, healed; and one world made anew."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from worldledger_projections.base import ProjectionNotFoundError, ProjectionRefusedError
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, assert_equal_to_log, assert_verified, builds, expected_counts, rows_of, story
from .tiny import Counts, DoubleCounts, Said, Things, trio


@pytest.mark.both_servers
async def test_a_projection_is_there_at_once(pool: Any, make_engine: Any, admin: Any) -> None:
    """Before anything is fed the views are there, empty, with comments, and that of analytics is open to the reader."""
    engine = make_engine(trio())
    await engine.ensure()
    await engine.ensure()
    assert await rows_of(pool, "counts") == await rows_of(pool, "count_totals") == []
    assert await builds(pool) == [("counts_1", 1, "live")]
    comments = await admin.fetch("""
        select c.relname, d.objsubid, d.description from pg_description d join pg_class c on c.oid = d.objoid
        where c.relnamespace = 'projections'::regnamespace and c.relname ~ '^count'
    """)
    found = {(row[0], row[1]): row[2] for row in comments}
    assert found["counts", 0] == found["counts_1", 0] == "Effects by kind, it's a test."
    assert found["counts", 3] == found["counts_1", 3] == "How many there are."
    assert found["count_totals", 0] == "Over all worlds."
    for view, may in (("analytics.counts", True), ("projections.counts", False), ("projections.counts_1", False)):
        for role in ("worldledger_reader", "worldledger_guest"):
            assert await admin.fetchval("select has_table_privilege($1, $2, 'select')", role, view) is may


@pytest.mark.both_servers
async def test_processes_that_start_together(pool: Any, make_engine: Any) -> None:
    """Each build is made once."""
    await asyncio.gather(*(make_engine(trio()).ensure() for _ in range(4)))
    for name in ("counts", "said", "things"):
        assert await builds(pool, name) == [(f"{name}_1", 1, "live")]
    await asyncio.gather(*(make_engine([DoubleCounts()]).ensure() for _ in range(4)))
    assert await builds(pool) == [("counts_1", 1, "live"), ("counts_2", 2, "building")]


async def test_dropping(pool: Any, make_engine: Any, worlds: Any, admin: Any) -> None:
    """What another program fed is dropped with every build, table and view, and begins anew where it is fed again."""
    await worlds(2)
    await make_engine(trio()).run_until_caught_up(timeout=100)
    await make_engine([DoubleCounts(), Said(), Things()]).run_until_caught_up(timeout=100)
    names = [name for name, _, _ in await builds(pool)]
    assert names == ["counts_1", "counts_2"]
    engine = make_engine([Said()])
    with pytest.raises(ProjectionRefusedError, match="this program has the projection said"):
        await engine.drop("said")
    with pytest.raises(ProjectionNotFoundError, match="the database has no projection 'count'; did you mean 'counts'"):
        await engine.drop("count")
    await admin.execute("create view public.mine as select * from analytics.counts")
    with pytest.raises(ProjectionRefusedError, match=r"counts cannot be dropped: view mine depends"):
        await engine.drop("counts")
    assert await pool.fetchval("select count(*) from projections.counts") > 0
    await admin.execute("drop view public.mine")

    assert await engine.drop("counts") == len(names)
    left = "select relname from pg_class where relname ~ '^count' and relnamespace in ({})"
    schemas = "'projections'::regnamespace, 'analytics'::regnamespace"
    assert await admin.fetch(left.format(schemas)) == []
    for table in ("builds", "cursors", "pending", "parked"):
        column = "build" if table != "builds" else "projection"
        assert not await pool.fetchval(f"select count(*) from projection_{table} where {column} ~ '^counts'")
    assert await engine.drop("said", force=True) == 1
    await make_engine(trio()).run_until_caught_up(timeout=100)
    assert await builds(pool) == [("counts_3", 1, "live")]
    assert await pool.fetchval("select count(*) from projections.counts") > 0


async def test_cancelling(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A build under way can be dropped while it is filled; numbers are not given twice, and the live one stays."""
    names = await worlds(5)
    for name in names:
        await append(store, name, story(0, 30))
    engine = make_engine([Counts()], batch=10)
    await engine.run_until_caught_up(timeout=100)
    assert not await engine.cancel("counts")
    assert await engine.rebuild("counts") == "counts_2"
    assert await engine.rebuild("counts") == "counts_2"
    for _ in range(3):
        await engine.step()
    assert await pool.fetchval("select count(*) from projections.counts_2") > 0
    assert await engine.cancel("counts")
    await engine.run_until_caught_up(timeout=100)
    assert await builds(pool) == [("counts_1", 1, "live")]
    assert await engine.rebuild("counts") == "counts_3"
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == await expected_counts(store, names)
    newer = make_engine([DoubleCounts()])
    await newer.ensure()
    with pytest.raises(ProjectionRefusedError, match="needs the build under way"):
        await newer.cancel("counts")


async def test_what_meets_a_batch_in_a_deadlock_is_tried_again(pool: Any, make_engine: Any, admin: Any) -> None:
    """A batch writes its rows before it looks at the builds; a cancel that this ends in a deadlock gets through."""
    engine = make_engine([Counts()])
    await engine.ensure()
    assert await engine.rebuild("counts") == "counts_2"
    batch = admin.transaction()
    await batch.start()
    await admin.execute("set local deadlock_timeout = '1min'")  # so that it is the cancel that is ended
    await admin.execute("lock table projections.counts_2 in row exclusive mode")
    cancelling = asyncio.create_task(engine.cancel("counts"))
    waiting = "select from pg_locks where not granted and relation = 'projections.counts_2'::regclass"
    async with asyncio.timeout(60):
        while not await admin.fetch(waiting):
            await asyncio.sleep(0.01)
    await admin.fetch("select from projection_builds")
    await batch.rollback()
    assert await cancelling
    assert await builds(pool) == [("counts_1", 1, "live")]


async def test_a_build_is_resumed(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A rebuild that was left in the middle goes on where it stood, in another process."""
    names = await worlds(6)
    for name in names:
        await append(store, name, story(0, 60))
    first = make_engine([Counts()], batch=20)
    await first.run_until_caught_up(timeout=100)
    await first.rebuild("counts")
    for _ in range(6):
        await first.step()
    await first._runner._filling.abandon()
    (status,) = await first.status()
    assert status.building is not None
    done = status.building.effects_done
    assert 0 < done < (status.building.effects_total or 0) == 6 * 61
    second = make_engine([Counts()])
    await second.run_until_caught_up(timeout=100)
    assert second.counters.effects == 6 * 61 - done
    assert await rows_of(pool, "counts") == await expected_counts(store, names)
    await assert_verified(second, "counts")


async def test_a_newer_program_replaces_an_unfinished_build(pool: Any, make_engine: Any, worlds: Any) -> None:
    """A build of a version that was never finished gives way to that of a later program."""
    await worlds(2)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    await make_engine([DoubleCounts()]).ensure()

    class Third(DoubleCounts):
        version = 3

    engine = make_engine([Third()])
    await engine.ensure()
    assert await builds(pool) == [("counts_1", 1, "live"), ("counts_3", 3, "building")]
    await engine.run_until_caught_up(timeout=100)
    assert (await builds(pool))[-1] == ("counts_3", 3, "live")


async def test_what_was_dropped_comes_back(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, admin: Any
) -> None:
    """A view, or a table, that somebody dropped is made anew, and filled from the log, while the runner goes on."""
    names = await worlds(3)
    for name in names:
        await append(store, name, story(0, 20))
    engine = make_engine(trio())

    async def holds() -> bool:
        try:
            return await rows_of(pool, "counts") == expected
        except asyncpg.UndefinedTableError:
            return False

    async with running(engine):
        expected = await expected_counts(store, names)
        await wait_for(holds, "it is fed")
        await admin.execute("drop view projections.counts cascade")
        await wait_for(holds, "the view is back")
        assert await rows_of(pool, "count_totals") != []
        await admin.execute("drop table projections.counts_1 cascade")
        await append(store, names[0], story(1000, 9))
        expected = await expected_counts(store, names)
        await wait_for(holds, "the table is back")
        await engine.wait_for("things", names[0], 30, timeout=100)
        await engine.wait_for("said", names[0], 30, timeout=100)
        await assert_equal_to_log(pool, store, names)
        assert await engine.drop_retired() == 0
    assert await builds(pool) == [("counts_2", 1, "live")]


@pytest.mark.both_servers
async def test_rebuilding_one_world(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, admin: Any
) -> None:
    """One world's rows are made anew in the live build, by another process, while a runner feeds it and the others."""
    names = await worlds(3)
    for name in names:
        await append(store, name, story(0, 40))
    engine, other = make_engine(trio()), make_engine(trio())
    async with running(engine):
        for which in ("counts", "things"):
            await engine.wait_for(which, names[1], 41, timeout=100)
        await admin.execute("update projections.counts_1 set count = 77 where world_id = $1", names[1])
        await admin.execute("delete from projections.things_1 where world_id = $1", names[1])
        told: list[tuple[int, int]] = []
        assert await other.rebuild_world("counts", names[1], lambda *done: told.append(done)) == 41
        assert told[-1] == (41, 41)
        assert await other.rebuild_world("things", names[1]) == 41
        for n, name in enumerate(names):
            await append(store, name, story(1000, 5 + n))
            await other.rebuild_world("counts", name)
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")


async def test_a_fold_in_memory_does_not_outlive_a_rebuilt_world(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, admin: Any
) -> None:
    """A runner that read rows which somebody had changed by hand forgets them when the world is made anew."""
    (name,) = await worlds(1)
    await append(store, name, story(0, 4))
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    await admin.execute("update projections.counts_1 set count = 50")
    engine = make_engine([Counts()])
    async with running(engine):
        head = await append(store, name, story(8, 4))
        await engine.wait_for("counts", name, head, timeout=100)
        assert (name, "Said", 50 + 2, head - 1) in await rows_of(pool, "counts")
        await make_engine([Counts()]).rebuild_world("counts", name)
        head = await append(store, name, story(16, 4))
        await engine.wait_for("counts", name, head, timeout=100)
        assert await rows_of(pool, "counts") == await expected_counts(store, [name])


async def test_what_is_refused(make_engine: Any, worlds: Any) -> None:
    """Names that there are not, and what cannot be done as things are, are refused with the reason."""
    (name,) = await worlds(1)
    engine = make_engine([Counts(), Things(), Said()])
    await engine.run_until_caught_up(timeout=100)
    with pytest.raises(ProjectionNotFoundError, match="projection 'nothing'; there are counts, said, things"):
        await engine.rebuild("nothing")
    await engine.pause("counts")
    with pytest.raises(ProjectionRefusedError, match="paused"):
        await engine.rebuild("counts")
    with pytest.raises(ProjectionRefusedError, match="paused"):
        await engine.rebuild_world("counts", name)
    await engine.resume("counts")
    newer = make_engine([DoubleCounts()])
    with pytest.raises(ProjectionRefusedError, match="another version"):
        await newer.rebuild_world("counts", name)
