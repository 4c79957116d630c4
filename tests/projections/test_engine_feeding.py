"""Feeding: what is in the log is in the rows, exactly once, whatever the batches are."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from worldledger_projections.folds import Folds, Held, fold
from worldledger_service.projecting import batch as batching
from worldledger_service.store import Store

from tests.store.helpers import guards_down
from tests.waiting import wait_for
from worldledger.errors import UnknownRulesetError, WorldNotFoundError
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.upcasting import Upcaster

from .helpers import append, assert_equal_to_log, assert_verified, expected_counts, expected_said, rows_of, said, story
from .tiny import Counts, Said, Things, trio


@pytest.mark.both_servers
async def test_what_was_appended_is_in_the_rows(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """All sorts of projections hold what a replay of the log gives, from the first scan and from news."""
    names = await worlds(5)
    for n, name in enumerate(names):
        await append(store, name, story(0, 10 + 30 * n))
    engine = make_engine(trio())
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)
    for name in names[:3]:
        await append(store, name, story(200, 17))
    names += await worlds(2, "later")
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")


@pytest.mark.parametrize("batch", [1, pytest.param(3, marks=pytest.mark.thorough), 50])
async def test_batches_of_any_size_give_the_same_rows(
    batch: int, store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """Whether effects come one at a time or many worlds at once, the rows are the same; small worlds get their turn."""
    names = await worlds(4)
    for n, name in enumerate(names):
        await append(store, name, story(0, 5 + 12 * n))
    engine = make_engine(trio(), batch=batch)
    await engine.run_until_caught_up(timeout=60)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")


async def test_a_restart_goes_on_from_the_rows(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """A new process has nothing in memory: rows and states are read back."""
    names = await worlds(3)
    for n in range(5):
        for name in names:
            await append(store, name, story(n * 20, 20))
        await make_engine(trio()).run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)


async def test_more_worlds_than_one_look_takes(
    store: Store, pool: Any, make_engine: Any, worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More worlds than a look takes, of which some have far more to do, are all fed."""
    monkeypatch.setattr("worldledger_service.projecting.runner.WORLDS_AT_ONCE", 8)
    names = await worlds(30)
    for name in names[::10]:
        await append(store, name, story(0, 100))
    engine = make_engine(trio(), batch=64)
    await engine.run_until_caught_up(timeout=60)
    await assert_equal_to_log(pool, store, names)
    assert engine.counters.effects == 3 * (30 + 300)
    assert engine.counters.conflicts == 0


async def test_a_batch_is_folded_while_the_next_one_is_read(
    store: Store, pool: Any, make_engine: Any, worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first batch is not folded before the second one has been read, and all are in the rows."""
    names = await worlds(4)
    for name in names:
        await append(store, name, story(0, 30))
    engine = make_engine([Counts()], batch=31)
    reads = threading.Semaphore(0)
    overlapped: list[bool] = []
    read = batching.Batches._read

    async def noted(self: Any, spans: Any) -> Any:
        rows = await read(self, spans)
        reads.release()
        return rows

    def waiting(groups: Any) -> None:
        if not overlapped:
            overlapped.append(reads.acquire(timeout=60) and reads.acquire(timeout=60))
        fold(groups)

    monkeypatch.setattr(batching.Batches, "_read", noted)
    monkeypatch.setattr(batching, "fold", waiting)
    await engine.run_until_caught_up(timeout=100)
    assert overlapped == [True]
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


async def test_rows_of_new_worlds_are_copied(
    store: Store, pool: Any, make_engine: Any, worlds: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first rows of many worlds are copied in, and what follows is not; rows that are there already give way."""
    copied: list[int] = []
    copy = batching._copy

    async def noted(connection: Any, copies: Any) -> None:
        copied.extend(len(rows) for _, rows in copies)
        await copy(connection, copies)

    monkeypatch.setattr(batching, "_copy", noted)
    monkeypatch.setattr(batching, "_MANY", 5)
    names = await worlds(6)
    engine = make_engine([Counts()])
    await engine.run_until_caught_up(timeout=100)
    assert copied == [6]
    for name in names:
        await append(store, name, story(0, 10))
    await engine.run_until_caught_up(timeout=100)
    assert copied == [6]
    names += await worlds(6, "later")
    await pool.execute(f"insert into projections.counts_1 values ('{names[-1]}', 'WorldCreated', 9, 9)")
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == await expected_counts(store, names)
    assert await engine.parked("counts") == []


async def test_projections_at_different_places_of_a_world(
    store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """A projection that was paused for a while catches up beside the others; each effect counts once for each."""
    names = await worlds(2)
    engine = make_engine(trio())
    await engine.run_until_caught_up(timeout=100)
    await engine.pause("counts")
    for name in names:
        await append(store, name, story(0, 30))
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == [(name, "WorldCreated", 1, 1) for name in names]
    assert await rows_of(pool, "said") == await expected_said(store, names)
    await engine.resume("counts")
    await append(store, names[0], story(30, 3))
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)


async def test_after_pausing_nothing_is_written(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """Once `pause` has returned no row changes, however busy the runner is; after `resume` everything comes."""
    names = await worlds(2)
    engine = make_engine([Counts()], batch=20)
    async with running(engine):
        for n in range(4):
            for name in names:
                await append(store, name, story(n * 200, 100))
            await asyncio.sleep(0.03)
            await engine.pause("counts")
            rows = await rows_of(pool, "counts")
            await asyncio.sleep(0.1)
            assert await rows_of(pool, "counts") == rows
            await engine.resume("counts")
        expected = await expected_counts(store, names)
        await wait_for(lambda: _is(pool, "counts", expected), "all is fed")


async def _is(pool: Any, name: str, rows: list[Any]) -> bool:
    return await rows_of(pool, name) == rows


async def test_news_while_a_new_build_is_filled(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """Worlds that are made, and grow, during the first scan of a build are all in it."""
    names = await worlds(8)
    engine = make_engine(trio(), batch=10)
    async with running(engine):
        for n in range(6):
            names += await worlds(2, f"new{n}-")
            await append(store, names[-1], story(0, 9))
            await append(store, names[n], story(0, 9))
        expected = await expected_counts(store, names)
        await wait_for(lambda: _is(pool, "counts", expected), "all is fed")
    await engine.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, names)
    await assert_verified(engine, "counts", "said", "things")


async def test_being_woken(store: Store, make_engine: Any, worlds: Any, running: Any) -> None:
    """A runner that was told of news need not wait for its next look; `wait_for` waits for a seq, or says how far."""
    (name,) = await worlds(1)
    engine = make_engine(trio(), poll_interval=3600.0)
    async with running(engine):
        await engine.wait_for("said", name, 1, timeout=100)
        began = time.monotonic()
        head = await append(store, name, story(0, 3))
        await asyncio.sleep(0.05)
        waiting = asyncio.gather(*(engine.wait_for(which, name, head, timeout=100) for which in ("counts", "things")))
        assert await waiting == [head, head]
        assert time.monotonic() - began < 10
        assert await engine.wait_for("counts", name, head + 1, timeout=0.05) == head
    with pytest.raises(WorldNotFoundError):
        await engine.wait_for("counts", "nowhere", 1, timeout=1)


async def test_who_waits_for_what_is_not_read(store: Store, make_engine: Any, worlds: Any) -> None:
    """A world of a ruleset that a projection does not read needs no waiting, and none of its effects are fed."""
    (name,) = await worlds(1)

    class ChessOnly(Counts):
        rulesets = frozenset({"chess"})

    engine = make_engine([ChessOnly()])
    await engine.run_until_caught_up(timeout=100)
    assert await engine.wait_for("counts", name, 1, timeout=5) == 1
    assert engine.counters.effects == 0


async def test_a_ruleset_that_is_not_installed(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """Projections that need its states skip its worlds and say why, until it is installed; the others read on."""
    names = await worlds(2)

    def none(name: str) -> Ruleset:
        raise UnknownRulesetError(f"unknown ruleset {name!r}; installed: none", ruleset=name)

    engine = make_engine(trio(), load_ruleset=none)
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "counts") == await expected_counts(store, names)
    things = next(status.live for status in await engine.status() if status.name == "things")
    assert (things.parked, things.skipped, await engine.parked("things"), engine.counters.parked) == (0, 2, [], 0)
    (missing,) = await engine.missing_kinds()
    assert (missing.ruleset, missing.worlds) == ("sandbox", 2)
    assert "unknown ruleset 'sandbox'" in missing.error
    await append(store, names[0], [said(1)])
    await make_engine(trio(), load_ruleset=none).run_until_caught_up(timeout=100)
    assert (await engine.missing_kinds())[0].worlds == 2
    await make_engine(trio()).run_until_caught_up(timeout=100)
    assert await engine.missing_kinds() == []
    await assert_equal_to_log(pool, store, names)


async def test_old_effects_are_upcast(store: Store, pool: Any, make_engine: Any, worlds: Any) -> None:
    """Projections see the payloads that the ruleset's upcasters give."""
    (name,) = await worlds(1)
    await append(store, name, [said(1, words="old"), said(2, text="new")])

    class Newer(Ruleset):
        name = "sandbox"
        handlers = load_ruleset("sandbox").handlers
        upcasters = (Upcaster("Said", "1.0.0", "2.0.0", lambda old: {"text": old.get("words", old.get("text"))}),)

    engine = make_engine([Said()], load_ruleset=lambda _: Newer())
    await engine.run_until_caught_up(timeout=100)
    assert await rows_of(pool, "said") == [(name, 2, "old"), (name, 3, "new")]


@pytest.mark.parametrize("missing", [3, 6])
async def test_a_log_with_a_hole(
    missing: int, store: Store, pool: Any, make_engine: Any, worlds: Any, database_url: str
) -> None:
    """A world whose log lacks an effect is set aside there, last effect or not; the others go on."""
    names = await worlds(2)
    for name in names:
        await append(store, name, [said(n) for n in range(5)])
    async with guards_down(database_url) as admin:
        await admin.execute("delete from effects where world_id = $1 and global_seq = $2", names[0], missing)
    engine = make_engine([Said(), Things()])
    await engine.run_until_caught_up(timeout=100)
    assert len(await rows_of(pool, "said")) == missing - 2 + 5
    for which in ("said", "things"):
        (parked,) = await engine.parked(which)
        assert (parked.world_id, parked.global_seq) == (names[0], missing)
        assert "missing" in parked.error


def test_memory_is_bounded() -> None:
    """What was used longest ago is forgotten first, and by weight; a fold at another seq is not given out."""
    folds = Folds(room=30)

    def held(seq: int, rows: int) -> Held:
        return Held(seq, None, None, rows)  # type: ignore[arg-type]

    for n in range(10):
        folds.put(("b", f"w{n}"), held(n, 9))
    assert [n for n in range(10) if folds.take(("b", f"w{n}"), n)] == [7, 8, 9]
    folds.put(("b", "w"), held(5, 1))
    assert folds.take(("b", "w"), 6) is None
    assert folds.take(("b", "w"), 5) is None
    folds.put(("b", "w"), held(5, 1))
    folds.put(("c", "w"), held(5, 1))
    folds.forget("b")
    assert folds.take(("b", "w"), 5) is None
    assert folds.take(("c", "w"), 5) is not None
