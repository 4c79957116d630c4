"""Views that are made upon the views of several projections: there whenever all of those are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from worldledger_projections.base import Projection, View
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, builds, rows_of, said
from .tiny import Counts, DoubleCounts, Said, WideCounts


class Heard(Said):
    """What was said, with a view that tells how much was said besides."""

    views = (
        View(
            "heard",
            "select s.world_id, s.text, c.count, '{build}' as build "
            "from said s join counts c on c.world_id = s.world_id and c.kind = 'Said'",
            "What was said, each with how much was said.",
            upon=("counts",),
        ),
    )


class WidelyHeard(Said):
    """The same upon a version of the counts whose columns are others."""

    views = (
        View(
            "heard",
            Heard.views[0].select.replace("c.count", "c.n"),
            "What was said, each with how much was said.",
            upon=("counts",),
        ),
    )


@asynccontextmanager
async def seen(pool: Any) -> AsyncIterator[list[int]]:
    """Read the view over and over, each time anew; that it is not there ends the test."""
    found: list[int] = []

    async def read() -> None:
        while True:
            found.append(await pool.fetchval("select count(*) from projections.heard -- " + str(len(found))))

    reader = asyncio.get_running_loop().create_task(read())
    try:
        yield found
        await asyncio.sleep(0.05)
        assert not reader.done(), reader.exception()
    finally:
        reader.cancel()
        await asyncio.wait([reader])


async def _swaps(engine: Any, count: int) -> bool:
    await engine.step()
    return bool(engine.counters.swaps >= count)


@pytest.mark.parametrize("projections", [[Counts(), Heard()], [Heard(), Counts()]], ids=["last", "first"])
async def test_it_is_made_whichever_comes_first(
    store: Store, pool: Any, make_engine: Any, worlds: Any, projections: Sequence[Projection]
) -> None:
    """It belongs to one of them and waits for the other."""
    (name,) = await worlds(1)
    await append(store, name, [said(1), said(2)])
    engine = make_engine(projections)
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "heard") == [(name, "1", 2, "said_1"), (name, "2", 2, "said_1")]
    comment = await pool.fetchval("select obj_description('projections.heard'::regclass)")
    assert comment == "What was said, each with how much was said."


async def test_without_the_other_it_is_not_missed(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A program that has only one of the projections feeds it; another adds the rest."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    engine = make_engine([Heard()])
    await engine.run_until_caught_up(timeout=100)
    assert engine.counters.failures == 0
    assert await pool.fetchval("select to_regclass('projections.heard')") is None
    other = make_engine([Counts(), Heard()])
    await other.run_until_caught_up(timeout=100)
    await other.ensure()
    assert await rows_of(pool, "heard") == [(name, "1", 1, "said_1")]


@pytest.mark.both_servers
async def test_it_stays_while_builds_take_over(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """Whichever projection is rebuilt no read fails, and it reads the build that is live."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    engine = make_engine([Counts(), Heard()])
    await engine.run_until_caught_up(timeout=100)
    async with seen(pool) as reads:
        for count, which in enumerate(["counts", "said", "counts", "said"], 1):
            await engine.rebuild(which)
            await wait_for(lambda: _swaps(engine, count), "the rebuild takes over")  # noqa: B023
    assert set(reads) == {1}
    await append(store, name, [said(2)])
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "heard") == [(name, "1", 2, "said_3"), (name, "2", 2, "said_3")]
    newer = make_engine([DoubleCounts(), Heard()])
    await newer.run_until_caught_up(timeout=100)
    assert [row[2] for row in await rows_of(pool, "heard")] == [4, 4]


@pytest.mark.both_servers
async def test_it_is_made_anew_where_it_had_to_be_dropped(
    store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """A version of the other projection with other columns takes it along, in the same moment."""
    (name,) = await worlds(1)
    await append(store, name, [said(1), said(2)])
    await make_engine([Counts(), Heard()]).run_until_caught_up(timeout=100)
    async with seen(pool) as reads:
        await make_engine([WideCounts(), WidelyHeard()]).run_until_caught_up(timeout=100)
        await asyncio.sleep(0.1)
    assert set(reads) == {2}
    assert (await builds(pool))[-1] == ("counts_2", 3, "live")
    assert await rows_of(pool, "heard") == [(name, "1", 2, "said_1"), (name, "2", 2, "said_1")]


async def test_it_waits_for_a_version_that_has_its_columns(
    store: Store, pool: Any, make_engine: Any, worlds: Any, admin: asyncpg.Connection
) -> None:
    """Until then the program feeds what it has; somebody who takes the view away finds it made again."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    await make_engine([Counts()]).run_until_caught_up(timeout=100)
    engine = make_engine([WideCounts(), WidelyHeard()])
    await engine.ensure()
    assert await builds(pool) == [("counts_1", 1, "live"), ("counts_2", 3, "building")]
    assert await pool.fetchval("select to_regclass('projections.heard')") is None
    await engine.run_until_caught_up(timeout=100)
    assert engine.counters.failures == 0
    assert await rows_of(pool, "heard") == [(name, "1", 1, "said_1")]
    await admin.execute("drop view projections.heard")
    await engine.ensure()
    assert await rows_of(pool, "heard") == [(name, "1", 1, "said_1")]
