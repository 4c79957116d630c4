"""Turns: the stages put together, and those who wait."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_service.runtime.scheduling import Scheduler

from tests.aio.virtual import at_once, loop, settle, virtual
from worldledger.config import OrchestratorConfig
from worldledger.errors import BackpressureError, DeadlineExceededError, RecoveryAction, SimulationError


class World:
    """A scheduler, and callers whose turns take some time of the loop's clock."""

    def __init__(self, **config: Any) -> None:
        self.scheduler = Scheduler(OrchestratorConfig(**config), loop().time)
        #: the callers in the order of their turns
        self.order: list[str] = []
        self.most = 0

    def submit(
        self, name: str, agent_id: str, priority: int = 0, takes: float = 1.0, **more: Any
    ) -> asyncio.Task[float]:
        """Let a caller come; its result is when its turn began."""
        return asyncio.ensure_future(self._caller(name, agent_id, priority, takes, more))

    async def _caller(self, name: str, agent_id: str, priority: int, takes: float, more: dict[str, Any]) -> float:
        async with self.scheduler.turn(agent_id, priority, **more):
            self.order.append(name)
            self.most = max(self.most, self.scheduler.in_flight)
            began = loop().time()
            await asyncio.sleep(takes)
            return began

    def assert_idle(self) -> None:
        """Nobody is left, nor anything of anybody."""
        assert (self.scheduler.in_flight, self.scheduler.waiting, self.scheduler.deferred) == (0, 0, 0)
        assert loop().timers == 0


async def errors_of(tasks: list[asyncio.Task[float]]) -> list[type[BaseException] | None]:
    """Wait for all; return the type of each one's error, or None."""
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [type(result) if isinstance(result, BaseException) else None for result in results]


# -- turns -------------------------------------------------------------------------------------------------


@virtual
async def test_with_room_a_turn_begins_at_once() -> None:
    """Nothing yields to the event loop, neither when it begins nor when it ends."""
    scheduler = Scheduler(OrchestratorConfig(), loop().time)

    async def several() -> int:
        async with scheduler.turn("a"), scheduler.turn("a", 5, 2, deadline_at=9.0):
            return scheduler.in_flight

    assert at_once(several()) == 2
    assert scheduler.in_flight == 0


@virtual
async def test_no_more_than_max_in_flight_have_their_turns() -> None:
    """The others wait, and have theirs as soon as one ends."""
    world = World(max_in_flight=3)
    tasks = [world.submit(str(n), f"agent-{n}") for n in range(10)]
    await settle()
    assert (world.scheduler.in_flight, world.scheduler.waiting) == (3, 7)
    assert await asyncio.gather(*tasks) == [0.0] * 3 + [1.0] * 3 + [2.0] * 3 + [3.0]
    assert world.most == 3
    world.assert_idle()


@virtual
async def test_a_turn_that_fails_ends_too() -> None:
    """An error in the block passes through, and the next has its turn."""
    scheduler = Scheduler(OrchestratorConfig(max_in_flight=1), loop().time)
    with pytest.raises(ZeroDivisionError):
        async with scheduler.turn("a"):
            raise ZeroDivisionError
    assert scheduler.in_flight == 0


@virtual
async def test_nobody_overtakes_those_who_wait() -> None:
    """One who comes when a turn ends does not take it from the one who has waited."""
    world = World(max_in_flight=1)
    first = world.submit("first", "a")
    await settle()
    waiting = world.submit("waiting", "b")
    await first
    late = world.submit("late", "c")
    await asyncio.gather(waiting, late)
    assert world.order == ["first", "waiting", "late"]


@virtual
async def test_nobody_overtakes_those_who_were_woken() -> None:
    """One who comes when there is room again, but those woken have not run yet, has a turn behind them."""
    world = World(max_in_flight=3)
    scheduler = world.scheduler
    for _ in range(3):
        assert scheduler.try_begin(scheduler.turn("a"))
    woken = [world.submit("first", "b"), world.submit("second", "b")]
    await settle()
    for _ in range(3):
        scheduler.end()
    late = world.submit("late", "b")

    async def at_once() -> None:
        async with scheduler.turn("b"):
            world.order.append("latest")

    await at_once()
    await asyncio.gather(*woken, late)
    assert world.order[:2] == ["first", "second"]
    assert sorted(world.order[2:]) == ["late", "latest"]
    world.assert_idle()


@virtual
async def test_the_next_is_chosen_by_priority_then_fairness() -> None:
    """The urgent first; then agents in turn, by weight, then by arrival."""
    world = World(max_in_flight=1, ageing_ms=0.0)
    tasks = [world.submit("0", "x")]
    await settle()
    for name in ["a1", "a2", "a3", "a4", "b1", "b2"]:
        tasks.append(world.submit(name, name[0], weight=2 if name[0] == "b" else 1))
    tasks.append(world.submit("urgent", "a", 1))
    await asyncio.gather(*tasks)
    assert world.order == ["0", "urgent", "a1", "b1", "b2", "a2", "a3", "a4"]


@virtual
async def test_what_waits_long_has_its_turn() -> None:
    """Under a stream of urgent ones that never ends, a low one is served when it has aged."""
    world = World(max_in_flight=1, ageing_ms=1000.0)
    tasks = [world.submit("high", "h", 3) for _ in range(3)]
    low = world.submit("low", "l", 0)
    while not low.done():
        tasks.append(world.submit("high", "h", 3))
        await asyncio.sleep(1.0)
        assert loop().time() < 10.0
    assert 3.0 <= await low <= 5.0
    await asyncio.gather(*tasks)


# -- no room -----------------------------------------------------------------------------------------------


@virtual
async def test_drop_newest_refuses_the_newest() -> None:
    """Over a bound the newest is refused at once; those who wait are served."""
    world = World(max_in_flight=1, max_pending=3, max_pending_per_agent=2, backpressure_policy="drop_newest")
    tasks = [world.submit(f"{n}{agent}", agent) for n, agent in enumerate("xaaabb")]
    await settle()
    assert world.scheduler.waiting == 3
    dropped = [task.exception() for task in (tasks[3], tasks[5])]
    for agent_id, error in zip("ab", dropped, strict=True):
        assert isinstance(error, BackpressureError)
        assert (error.agent_id, error.policy) == (agent_id, "drop_newest")
        assert error.recovery is RecoveryAction.RETRY_WITH_DELAY
    await errors_of(tasks)
    assert world.order == ["0x", "1a", "4b", "2a"]
    world.assert_idle()


@virtual
async def test_shed_oldest_lets_the_longest_waiting_go() -> None:
    """Of the same agent at its own bound, of the world at the world's."""
    world = World(max_in_flight=1, max_pending=3, max_pending_per_agent=2, backpressure_policy="shed_oldest")
    tasks = [world.submit(f"{n}{agent}", agent) for n, agent in enumerate("xbaaac")]
    await settle()
    assert world.scheduler.waiting == 3
    shed = [task.exception() for task in tasks if task.done()]
    assert [error.agent_id for error in shed if isinstance(error, BackpressureError)] == ["b", "a"]
    assert {error.recovery for error in shed if isinstance(error, BackpressureError)} == {RecoveryAction.SHED_OLDEST}
    await errors_of(tasks)
    assert world.order == ["0x", "3a", "5c", "4a"]
    world.assert_idle()


@virtual
async def test_defer_waits_for_room() -> None:
    """Nobody is refused: over the bounds callers wait for room, in order, and agents take turns."""
    world = World(max_in_flight=1, max_pending=3, max_pending_per_agent=2)
    tasks = [world.submit(f"{agent}{n}", agent) for n, agent in enumerate("xaaaabbb")]
    await settle()
    assert (world.scheduler.waiting, world.scheduler.deferred) == (3, 4)
    assert await errors_of(tasks) == [None] * 8
    assert [name for name in world.order if name[0] == "a"] == ["a1", "a2", "a3", "a4"]
    assert [name for name in world.order if name[0] == "b"] == ["b5", "b6", "b7"]
    assert world.order.index("b7") < world.order.index("a4")
    world.assert_idle()


# -- deadlines ---------------------------------------------------------------------------------------------


@virtual
async def test_a_deadline_that_passed_is_refused() -> None:
    """Also when there is room."""
    scheduler = Scheduler(OrchestratorConfig(deadline_ms=250.0), loop().time)
    await asyncio.sleep(1.0)
    with pytest.raises(DeadlineExceededError) as caught:
        async with scheduler.turn("a", deadline_at=1.0, req_id="r1"):
            pass
    assert (caught.value.req_id, caught.value.deadline_ms) == ("r1", 250.0)
    assert scheduler.in_flight == 0


@virtual
@pytest.mark.parametrize("policy", ["defer", "shed_oldest"])
async def test_a_deadline_that_passes_in_waiting_ends_it(policy: str) -> None:
    """At its time, in the line as well as before it; the others go on as if it had never come."""
    world = World(max_in_flight=1, max_pending=1 if policy == "defer" else 9, backpressure_policy=policy)
    tasks = [world.submit("0", "a", takes=10.0), world.submit("1", "a"), world.submit("2", "a", deadline_at=3.0)]
    tasks.append(world.submit("3", "a"))
    with pytest.raises(DeadlineExceededError) as caught:
        await tasks[2]
    assert loop().time() == 3.0
    assert caught.value.deadline_ms == 3000.0
    assert await errors_of(tasks) == [None, None, DeadlineExceededError, None]
    assert world.order == ["0", "1", "3"]
    world.assert_idle()


@virtual
async def test_a_deadline_does_not_end_a_turn() -> None:
    """It is for waiting: who has begun in time is not stopped."""
    world = World(max_in_flight=1)
    tasks = [world.submit("0", "a"), world.submit("1", "a", takes=5.0, deadline_at=1.5)]
    assert await asyncio.gather(*tasks) == [0.0, 1.0]
    world.assert_idle()


# -- going away --------------------------------------------------------------------------------------------


@virtual
async def test_cancelled_waiters_leave_nothing_behind() -> None:
    """In the line, before it, and just when their turn has come: the others are served, and nothing is left."""
    world = World(max_in_flight=1, max_pending=3)
    async with world.scheduler.turn("x"):
        tasks = [world.submit(str(n), f"agent-{n}", deadline_at=100.0) for n in range(8)]
        await settle()
        for n in (1, 5):
            tasks[n].cancel()
        await settle()
        assert (world.scheduler.waiting, world.scheduler.deferred) == (3, 3)
    tasks[0].cancel()  # its turn has come, but it has not run yet
    assert await errors_of(tasks) == [asyncio.CancelledError if n in {0, 1, 5} else None for n in range(8)]
    assert world.order == ["2", "3", "4", "6", "7"]
    world.assert_idle()


@virtual
async def test_one_cancelled_as_it_is_chosen_costs_its_agent_no_turn() -> None:
    """Callers that go away all at once, just before a turn ends, do not count as served."""
    world = World(max_in_flight=1)
    first = world.submit("first", "x")
    await settle()
    gone = [world.submit("gone", "a") for _ in range(20)]
    await settle()
    rest = [world.submit(f"{agent}{n}", agent) for n in range(4) for agent in "ba"]
    await settle()
    loop().call_at(1.0, lambda: [task.cancel() for task in gone])  # set after the turn's own end: the same moment
    await errors_of([first, *gone, *rest])
    assert Counter(name[0] for name in world.order[1:5]) == {"a": 2, "b": 2}
    assert "gone" not in world.order
    world.assert_idle()


# -- many --------------------------------------------------------------------------------------------------


@virtual
async def test_ten_thousand_at_once() -> None:
    """All are served, no more at once than may be, and in fair order."""
    world = World(max_in_flight=10)
    tasks = [world.submit(f"{n % 100}", f"agent-{n % 100}", takes=0.001) for n in range(10_000)]
    await settle()
    assert (world.scheduler.waiting, world.scheduler.deferred) == (9_990, 0)
    assert set(await errors_of(tasks)) == {None}
    assert set(Counter(world.order[10:5010]).values()) == {50}
    assert world.most == 10
    world.assert_idle()


@settings(max_examples=60)
@given(
    policy=st.sampled_from(["defer", "shed_oldest", "drop_newest"]),
    bounds=st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 3)),
    callers=st.lists(
        st.tuples(
            st.sampled_from("abc"),
            st.integers(-1, 1),
            st.integers(0, 3),
            st.none() | st.integers(0, 8),
            st.none() | st.integers(0, 8),
        ),
        max_size=25,
    ),
)
@virtual
async def test_everybody_gets_a_turn_or_an_answer(
    policy: str,
    bounds: tuple[int, int, int],
    callers: list[tuple[str, int, int, int | None, int | None]],
) -> None:
    """Whatever comes, goes away and takes time: the bounds hold, everybody is told, and nothing is left behind."""
    most, pending, per_agent = bounds
    world = World(
        max_in_flight=most,
        max_pending=pending,
        max_pending_per_agent=per_agent,
        backpressure_policy=policy,
        ageing_ms=1000.0,
    )
    tasks = []
    for number, (agent_id, priority, takes, deadline_at, gives_up_at) in enumerate(callers):
        task = world.submit(
            str(number), agent_id, priority, float(takes), weight=1 + number % 3, deadline_at=deadline_at
        )
        if gives_up_at is not None:
            loop().call_at(max(loop().time(), gives_up_at), task.cancel)
        tasks.append(task)
        if number % 4 == 3:
            await asyncio.sleep(0.5)
        else:
            await settle()
        assert world.scheduler.waiting <= pending
        if world.scheduler.in_flight < most:
            assert world.scheduler.waiting == 0
        assert world.scheduler.deferred == 0 or policy == "defer"
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result, (_, _, _, deadline_at, gives_up_at) in zip(results, callers, strict=True):
        if isinstance(result, asyncio.CancelledError):
            assert gives_up_at is not None
        elif isinstance(result, DeadlineExceededError):
            assert deadline_at is not None
        elif isinstance(result, SimulationError):
            assert isinstance(result, BackpressureError)
            assert result.policy == policy != "defer"
        else:
            assert isinstance(result, float)
            assert deadline_at is None or result <= deadline_at + 0.0011
    assert world.most <= most
    await asyncio.sleep(10.0)
    world.assert_idle()
