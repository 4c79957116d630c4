"""What people ask: a view of each projection in the schema analytics, which follows it through every swap."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest
from worldledger_projections.base import ANALYTICS, View
from worldledger_projections.tables import check_definitions
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, builds, reading, said
from .tiny import Counts, Said, Things, WideCounts


class Told(Said):
    """The same, with a column that is called otherwise where people ask, and a view of several projections there."""

    published = MappingProxyType({"text": "words"})
    views = (
        View(
            "told",
            "select s.world_id, s.text as words, c.count from said s "
            "join counts c on c.world_id = s.world_id and c.kind = 'Said'",
            "What was said, each with how much was said.",
            upon=("counts",),
            schema=ANALYTICS,
            columns=MappingProxyType({"words": "What was said."}),
        ),
    )


async def _columns(pool: Any, view: str) -> list[str]:
    rows = await pool.fetch(
        "select attname from pg_attribute where attrelid = to_regclass($1) and attnum > 0 order by attnum",
        f"analytics.{view}",
    )
    return [row[0] for row in rows]


async def _swapped(engine: Any) -> bool:
    await engine.step()
    return bool(engine.counters.swaps)


@pytest.mark.both_servers
async def test_a_view_in_the_words_of_analytics(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """It has the rows of the projection, the experiment behind the world, names that say more, and comments."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    await make_engine([Counts(), Told()]).run_until_caught_up(timeout=100)
    assert await _columns(pool, "said") == ["world_id", "experiment", "global_seq", "words"]
    rows = await pool.fetch("select * from analytics.said")
    experiment = await pool.fetchval("select experiment from worlds where world_id = $1", name)
    assert [tuple(row) for row in rows] == [(name, experiment, 2, "1")]
    assert [tuple(row) for row in await pool.fetch("select * from analytics.told")] == [(name, "1", 1)]
    comments = "select obj_description(to_regclass($1)), col_description(to_regclass($1), $2)"
    assert tuple(await pool.fetchrow(comments, "analytics.said", 4)) == (
        "What was said. Forks are left out.",
        "What was said.",
    )
    assert tuple(await pool.fetchrow(comments, "analytics.told", 2))[1] == "What was said."


@pytest.mark.both_servers
async def test_other_columns_show_at_once(pool: Any, make_engine: Any, worlds: Any, database_url: str) -> None:
    """A version with other columns changes the view in the same moment, while it is read."""
    names = await worlds(3)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    assert await _columns(pool, "counts") == ["world_id", "experiment", "kind", "count", "last_seq"]
    async with reading(database_url) as seen:
        await make_engine([WideCounts()]).run_until_caught_up(timeout=100)
        await asyncio.sleep(0.05)
    assert await _columns(pool, "counts") == ["world_id", "experiment", "kind", "n", "last_seq", "note"]
    assert set(seen) == {len(names)}


async def test_what_is_not_there_is_made(store: Store, pool: Any, make_engine: Any, worlds: Any, admin: Any) -> None:
    """A database whose builds are older than the schema analytics gets its views from the next runner."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    engine = make_engine([Counts(), Told()])
    await engine.run_until_caught_up(timeout=100)
    await admin.execute("drop view analytics.counts, analytics.said, analytics.told")
    await engine.ensure()
    for view in ("counts", "said", "told"):
        assert await pool.fetchval(f"select count(*) from analytics.{view}") > 0


@pytest.mark.both_servers
async def test_somebody_else_s_view_there_holds_a_swap_back(
    pool: Any, make_engine: Any, worlds: Any, admin: Any
) -> None:
    """A view that an administrator has made upon ours, in whatever schema, is not dropped: the swap waits for them."""
    await worlds(2)
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    await admin.execute("create view analytics.mine as select kind, count from analytics.counts")
    engine = make_engine([WideCounts()])
    await engine.run_until_caught_up(timeout=100)
    (status,) = await engine.status()
    assert status.building is not None
    assert "view analytics.mine depends on" in str(status.building.held_back)
    await admin.execute("drop view analytics.mine")
    await wait_for(lambda: _swapped(engine), "it takes over")
    assert (await builds(pool))[-1] == ("counts_2", 3, "live")


async def test_a_projection_cannot_take_a_view_of_the_log(pool: Any, make_engine: Any) -> None:
    """One that is called as a view over the log is refused by the database: that view is the owner's."""

    class Worlds(Things):
        name = "worlds"

    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await make_engine([Worlds()]).ensure()
    assert "head_checksum" in await _columns(pool, "worlds")


def test_what_cannot_be_published_is_refused() -> None:
    """A name for a column that is not there, and two views of one name, are mistakes of the definition."""

    class Wrong(Counts):
        published = MappingProxyType({"sum": "total"})

    class Twice(Counts):
        views = (View("counts", "select * from counts", "Again.", schema=ANALYTICS),)

    class Unpublished(Twice):
        published = None

    with pytest.raises(ValueError, match="publishes a column that is not there"):
        check_definitions([Wrong()])
    with pytest.raises(ValueError, match=r'analytics."counts" is taken'):
        check_definitions([Twice()])
    check_definitions([Unpublished()])
