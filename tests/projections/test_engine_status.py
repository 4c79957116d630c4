"""How projections stand, what looking for news costs, and which definitions cannot be projections."""

from __future__ import annotations

import json
from typing import Any

import pytest
from worldledger_projections.base import Column, View
from worldledger_projections.tables import Table, check_definitions
from worldledger_service.projecting import statements
from worldledger_service.projecting.runner import WORLDS_AT_ONCE, Discovery, reading
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, said, story
from .tiny import Counts, Said, Things, trio


async def test_status(store: Store, make_engine: Any, worlds: Any) -> None:
    """It tells how far behind each build is, noted or not, what is set aside, and how a rebuild gets on."""
    names = await worlds(4)
    engine = make_engine([Counts(), Said(poisons=["bad"]), Things()])
    before = await engine.status()
    assert [(found.name, found.version, found.live) for found in before] == [
        ("counts", 1, None),
        ("said", 1, None),
        ("things", 1, None),
    ]
    assert "no runner has been started" in str(before[0].note)
    await engine.run_until_caught_up(timeout=100)
    for name in names[:3]:
        await append(store, name, story(0, 10))
    await append(store, names[3], [said(1), said(2, poison="bad"), said(3)])
    # No runner has looked yet: the worlds that moved count all the same.
    for found in await engine.status():
        assert found.live is not None
        assert (found.live.worlds_behind, found.live.effects_behind) == (4, 33)
        assert (found.live.seconds_behind, found.live.parked, found.note) == (None, 0, None)
    await engine.pause("counts")
    await engine.run_until_caught_up(timeout=100)
    await append(store, names[3], [said(4)])
    counts, sayings, things = [found.live for found in await engine.status()]
    assert counts is not None
    assert sayings is not None
    assert things is not None
    assert (counts.worlds_behind, counts.effects_behind, counts.paused) == (4, 34, True)
    assert counts.seconds_behind is not None
    assert 0 <= counts.seconds_behind < 30
    assert (sayings.worlds_behind, sayings.effects_behind, sayings.parked) == (0, 0, 1)
    assert (things.worlds_behind, things.effects_behind, things.parked) == (1, 1, 0)
    assert things.holder is None
    assert things.effects_done == 4 + 33
    await engine.rebuild("things")
    await engine.step()
    (found,) = [found for found in await engine.status() if found.name == "things"]
    assert found.building is not None
    assert found.building.effects_total == 38
    assert found.building.holder is not None
    assert found.building.held_back is None


async def test_projections_that_only_the_database_knows(make_engine: Any, worlds: Any) -> None:
    """What another program feeds is shown, and left alone."""
    await worlds(1)
    await make_engine(trio()).run_until_caught_up(timeout=100)
    engine = make_engine([Counts()])
    await engine.run_until_caught_up(timeout=100)
    status = {found.name: found for found in await engine.status()}
    assert status["said"].note == (
        "this program does not have it; "
        "one of your own is named by --projection MODULE:CLASS or WORLDLEDGER_OWN_PROJECTIONS"
    )
    assert await engine.parked("said") == []
    assert status["said"].live is not None


async def test_news_for_a_program_that_is_away(store: Store, make_engine: Any, worlds: Any) -> None:
    """A runner notes news for the builds of other programs too, which find it when they come."""
    (name,) = await worlds(1)

    class Picky(Said):
        rulesets = frozenset({"sandbox"})

    class Other(Things):
        rulesets = frozenset({"chess"})

    both = make_engine([Picky(), Other()])
    await both.run_until_caught_up(timeout=100)
    head = await append(store, name, story(0, 12))
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    status = {found.name: found.live for found in await both.status()}
    assert status["said"] is not None
    assert status["said"].effects_behind == 12
    await both.run_until_caught_up(timeout=100)
    assert await both.wait_for("said", name, head, timeout=0) == head
    assert both.counters.effects == 13
    status = {found.name: found.live for found in await both.status()}
    assert status["things"] is not None
    assert status["things"].worlds_behind == 0


async def test_more_news_than_one_look_takes(store: Store, pool: Any, make_engine: Any, admin: Any) -> None:
    """Thousands of worlds with news are noted look by look, each once, and those at the end get their turn."""
    await make_engine(trio()).ensure()
    await admin.execute("""
        insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)
        select 'w' || n, gen_random_uuid(), 'sandbox', 1, '{}', 'wall' from generate_series(1, 2500) n;
        insert into heads (world_id, head_seq, sim_time, wall_time) select world_id, 5, 0, 0 from worlds;
    """)
    tables = [Table(projection, f"{projection.name}_1") for projection in trio()]
    discovery = Discovery(pool, store.reader, idle=1.0)
    busiest = "update heads set moved = true, head_seq = head_seq + 1 where world_id < 'w2'"
    for n in range(3):
        assert await discovery.news(tables)
        if n < 2:
            await admin.execute(busiest)
    noted = await admin.fetch("select build, count(*), max(head_seq) from projection_pending group by build")
    assert sorted(tuple(row) for row in noted) == [("counts_1", 2500, 6), ("said_1", 2500, 6), ("things_1", 2500, 6)]
    while await discovery.news(tables):
        pass
    assert await admin.fetchval("select count(*) from heads where moved") == 0
    assert await admin.fetchval("select count(*) from heads join projection_pending using (world_id, head_seq)") == 7500


async def _cost(admin: Any, tables: list[Table], mode: str) -> int:
    """Count the pages that one round of a runner looks at when there is nothing to do."""
    await admin.execute(f"set plan_cache_mode = {mode}")
    builds = [table.build for table in tables]
    pages = 0
    for statement, arguments in (
        (statements.BUILDS, ()),
        (statements.DISCOVER, ("", WORLDS_AT_ONCE, *reading(tables))),
        (statements.DUE, (builds, "", 256)),
        (statements.LEFT_TO_DO, (builds, [])),
        (statements.STATUS, reading(tables)),
    ):
        plan = json.loads(await admin.fetchval(f"explain (analyze, buffers, format json) {statement}", *arguments))
        pages += plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"]
    return pages


async def test_idle_worlds_cost_nothing(
    store: Store, make_engine: Any, worlds: Any, admin: Any, thorough: bool
) -> None:
    """With very many idle worlds a round looks at no more pages than with a few, and finds the one that moves."""
    names = await worlds(3)
    engine = make_engine(trio())
    await engine.run_until_caught_up(timeout=100)
    tables = [Table(projection, f"{projection.name}_1") for projection in trio()]
    await admin.execute("vacuum analyze")
    modes = ("force_custom_plan", "force_generic_plan")
    few = {mode: await _cost(admin, tables, mode) for mode in modes}
    idle = 100_000 if thorough else 20_000
    await admin.execute(f"""
        insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)
        select 'idle' || n, gen_random_uuid(), 'sandbox', 1, '{{}}', 'wall' from generate_series(1, {idle}) n;
        insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time, moved)
        select 'idle' || n, 5, '', 0, 0, false from generate_series(1, {idle}) n;
        insert into projection_cursors
        select build, 'idle' || n, 5 from generate_series(1, {idle}) n, projection_builds;
    """)
    # Before and after the statistics are told of them.
    for _ in range(2):
        for mode in modes:
            assert await _cost(admin, tables, mode) <= few[mode] + 60
        await admin.execute("vacuum analyze")
    await append(store, names[1], story(0, 9))
    await wait_for(lambda: _finds(engine, names[1]), "it is found")


async def _finds(engine: Any, name: str) -> bool:
    await engine.step()
    return all([await engine.wait_for(which, name, 10, timeout=0) == 10 for which in ("counts", "said", "things")])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"name": "Counts"}, "no name for a table"),
        ({"name": 'c"; drop table heads'}, "no name for a table"),
        ({"name": "counts_1"}, "that of a build"),
        ({"name": "said"}, "is taken"),
        ({"name": "c" * 41}, "no name for a table"),
        ({"views": (View("said", "select 1 as x", ""),)}, "is taken"),
        ({"views": (View("totals_2", "select 1 as x", ""),)}, "that of a build"),
        ({"key": ()}, "no key"),
        ({"key": ("kind", "world_id")}, "begin with world_id"),
        ({"key": ("world_id", "nothing")}, "the key is made of columns"),
        ({"columns": (Column("world_id", "text", ""), Column("kind", "text", "", nullable=True))}, "the key is made"),
        ({"columns": (*Counts.columns, Counts.columns[1])}, "a column twice"),
        ({"columns": (*Counts.columns, Column("more", "text[]", ""))}, "arrays cannot be sent"),
        ({"indexes": (("count", "nothing"),)}, "an index names"),
        ({"newest_by": "count"}, "the newest rows by count are not found by an index"),
    ],
)
def test_definitions_that_cannot_be(changes: dict[str, Any], reason: str) -> None:
    """They are refused when the engine is made."""
    with pytest.raises(ValueError, match=reason):
        check_definitions([Said(), type("Changed", (Counts,), changes)()])
