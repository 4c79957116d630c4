"""Checking a live build against the log: what was changed by hand is found, and named."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_service.store import Store

from .helpers import append, assert_verified, builds, said, story
from .tiny import Counts, Said, trio


@pytest.fixture
async def names(store: Store, worlds: Any, make_engine: Any) -> list[str]:
    """Return worlds that are fed."""
    made: list[str] = await worlds(6)
    for n, name in enumerate(made):
        await append(store, name, story(0, 10 + 5 * n))
    await make_engine(trio()).run_until_caught_up(timeout=100)
    return made


#: Projection, change of its live table, and where and what the first row is that differs then: column, what stands
#: there and what should.
CHANGES: list[tuple[str, str, str, dict[str, str], tuple[str, str, str] | None, str]] = [
    (
        "counts",
        "update {table} set count = 1000 where kind = 'Said' and world_id > 'w002'",
        "w003",
        {"kind": "Said"},
        ("count", "1000", "15"),
        "column count differs",
    ),
    (
        "counts",
        "update {table} set kind = 'Sand' where kind = 'Said' and world_id = 'w002'",
        "w002",
        {"kind": "Said"},
        None,
        "the row is missing",
    ),
    (
        "said",
        "delete from {table} where world_id = 'w004' and global_seq in (11, 4)",
        "w004",
        {"global_seq": "4"},
        None,
        "the row is missing",
    ),
    (
        "said",
        "insert into {table} values ('w001', 2, 'never')",
        "w001",
        {"global_seq": "2"},
        None,
        "the row is extra: the log does not give it",
    ),
    (
        "said",
        "insert into {table} values ('nowhere', 2, 'never')",
        "nowhere",
        {"global_seq": "2"},
        None,
        "the row is extra: the build holds nothing of this world",
    ),
    (
        "things",
        "update {table} set data = '{{\"n\": 4}}' where world_id = 'w005' and thing = 'e4'",
        "w005",
        {"thing": "e4"},
        ("data", '{"n": 4}', '{"n":4}'),
        "column data differs",
    ),
]


@pytest.mark.usefixtures("names")
async def test_a_row_changed_by_hand(make_engine: Any, pool: Any, admin: Any, subtests: pytest.Subtests) -> None:
    """The first row that differs is named, with its column and both values; the report is kept; rebuilding mends it."""
    engine = make_engine(trio())
    await assert_verified(engine, "counts", "said", "things")
    for which, change, world, key, differs, what in CHANGES:
        with subtests.test(change=change):
            (live,) = [build for build, _, status in await builds(pool, which) if status == "live"]
            await admin.execute(change.format(table=f"projections.{live}"))
            report = await engine.verify(which)
            column, found, expected = differs or (None, None, None)
            assert report["finding"] == {
                "world_id": world,
                "key": {"world_id": world, **key},
                "column": column,
                "live": found,
                "expected": expected,
                "what": what,
            }
            assert not report["verified"]
            status = {each.name: each.live for each in await engine.status()}[which]
            assert status is not None
            assert status.check_report == report
            await engine.rebuild(which)
            await engine.run_until_caught_up(timeout=100)
            await assert_verified(engine, which)
    for text in ("[]", "7", '"\\ud800"'):  # what somebody has put in a report's place
        await admin.execute("update projection_builds set check_report = $1::text::json", text)
        assert {each.live.check_report for each in await engine.status() if each.live is not None} == {None}
    await assert_verified(engine, "counts", "said", "things")


@pytest.mark.both_servers
async def test_a_view_in_the_place_of_ours(names: list[str], pool: Any, make_engine: Any) -> None:
    """Where all rows are right, but the view that people query is another, that is the finding; a rebuild mends it."""
    engine = make_engine(trio())
    await pool.execute("create or replace view projections.said as select * from projections.said_1 where text <> '1'")
    report = await engine.verify("said")
    assert not report["verified"]
    assert report["finding"]["world_id"] is None
    what = 'projections."said" is not the view that this program makes'
    assert report["finding"]["what"] == f"{what}; `worldledger projections rebuild said` makes it anew"
    await assert_verified(engine, "counts", "things")
    await engine.rebuild("said")
    await engine.run_until_caught_up(timeout=100)
    await assert_verified(engine, "said")


@pytest.mark.usefixtures("names")
async def test_rows_that_stand_twice(make_engine: Any, admin: Any) -> None:
    """Where the primary key was dropped, a second row of a key is named; so is the lost key alone. A rebuild mends."""
    engine = make_engine(trio())
    for build, count in (("said_1", 3), ("said_2", 1)):
        await admin.execute(f"alter table projections.{build} drop constraint {build}_pkey")
        for _ in range(count - 1):
            await admin.execute(
                f"insert into projections.{build} select distinct * from projections.{build}"
                " where world_id = 'w004' and global_seq in (7, 10)"
            )
        report = await engine.verify("said")
        mended = "`worldledger projections rebuild said` makes it anew"
        if count > 1:
            key = {"world_id": "w004", "global_seq": "7"}
            what = f"there are {count} rows with this key, for the table has lost its primary key; {mended}"
        else:
            key = None
            lost = "PRIMARY KEY (world_id, global_seq) is missing"
            what = f'projections."{build}" the table is not as this program makes it: {lost}; {mended}'
        assert (report["finding"]["key"], report["finding"]["what"]) == (key, what)
        await engine.rebuild("said")
        await engine.run_until_caught_up(timeout=100)
        await assert_verified(engine, "said")


async def test_a_function_that_a_view_may_call(names: list[str], pool: Any, make_engine: Any) -> None:
    """What stands beside the views under the name of a function of PostgreSQL's own is the finding."""
    engine = make_engine(trio())
    await pool.execute("create function projections.length(text) returns int language sql as 'select 0'")
    report = await engine.verify("said")
    assert not report["verified"]
    what = "function projections.length(text) is unexpected: views may call it; drop it"
    assert report["finding"]["what"].replace("function length", "function projections.length") == what
    await pool.execute("drop function projections.length(text)")
    await assert_verified(engine, "said")


async def test_the_report(names: list[str], pool: Any, make_engine: Any) -> None:
    """It counts the worlds and rows that were compared, and tells progress."""
    engine = make_engine(trio())
    told: list[tuple[int, int]] = []
    report = await engine.verify("said", lambda *done: told.append(done))
    effects = sum(11 + 5 * n for n in range(len(names)))
    assert told[-1] == (effects, effects)
    assert len(report.pop("checked_at")) == len("2026-01-01T00:00:00Z")
    rows = await pool.fetchval("select count(*) from projections.said")
    assert report == {
        "projection": "said",
        "build": "said_1",
        "version": 1,
        "worlds": 6,
        "rows": rows,
        "verified": True,
        "finding": None,
    }


async def test_a_large_world(
    store: Store, make_engine: Any, worlds: Any, admin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A world of many batches is compared as a whole."""
    monkeypatch.setattr("worldledger_service.projecting.checking._BATCH", 1000)
    (name,) = await worlds(1)
    await store.bulk_append(name, [said(n) for n in range(2_400)])
    engine = make_engine([Said(), Counts()])
    await engine.run_until_caught_up(timeout=60)
    await assert_verified(engine, "said", "counts")
    await admin.execute("update projections.said_1 set text = '?' where global_seq in (2350, 2300)")
    report = await engine.verify("said")
    assert report["finding"]["key"] == {"world_id": name, "global_seq": "2300"}
    assert (report["finding"]["live"], report["finding"]["expected"]) == ("?", "2298")


async def test_a_check_during_appends(
    store: Store, names: list[str], make_engine: Any, running: Any, thorough: bool
) -> None:
    """A live build that is being fed is compared as of one moment of each world, and nothing is held up by it."""
    engine = make_engine(trio(), batch=20)
    stop = asyncio.Event()

    async def write() -> None:
        n = 1
        while not stop.is_set():
            n += 1
            await append(store, names[n % 6], story(n * 1000, 7))

    async with running(engine):
        writing = asyncio.get_running_loop().create_task(write())
        for _ in range(5 if thorough else 1):
            await assert_verified(engine, "counts", "said", "things")
        stop.set()
        await writing
    await engine.run_until_caught_up(timeout=100)
    await assert_verified(engine, "counts", "said", "things")


async def test_news_that_got_lost(store: Store, names: list[str], make_engine: Any, admin: Any) -> None:
    """A world that is behind though nobody knows of it, as after a restore of some of the tables, is named."""
    await append(store, names[2], [said(1)])
    await admin.execute("update heads set moved = false")
    engine = make_engine(trio())
    report = await engine.verify("said")
    assert report["finding"]["world_id"] == names[2]
    assert "nothing is noted as due" in report["finding"]["what"]
    assert await engine.rebuild_world("said", names[2]) == 22
    await assert_verified(engine, "said")


async def test_a_projection_that_fails_now(store: Store, names: list[str], make_engine: Any) -> None:
    """Where the program cannot digest what the live build holds, the check says at which effect."""
    await append(store, names[1], [said(1), said(2, poison="bad")])
    await make_engine(trio()).run_until_caught_up(timeout=100)
    report = await make_engine([Said(poisons=["bad"])]).verify("said")
    assert report["finding"]["world_id"] == names[1]
    assert "seq 18: PoisonError" in report["finding"]["what"]
