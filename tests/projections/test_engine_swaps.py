"""A build taking over: in one moment, while others read and write, and only when nobody is taken back by it."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs
from worldledger_projections.base import ProjectionRefusedError
from worldledger_service.projecting import statements
from worldledger_service.projecting.engine import Engine
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, assert_equal_to_log, assert_verified, builds, expected_counts, reading, rows_of, story
from .tiny import Counts, DoubleCounts, WideCounts, trio


async def _swapped(count: int, *engines: Engine) -> bool:
    return sum(engine.counters.swaps for engine in engines) >= count


async def _stepped(engine: Engine) -> bool:
    await engine.step()
    return engine.counters.swaps > 0


async def _reached(engine: Engine, world_id: str, seq: int) -> bool:
    await engine.step()
    return await engine.wait_for("counts", world_id, seq, timeout=0) >= seq


@pytest.mark.thorough  # of one projection, with two runners, the next one has it
async def test_rebuilds_take_over_while_readers_read(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, database_url: str, thorough: bool
) -> None:
    """Rebuilds under appends take over again and again; no read fails, and the old tables go."""
    names = await worlds(4)
    for name in names:
        await append(store, name, story(0, 40))
    engine = make_engine(trio(), batch=60)
    await engine.run_until_caught_up(timeout=100)
    rounds = 3 if thorough else 2
    async with running(engine), reading(database_url) as seen:
        for n in range(rounds):
            for which in ("counts", "said", "things"):
                await engine.rebuild(which)
            for k, name in enumerate(names):
                await append(store, name, story(1000 * (n + 1), 5 + k))
            await wait_for(lambda: _swapped(3 * n + 3, engine), "the rebuilds take over")  # noqa: B023
    assert len(seen) > 50
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)
    assert await engine.drop_retired() == 0
    assert await builds(pool) == [(f"counts_{rounds + 1}", 1, "live")]
    tables = await pool.fetch("select tablename from pg_tables where schemaname = 'projections' order by 1")
    assert [row[0] for row in tables] == [f"{name}_{rounds + 1}" for name in ("counts", "said", "things")]
    others = await pool.fetchval("select count(*) from projection_cursors where build !~ $1", f"_{rounds + 1}$")
    assert others == 0


async def test_a_reader_never_sees_a_step_back(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """A reader's answers never fall while rebuilds take over, whichever of two runners feeds what."""
    names = await worlds(6)
    engine, other = make_engine([Counts()]), make_engine([Counts()], batch=50)
    await engine.run_until_caught_up(timeout=100)
    stop = asyncio.Event()

    async def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            await append(store, names[n % 6], story(n * 104, 3))
            await asyncio.sleep(0.005)

    async def read() -> list[int]:
        seen = []
        while not stop.is_set():
            seen.append(await pool.fetchval("select coalesce(sum(count), 0)::bigint from projections.counts"))
        return seen

    async with running(engine):
        await asyncio.sleep(0.1)
        async with running(other):
            tasks = [asyncio.get_running_loop().create_task(work()) for work in (write, read)]
            for n in range(4):
                await engine.rebuild("counts")
                await wait_for(lambda: _swapped(n + 1, engine, other), "it takes over")  # noqa: B023
            stop.set()
            await asyncio.wait(tasks)
    seen: list[int] = tasks[1].result()  # type: ignore[assignment]
    assert seen == sorted(seen)
    assert len(set(seen)) > 3
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


async def test_a_log_that_was_cut_short_holds_no_rebuild_up(
    database_url: str, store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """Where somebody cut a log and moved its head back, a rebuild still takes over, and has what is left."""
    (name,) = await worlds(1)
    await append(store, name, story(0, 10))
    engine = make_engine([Counts()])
    await engine.run_until_caught_up(timeout=100)
    superuser = await asyncpg.connect(database_url)
    await superuser.execute("alter table effects disable trigger user")
    await superuser.execute("delete from effects where world_id = $1 and global_seq > 2", name)
    await superuser.execute(
        "update heads set (head_seq, head_checksum) = "
        "(select global_seq, checksum from effects where world_id = $1 and global_seq = 2) where world_id = $1",
        name,
    )
    await superuser.close()
    assert not (await engine.verify("counts"))["verified"]
    await engine.rebuild("counts")
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == await expected_counts(store, [name])
    await assert_verified(engine, "counts")


async def test_a_build_of_another_runner_takes_over(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """Where one runner feeds the live build and another fills the new one, the other takes both for the swap."""
    names = await worlds(4)
    first, second = make_engine([Counts()]), make_engine([Counts()])
    await first.run_until_caught_up(timeout=100)
    async with running(first):
        head = await append(store, names[0], story(0, 5))
        await first.wait_for("counts", names[0], head, timeout=100)
        leases = second._runner._leases
        await leases.seize(f"build:{await second.rebuild('counts')}")
        for n in range(1, 200):
            await append(store, names[n % 4], story(n * 1000, 2))
            await second.step()
            if second.counters.swaps:
                break
        assert (first.counters.swaps, second.counters.swaps) == (0, 1)
        await leases.release(list(leases.held))
        head = await append(store, names[0], story(8000, 5))
        assert await first.wait_for("counts", names[0], head, timeout=100) == head
        expected = await expected_counts(store, names)
        await first.wait_for("counts", names[1], 1000, timeout=0.2)
        assert await rows_of(pool, "counts") == expected
    await assert_verified(first, "counts")


async def test_a_build_is_swapped_in_only_where_nothing_is_left_to_read(
    store: Store, pool: Any, make_engine: Any, worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that has left a part of some world unread is followed by another one, and not by a swap in vain."""
    names = await worlds(3)
    for name in names:
        await append(store, name, story(0, 30))
    engine = make_engine([Counts()], batch=50)  # the first batch has no room for all of the second world
    await engine.run_until_caught_up(timeout=100)
    attempts = []
    swap = engine._builds.swap

    async def counted(new: Any, *args: Any, **more: Any) -> None:
        attempts.append(new.name)
        await swap(new, *args, **more)

    monkeypatch.setattr(engine._builds, "swap", counted)
    await engine.rebuild("counts")
    await engine.run_until_caught_up(timeout=100)
    assert attempts == ["counts_2"]
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


async def test_what_a_swap_compares_is_looked_up(pool: Any, make_engine: Any, worlds: Any, admin: Any) -> None:
    """Comparing two builds goes through each of them once, though the planner takes them for empty."""
    names = [f"w{n}" for n in range(1000)]
    await worlds(1)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    fill = "insert into projection_cursors (build, world_id, global_seq) select $1, unnest($2::text[]), 1"
    for table in ("worlds", "heads"):
        await admin.execute(
            f"insert into {table} select (jsonb_populate_record(t, jsonb_build_object('world_id', n))).* "
            f"from {table} t, unnest($1::text[]) as n",
            names,
        )
    await admin.execute("analyze")
    await admin.execute(fill, "counts_8", names)
    await admin.execute(fill, "counts_9", names)
    plan = await admin.fetch(f"explain (analyze, costs off) {statements.BEHIND}", "counts_9", "counts_8", None)
    removed = re.findall(r"Rows Removed by Join Filter: ([0-9]+)", "\n".join(row[0] for row in plan))
    assert all(int(rows) <= len(names) for rows in removed)


async def test_a_later_version_is_built_beside_the_old_one(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """A newer program fills its version beside the live one, which an older one goes on feeding until the swap."""
    names = await worlds(5)
    for name in names:
        await append(store, name, story(0, 50))
    old, new = make_engine([Counts()]), make_engine([DoubleCounts()], batch=10)
    await old.run_until_caught_up(timeout=100)
    async with running(old):
        await new.ensure()
        assert await builds(pool) == [("counts_1", 1, "live"), ("counts_2", 2, "building")]
        (status,) = await new.status()
        assert status.note == "version 1 is live until version 2 has caught up"
        assert status.building is not None
        head = await append(store, names[0], story(1000, 5))
        assert await old.wait_for("counts", names[0], head, timeout=100) == head
        assert await rows_of(pool, "counts") == await expected_counts(store, names)
        async with running(new):
            await wait_for(lambda: _swapped(1, new), "the new version takes over")
            head = await append(store, names[1], story(1000, 5))
            assert await new.wait_for("counts", names[1], head, timeout=100) == head
            assert await rows_of(pool, "counts") == await expected_counts(store, names, step=2)
        await old.ensure()
        (status,) = await old.status()
        assert status.note is not None
        assert "a newer program feeds it: version 2" in status.note
        with pytest.raises(ProjectionRefusedError, match="newer program"):
            await old.rebuild("counts")
        with pytest.raises(ProjectionRefusedError, match="version 2"):
            await old.verify("counts")
    assert (await builds(pool))[-1] == ("counts_2", 2, "live")


@pytest.mark.both_servers
async def test_a_version_with_other_columns(pool: Any, make_engine: Any, worlds: Any, database_url: str) -> None:
    """Where a view cannot be replaced it is dropped and made anew in the same moment; a view no longer made goes."""
    names = await worlds(3)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    async with reading(database_url):
        await make_engine([WideCounts()]).run_until_caught_up(timeout=100)
    rows = await pool.fetch("""
        select table_name, column_name from information_schema.columns
        where table_schema = 'projections' and table_name !~ '_[0-9]$' order by table_name, ordinal_position
    """)
    columns: dict[str, list[str]] = {}
    for view, column in rows:
        columns.setdefault(view, []).append(column)
    assert columns == {"count_sums": ["kind", "n"], "counts": ["world_id", "kind", "n", "last_seq", "note"]}
    assert await rows_of(pool, "count_sums") == [("WorldCreated", 2 * len(names) // 2)]


@pytest.mark.both_servers
async def test_somebody_else_s_view_holds_a_swap_back(pool: Any, make_engine: Any, worlds: Any, admin: Any) -> None:
    """A view that would have to be dropped, though others are made from it, is not; the status says what to do."""
    await worlds(2)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    await admin.execute("create view public.mine as select kind, count from projections.counts")
    engine = make_engine([WideCounts()])
    await engine.run_until_caught_up(timeout=100)
    (status,) = await engine.status()
    assert status.building is not None
    assert "view mine depends on" in str(status.building.held_back)
    assert await builds(pool) == [("counts_1", 1, "live"), ("counts_2", 3, "building")]
    await admin.execute("drop view public.mine")
    await wait_for(lambda: _stepped(engine), "it takes over")
    assert (await builds(pool))[-1] == ("counts_2", 3, "live")


async def test_views_upon_a_view_follow_a_swap(store: Store, make_engine: Any, worlds: Any, admin: Any) -> None:
    """A view that somebody made from ours reads the new build after a swap."""
    names = await worlds(2)
    engine = make_engine([Counts()])
    await engine.run_until_caught_up(timeout=100)
    await admin.execute("create view public.mine as select sum(count)::int as total from projections.counts")
    await engine.rebuild("counts")
    await engine.run_until_caught_up(timeout=100)
    await append(store, names[0], story(0, 4))
    await engine.run_until_caught_up(timeout=100)
    assert await admin.fetchval("select total from public.mine") == 6


async def test_a_long_read_is_not_waited_for(
    store: Store, pool: Any, make_engine: Any, worlds: Any, database_url: str, admin: Any
) -> None:
    """While somebody reads a view for long the swap waits and says for whom; others do not; then the old table goes."""
    names = await worlds(3)
    engine = make_engine([Counts()])
    await engine.run_until_caught_up(timeout=100)
    await engine.rebuild("counts")
    async with admin.transaction():
        assert await admin.fetchval("select count(*) from projections.counts") == 3
        async with reading(database_url) as seen:
            with capture_logs() as logs:
                for _ in range(12):
                    await engine.step()
                    await asyncio.sleep(0.02)
            assert len(seen) > 10
        (told,) = [entry["why"] for entry in logs if entry["log_level"] == "warning"]
        assert f"held by PID {admin.get_server_pid()}, user " in told
        assert "locks on projections.counts" in told
        assert await builds(pool) == [("counts_1", 1, "live"), ("counts_2", 1, "building")]
        head = await append(store, names[0], story(0, 3))
        await wait_for(lambda: _reached(engine, names[0], head), "the live build goes on being fed")
    await wait_for(lambda: _stepped(engine), "it takes over")
    async with admin.transaction():
        await admin.fetchval("select count(*) from projections.counts_1")
        assert await engine.drop_retired() == 1
    assert await engine.drop_retired() == 0
    assert await builds(pool) == [("counts_2", 1, "live")]
