"""Rows of a projection's own that no program writes: they keep no runner from going on."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_chess.projections.games import Games
from worldledger_service.database.odd_rows import odd_rows
from worldledger_service.store import Store

from tests.projections.chess.logs import Draft, moved, started
from tests.projections.helpers import append, assert_verified, builds, said
from tests.projections.tiny import Counts, Said
from worldledger.genesis import NewWorld


def _draft(draft: Draft) -> Any:
    return {"source_id": "ann", "schema_version": "1.0.0", **draft}


@pytest.mark.parametrize("time", ["infinity", "294276-12-31", "0044-03-15 BC"])
async def test_a_time_of_no_calendar_keeps_no_world_behind(
    store: Store, pool: Any, admin: Any, make_engine: Any, time: str
) -> None:
    """A fold that begins with such a row goes on, in its world and in others; a check names the column."""
    for name in ("g1", "g2"):
        await store.create_world(NewWorld(world_id=name, ruleset="chess"))
        await append(store, name, [_draft(started()), _draft(moved("e2e4"))])
    await make_engine([Games()]).run_until_caught_up(timeout=30)
    await admin.execute("update projections.games set started_at = $1::text::timestamptz where world_id = 'g1'", time)
    for name in ("g1", "g2"):
        await append(store, name, [_draft(moved("e7e5"))])
    engine = make_engine([Games()])
    await engine.run_until_caught_up(timeout=30)
    assert {row["plies"] for row in await pool.fetch("select plies from projections.games")} == {2}
    finding = (await engine.verify("games"))["finding"]
    assert (finding["world_id"], finding["column"]) == ("g1", "started_at")


@pytest.mark.parametrize("name", ["", "a\nb", 'a"; drop table heads; --', "x" * 2000])
@pytest.mark.parametrize("status", ["live", "building", "retired"])
async def test_a_build_of_no_name_is_replaced(
    store: Store, pool: Any, admin: Any, make_engine: Any, worlds: Any, name: str, status: str
) -> None:
    """Its table has no name that the engine gives: the build is made anew, and the row is dropped."""
    names = await worlds(1)
    await append(store, names[0], [said(n) for n in range(5)])
    await make_engine([Counts(), Said()]).run_until_caught_up(timeout=30)
    if status == "live":
        await admin.execute("update projection_builds set build = $1 where projection = 'counts'", name)
    else:
        await admin.execute(
            "insert into projection_builds (build, projection, version, status) values ($1, 'counts', 1, $2)",
            name,
            status,
        )
    assert [line for line in await odd_rows(admin) if line.startswith("row of projection_builds with build '")]
    engine = make_engine([Counts(), Said()])
    await engine.run_until_caught_up(timeout=30)
    await engine.drop_retired()
    await assert_verified(engine, "counts", "said")
    assert await odd_rows(admin) == []


async def test_the_number_of_a_lease_is_one_of_a_build(pool: Any, admin: Any, make_engine: Any) -> None:
    """A number that no program reaches by counting counts for nothing."""
    await admin.execute("insert into projection_leases (name) values ('build:counts_' || repeat('9', 2000))")
    await make_engine([Counts()]).ensure()
    assert await builds(pool) == [("counts_1", 1, "live")]
