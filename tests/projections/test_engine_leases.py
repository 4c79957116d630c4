"""Several runners on one database: each build is written by one of them, and nobody's clock matters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from worldledger_projections.folds import Target
from worldledger_projections.tables import Table
from worldledger_service.projecting.batch import LeasesLostError, Writer, Written
from worldledger_service.projecting.runner import Leases
from worldledger_service.store import Store

from tests.waiting import wait_for

from .helpers import append, assert_equal_to_log, expected_counts, rows_of, said, story
from .tiny import Counts, Said, trio


class Clock:
    """A monotonic clock of the test's."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.mark.both_servers
async def test_a_lease_is_taken_when_it_stands_still(pool: Any) -> None:
    """A contender waits for its own ttl without a beat, counted from what it saw; the token rises each time."""
    mine, yours = Clock(), Clock(-5e6)
    one, two = Leases(pool, "one", 5.0, mine), Leases(pool, "two", 5.0, yours)
    assert await one.acquire(["build:x"]) == ["build:x"]
    assert await two.acquire(["build:x"]) == []
    for _ in range(3):
        yours.now += 4.9
        await one.beat()
        assert await two.acquire(["build:x"]) == []
    mine.now += 1e6  # the holder's clock means nothing
    yours.now += 4.9
    assert await two.acquire(["build:x"]) == []
    yours.now += 2.0
    assert await two.acquire(["build:x"]) == ["build:x"]
    assert two.held["build:x"] == one.held["build:x"] + 1
    await one.beat()
    assert one.held == {}
    assert one.lost == 1
    await two.release(["build:x"])
    mine.now += 5.0
    assert await one.acquire(["build:x"]) == ["build:x"]
    assert await pool.fetchval("select token from projection_leases") == 3


async def test_a_number_that_nobody_has_counted_to_keeps_no_lease_from_being_taken(pool: Any) -> None:
    """Token and beats begin again after the largest number there is; other leases are taken along with that one."""
    leases = Leases(pool, "one", 5.0, Clock())
    await pool.execute("insert into projection_leases (name, token, beats) values ('build:x', $1, $1)", 2**63 - 1)
    assert await leases.acquire(["build:x", "build:y"]) == ["build:x", "build:y"]
    assert leases.held == {"build:x": 0, "build:y": 1}
    await pool.execute("update projection_leases set beats = $1 where name = 'build:x'", 2**63 - 1)
    await leases.beat()
    assert leases.held == {"build:x": 0, "build:y": 1}


async def test_only_one_of_many_gets_a_lease(pool: Any) -> None:
    """Contenders that try at the same moment do not both get it."""
    for n in range(3):
        name = f"build:x_{n}"
        everyone = [Leases(pool, f"n{k}", 5.0, Clock()) for k in range(8)]
        had = await asyncio.gather(*(leases.acquire([name, f"{name}y"]) for leases in everyone))
        assert sorted(got for names in had for got in names) == [name, f"{name}y"]


async def test_two_runners_share_the_work(store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any) -> None:
    """With several runners each effect is fed once to each projection, whoever does it."""
    names = await worlds(5)
    engines = [make_engine(trio(), batch=40) for _ in range(3)]
    async with running(engines[0]), running(engines[1]), running(engines[2]):
        for n in range(6):
            for name in names:
                await append(store, name, story(n * 1000, 10))
        for which in ("counts", "said", "things"):
            for name in names:
                assert await engines[0].wait_for(which, name, 61, timeout=100) == 61
    await assert_equal_to_log(pool, store, names)
    assert sum(engine.counters.effects for engine in engines) == 3 * 5 * 61


async def test_another_runner_takes_over_from_one_that_died(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any
) -> None:
    """A runner that ends without giving its leases back is followed by one that stood by, within about the ttl."""
    (name,) = await worlds(1)
    first, second = make_engine(trio()), make_engine(trio())
    await first.step()
    await first.step()  # holds the leases, and never beats
    began = asyncio.get_running_loop().time()
    async with running(second):
        head = await append(store, name, story(0, 10))
        assert await second.wait_for("counts", name, head, timeout=100) == head
        assert asyncio.get_running_loop().time() - began > 0.5
    await second.run_until_caught_up(timeout=100)
    await assert_equal_to_log(pool, store, [name])


async def test_a_runner_that_stops_lets_go_at_once(store: Store, make_engine: Any, worlds: Any, running: Any) -> None:
    """After a stop in order the next runner need not wait."""
    (name,) = await worlds(1)
    first, second = make_engine(trio(), lease_ttl=60.0), make_engine(trio(), lease_ttl=60.0)
    async with running(first):
        await first.wait_for("counts", name, 1, timeout=100)
    async with running(second):
        head = await append(store, name, story(0, 10))
        assert await second.wait_for("things", name, head, timeout=100) == head


@pytest.mark.both_servers
async def test_what_an_old_holder_writes_late_is_refused(
    store: Store, pool: Any, make_engine: Any, worlds: Any
) -> None:
    """A holder that slept through a takeover, its batch in hand, cannot write it; nothing of it is kept."""
    (name,) = await worlds(1)
    await append(store, name, [said(1)])
    await make_engine([Said()]).run_until_caught_up(timeout=100)
    await append(store, name, [said(2)])
    clock = Clock()
    sleeper, next_one = Leases(pool, "sleeper", 1.0, clock), Leases(pool, "next", 1.0, clock)
    await sleeper.acquire(["build:said_1"])
    table = Table(Said(), "said_1")
    target = Target(table, name, "sandbox", 2, 3, fresh=False)
    target.reached = 3
    target.changes.upserts.append((name, 3, "from the dead"))
    await next_one.acquire(["build:said_1"])
    clock.now += 2
    await next_one.acquire(["build:said_1"])
    writer = Writer(pool, idle=1.0, lock=1.0)
    for token in (sleeper.held["build:said_1"], -1):
        with pytest.raises(LeasesLostError):
            await writer.write(Written([target]), {"said_1": token})
    assert [row[1] for row in await rows_of(pool, "said")] == [2]
    await writer.write(Written([target]), {"said_1": next_one.held["build:said_1"]})
    assert [row[1] for row in await rows_of(pool, "said")] == [2, 3]


async def test_a_holder_that_hangs_in_its_transaction(
    store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A runner stopped in the middle of writing, its locks held, is thrown out by the server, and another goes on."""
    names = await worlds(2)
    first, second = make_engine([Counts()]), make_engine([Counts()])
    await first.run_until_caught_up(timeout=100)
    stuck = asyncio.Event()

    # The first runner's next batch stops between two statements, as a stopped process does.
    async def hang(connection: Any, *_: Any) -> None:
        stuck.set()
        await asyncio.sleep(30)

    for name in names:
        await append(store, name, story(0, 10))
    with monkeypatch.context() as patch:
        patch.setattr("worldledger_service.projecting.batch._copy", hang)
        task = asyncio.get_running_loop().create_task(_steps(first))  # without beats: the whole process hangs
        await asyncio.wait_for(stuck.wait(), 10)
    async with running(second):
        for name in names:
            assert await second.wait_for("counts", name, 11, timeout=100) == 11
    task.cancel()
    await asyncio.wait([task])
    assert await rows_of(pool, "counts") == await expected_counts(store, names)


async def test_a_clock_that_jumps(store: Store, pool: Any, make_engine: Any, worlds: Any, running: Any) -> None:
    """Whatever a runner's clock does, each effect is fed once."""
    names = await worlds(3)
    clock = Clock()
    odd, other = make_engine(trio(), clock=clock), make_engine(trio())

    async def jump() -> None:
        while True:
            for step in (1e5, -2e5, 0.01, 3e9, -1e9):
                clock.now += step
                await asyncio.sleep(0.02)

    jumping = asyncio.get_running_loop().create_task(jump())
    async with running(odd), running(other):
        for n in range(8):
            for name in names:
                await append(store, name, story(n * 1000, 10))
            await asyncio.sleep(0.05)
        for which in ("counts", "said", "things"):
            for name in names:
                await other.wait_for(which, name, 81, timeout=100)
    jumping.cancel()
    await wait_for(lambda: _caught_up(other), "all is fed")
    await assert_equal_to_log(pool, store, names)


async def _steps(engine: Any) -> None:
    while True:
        await engine.step()


async def _caught_up(engine: Any) -> bool:
    await engine.run_until_caught_up(timeout=100)
    return True
