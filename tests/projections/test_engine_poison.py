"""What cannot be digested is set aside: one projection in one world, at one effect; all else goes on."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_projections.base import Changes, Column, ProjectionFailedError, Row, WorldProjection
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, assert_verified, expected_counts, expected_said, rows_of, said, story
from .tiny import Counts, Said, Things


@pytest.mark.parametrize(
    ("late", "batch"),
    [
        (False, 1),
        (True, 5000),
        *(
            pytest.param(*other, marks=pytest.mark.thorough)
            for other in ((False, 4), (False, 5000), (True, 1), (True, 4))
        ),
    ],
)
async def test_a_poisonous_effect(
    late: bool, batch: int, store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """Everything before it is there, the rest of the world waits, other worlds and projections do not."""
    names = await worlds(3)
    poison = said(99, text="bad") if late else said(99, poison="bad")
    for name in names:
        await append(store, name, [said(n) for n in range(20)])
    await append(store, names[1], [*[said(n) for n in range(7)], poison, *[said(n) for n in range(5)]])
    sick = Said(late_poisons=["bad"]) if late else Said(poisons=["bad"])
    engine = make_engine([sick, Counts(), Things()], batch=batch)
    await engine.run_until_caught_up(timeout=60)
    assert await rows_of(pool, "counts") == await expected_counts(store, names)
    everything = await expected_said(store, names)
    before = [row for row in everything if row[0] != names[1] or row[1] < 29]
    assert await rows_of(pool, "said") == before
    (parked,) = await engine.parked("said")
    assert (parked.world_id, parked.global_seq, parked.kind, parked.attempts) == (names[1], 29, "Said", 1)
    assert "PoisonError" in parked.error
    await assert_verified(engine, "said", "counts", "things")

    # What comes later does not try it again; only somebody who asks for it does, and another failure is counted.
    await append(store, names[1], [said(1)])
    await append(store, names[0], [said(1)])
    await engine.run_until_caught_up(timeout=100)
    assert await pool.fetchval("select attempts from projection_parked") == 1
    assert await engine.retry("said", names[0]) == 0
    assert await engine.retry("said", names[1]) == 1
    await engine.run_until_caught_up(timeout=100)
    assert await pool.fetchval("select attempts from projection_parked") == 2
    (status, *_) = [found for found in await engine.status() if found.name == "said"]
    assert status.live is not None
    assert (status.live.parked, status.live.worlds_behind) == (1, 0)

    # A program that can digest it goes on from there, with what came meanwhile.
    cured = make_engine([Said(), Counts(), Things()])
    assert await cured.retry("said") == 1
    await append(store, names[1], [said(2)])
    await cured.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "said") == await expected_said(store, names)
    assert await pool.fetchval("select count(*) from projection_parked") == 0
    await assert_verified(cured, "said")


async def test_a_second_poison_after_the_first(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """Past a cured effect the next one that cannot be digested is named, and counted anew."""
    (name,) = await worlds(1)
    await append(store, name, [said(0), said(1, poison="a"), said(2), said(3, poison="b"), said(4)])
    sick = Said(poisons=["a", "b"])
    engine = make_engine([sick])
    await engine.run_until_caught_up(timeout=100)
    for attempts in (2, 3):
        await engine.retry("said")
        await engine.run_until_caught_up(timeout=100)
        (parked,) = await engine.parked("said")
        assert (parked.global_seq, parked.attempts) == (3, attempts)
    sick.poisons = {"b"}
    await engine.retry("said")
    await engine.run_until_caught_up(timeout=100)
    (parked,) = await engine.parked("said")
    assert (parked.global_seq, parked.attempts) == (5, 1)
    assert [row[1] for row in await rows_of(pool, "said")] == [2, 3, 4]


async def test_code_that_raises_at_the_beginning(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A world for which the fold cannot even begin is set aside at its first effect."""
    names = await worlds(3)
    for name in names:
        await append(store, name, story(0, 9))
    sick = Said()
    sick.bad_worlds = {names[1]}
    engine = make_engine([sick, Counts()])
    await engine.run_until_caught_up(timeout=100)
    (parked,) = await engine.parked("said")
    assert (parked.world_id, parked.global_seq, parked.kind) == (names[1], 1, "WorldCreated")
    assert parked.error.startswith("PoisonError: cannot begin")
    assert await rows_of(pool, "said") == await expected_said(store, [names[0], names[2]])
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


class _Strict(Said):
    """Its table refuses what `apply` does not."""

    name = "strict"
    columns = (
        Column("world_id", "text", "The world."),
        Column("global_seq", "bigint", "The effect."),
        Column("text", "integer", "A number, or nothing goes."),
    )


class _Number(WorldProjection):
    def __init__(self, inner: WorldProjection, bad: Any) -> None:
        self._inner = inner
        self._bad = bad

    def apply(self, effect: Any) -> None:
        self._inner.apply(effect)

    def take_changes(self) -> Changes:
        rows = self._inner.take_changes().upserts
        return Changes(upserts=[(*row[:2], self._bad if row[2] == "bad" else int(row[2])) for row in rows])


@pytest.mark.parametrize(
    ("count", "bad"),
    [
        (900, "double"),
        *((12, bad) for bad in (None, "\x00")),
        *(pytest.param(12, bad, marks=pytest.mark.thorough) for bad in (2**40, "word")),
        *(pytest.param(900, bad, marks=pytest.mark.thorough) for bad in (None, 2**40, "word", "\x00")),
        pytest.param(12, "double", marks=pytest.mark.thorough),
    ],
)
async def test_rows_that_the_database_refuses(
    count: int, bad: Any, store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """The effect whose rows are refused is found among a batch of many worlds, and only its world is set aside."""
    names = await worlds(4)

    class Refused(_Strict):
        def begin(self, world_id: str, rows: Any, fold: Any) -> WorldProjection:
            inner = super().begin(world_id, rows, fold)
            return _Doubled(inner) if bad == "double" else _Number(inner, bad)

    for name in names:
        await append(store, name, [said(n) for n in range(count)])
    await append(store, names[2], [said(1), said(2, text="bad"), said(3)])
    engine = make_engine([Refused(), Counts()])
    await engine.run_until_caught_up(timeout=60)
    (parked,) = await engine.parked("strict")
    assert (parked.world_id, parked.global_seq, parked.kind) == (names[2], count + 3, "Said")
    rows: list[Row] = [(w, seq, int(text)) for w, seq, text in await expected_said(store, names) if text != "bad"]
    assert await rows_of(pool, "strict") == [row for row in rows if row[0] != names[2] or row[1] < count + 3]
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


class _Doubled(WorldProjection):
    def __init__(self, inner: WorldProjection) -> None:
        self._inner = inner

    def apply(self, effect: Any) -> None:
        self._inner.apply(effect)

    def take_changes(self) -> Changes:
        rows = self._inner.take_changes().upserts
        good = [(*row[:2], int(row[2])) for row in rows if row[2] != "bad"]
        return Changes(upserts=[*good, *[(*row[:2], 1) for row in rows if row[2] == "bad"] * 2])


async def test_rows_of_another_world_or_shape(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A projection cannot touch another world's rows: what it makes of them counts as a failure of its own."""
    names = await worlds(2)

    class Stray(WorldProjection):
        def apply(self, effect: Any) -> None:
            pass

        def take_changes(self) -> Changes:
            return Changes(deletes=[(names[0], 2)])

    class Straying(Said):
        append_only = False

        def begin(self, world_id: str, rows: Any, fold: Any) -> WorldProjection:
            return Stray() if world_id == names[1] else super().begin(world_id, rows, fold)

    for name in names:
        await append(store, name, [said(0)])
    engine = make_engine([Straying()])
    await engine.run_until_caught_up(timeout=100)
    (parked,) = await engine.parked("said")
    assert parked.world_id == names[1]
    assert "no row of world" in parked.error
    assert await rows_of(pool, "said") == [(names[0], 2, "0")]


async def test_a_build_with_parked_worlds_does_not_take_over(
    store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """A rebuild that sets worlds aside which the live build holds is kept back and says so, until they are retried."""
    names = await worlds(2)
    for name in names:
        await append(store, name, [said(0), said(1, poison="bad"), said(2)])
    await make_engine([Said()]).run_until_caught_up(timeout=100)
    sick = Said(poisons=["bad"])
    engine = make_engine([sick])
    await engine.rebuild("said")
    await engine.run_until_caught_up(timeout=100)
    assert engine.counters.swaps == 0
    for anyone in (engine, make_engine([Said()])):
        (status,) = await anyone.status()
        assert status.building is not None
        assert "2 worlds are parked" in str(status.building.held_back)
    assert await rows_of(pool, "said") == await expected_said(store, names)
    sick.poisons = set()
    assert await engine.retry("said") == 2

    async def taken_over() -> bool:
        await engine.step()
        return bool(engine.counters.swaps == 1)

    await wait_for(taken_over, "it takes over")
    assert await rows_of(pool, "said") == await expected_said(store, names)


async def test_parked_worlds_can_be_accepted(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """Who says so lets a build take over though worlds are parked in it, also where another runner has filled it."""
    names = await worlds(3)
    for name in names:
        await append(store, name, [said(0), said(1, poison="bad" if name == names[0] else "good"), said(2)])
    await make_engine([Said()]).run_until_caught_up(timeout=100)
    other, engine = make_engine([Said(poisons=["bad"])]), make_engine([Said(poisons=["bad"])])
    async with running(other):
        await engine.rebuild("said")

        async def held_back() -> bool:
            (status,) = await engine.status()
            return status.building is not None and status.building.held_back is not None

        await wait_for(held_back, "it is held back")
        await engine.rebuild("said", accept_parked=True)
        async with running(engine):
            await wait_for(lambda: _swapped(engine), "it takes over")
    rows = [row for row in await expected_said(store, names) if row[0] != names[0] or row[1] < 3]
    assert await rows_of(pool, "said") == rows
    assert [each.world_id for each in await engine.parked("said")] == [names[0]]


async def _swapped(engine: Any) -> bool:
    return bool(engine.counters.swaps == 1)


async def test_a_rebuild_of_a_world_that_fails_changes_nothing(
    store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """It names the effect, and the rows stay as they were; one that succeeds frees a world that was set aside."""
    (name,) = await worlds(1)
    await append(store, name, [*[said(n) for n in range(30)], said(1, poison="bad"), said(2)])
    sick = Said(poisons=["bad"])
    engine = make_engine([sick])
    await engine.run_until_caught_up(timeout=100)
    rows = await rows_of(pool, "said")
    with pytest.raises(ProjectionFailedError, match=f"cannot digest world {name}, seq 32: PoisonError") as caught:
        await engine.rebuild_world("said", name)
    assert caught.value.details["global_seq"] == 32
    assert await rows_of(pool, "said") == rows
    sick.poisons = set()
    assert await engine.rebuild_world("said", name) == 33
    assert await engine.parked("said") == []
    assert await rows_of(pool, "said") == await expected_said(store, [name])
    await append(store, name, [said(5)])
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "said") == await expected_said(store, [name])
