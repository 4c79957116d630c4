"""Requests that are made once: joined while they are in flight, remembered afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.runtime.admission import Requests

from tests.aio.virtual import at_once, settle, virtual
from worldledger.errors import RequestConflictError, StaleContextError

KEY = ("ann", "r1")


class Answer(NamedTuple):
    """What a request is answered with."""

    global_seq: int
    replayed: bool = False


def requests(limit: int = 100) -> Requests[Answer]:
    """Make a memory of requests whose answers say whether they are replays."""
    return Requests(limit, replay=lambda answer: answer._replace(replayed=True))


class Making:
    """Makes requests when the test says so."""

    def __init__(self) -> None:
        self.made = 0
        self.go = asyncio.Event()
        self.outcome: Answer | Exception = Answer(7)

    async def __call__(self) -> Answer:
        """Make the request."""
        self.made += 1
        await self.go.wait()
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def making(answer: Answer) -> Callable[[], Awaitable[Answer]]:
    """Return what makes a request at once."""

    async def make() -> Answer:
        return answer

    return make


def test_a_first_request_is_made_at_once() -> None:
    """Joining adds no turn of the event loop to what is made."""
    on = requests()
    assert at_once(on.join(KEY, b"x", making(Answer(7)))) == Answer(7)
    assert on.in_flight == 0


def test_the_same_request_again_gives_the_same_answer() -> None:
    """As a replay, and nothing is made."""
    on = requests()
    at_once(on.join(KEY, b"x", making(Answer(7))))
    assert at_once(on.join(KEY, b"x", making(Answer(8)))) == Answer(7, replayed=True)
    assert on.known(KEY) == on.known(KEY, b"x") == Answer(7, replayed=True)


def test_another_body_is_a_conflict() -> None:
    """The error names the request and the effect of the first."""
    on = requests()
    at_once(on.join(KEY, b"x", making(Answer(7))))
    with pytest.raises(RequestConflictError) as caught:
        at_once(on.join(KEY, b"y", making(Answer(8))))
    assert caught.value.details == {"req_id": "r1", "global_seq": 7}
    with pytest.raises(RequestConflictError):
        on.known(KEY, b"y")


def test_agents_do_not_share_req_ids() -> None:
    """The same req_id of another agent is another request."""
    on = requests()
    at_once(on.join(("ann", "r1"), b"x", making(Answer(7))))
    assert on.known(("bob", "r1")) is None
    assert at_once(on.join(("bob", "r1"), b"y", making(Answer(8)))) == Answer(8)


@virtual
async def test_the_same_request_in_flight_is_joined() -> None:
    """It is made once, and all get its answer."""
    on, make = requests(), Making()
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(4)]
    await settle()
    assert on.in_flight == 1
    make.go.set()
    assert await asyncio.gather(*tasks) == [Answer(7)] + [Answer(7, replayed=True)] * 3
    assert make.made == 1
    assert on.in_flight == 0


@virtual
async def test_another_body_in_flight_is_a_conflict() -> None:
    """At once, and the one in flight is not disturbed."""
    on, make = requests(), Making()
    task = asyncio.ensure_future(on.join(KEY, b"x", make))
    await settle()
    with pytest.raises(RequestConflictError):
        at_once(on.join(KEY, b"y", make))
    make.go.set()
    assert await task == Answer(7)


@virtual
async def test_an_error_is_shared_and_forgotten() -> None:
    """All who joined get it; who comes later makes the request anew."""
    on, make = requests(), Making()
    make.outcome = StaleContextError("r1", 9, 7)
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(3)]
    await settle()
    make.go.set()
    assert await asyncio.gather(*tasks, return_exceptions=True) == [make.outcome] * 3
    assert on.known(KEY) is None
    assert await on.join(KEY, b"changed", making(Answer(8))) == Answer(8)


@virtual
async def test_when_the_maker_goes_away_another_goes_on() -> None:
    """The next of those who joined makes the request in its place, and the others get that answer."""
    on, make = requests(), Making()
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(4)]
    await settle()
    tasks[0].cancel()
    tasks[1].cancel()  # it would have been the next
    await settle()
    assert make.made == 2
    make.go.set()
    assert [await task for task in tasks[2:]] == [Answer(7), Answer(7, replayed=True)]


@virtual
async def test_one_that_was_just_told_to_go_on_may_go_away_too() -> None:
    """It hands over to the next, or to nobody."""
    on, make = requests(), Making()
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(3)]
    await settle()
    tasks[0].cancel()
    await asyncio.sleep(0)  # now the second is to go on, but has not run
    tasks[1].cancel()
    await settle()
    assert make.made == 2
    tasks[2].cancel()
    await settle()
    assert on.in_flight == 0
    assert all(task.cancelled() for task in tasks)


@virtual
async def test_one_who_joined_may_go_away() -> None:
    """Nothing of it is left, and nobody is disturbed."""
    on, make = requests(), Making()
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(3)]
    await settle()
    tasks[1].cancel()
    await settle()
    assert len(on._flights[KEY].joined) == 1
    make.go.set()
    assert [await tasks[0], await tasks[2]] == [Answer(7), Answer(7, replayed=True)]
    assert make.made == 1


@virtual
async def test_one_who_joined_may_go_away_at_the_last_moment() -> None:
    """When the answer is there, but has not reached it."""
    on, make = requests(), Making()
    tasks = [asyncio.ensure_future(on.join(KEY, b"x", make)) for _ in range(3)]
    await settle()
    make.go.set()
    tasks[1].cancel()
    assert [await tasks[0], await tasks[2]] == [Answer(7), Answer(7, replayed=True)]
    assert tasks[1].cancelled()


def test_the_memory_is_bounded() -> None:
    """Of the answers, those asked for least recently are forgotten."""
    on = requests(limit=3)
    for n in range(3):
        on.remember(("ann", f"r{n}"), b"x", Answer(n))
    on.known(("ann", "r0"))
    on.remember(("ann", "r3"), b"x", Answer(3))
    assert len(on) == 3
    assert [on.known(("ann", f"r{n}")) is None for n in range(4)] == [False, True, False, False]


def test_a_memory_of_nothing_remembers_nothing() -> None:
    """Still, what is in flight is joined."""
    on = requests(limit=0)
    at_once(on.join(KEY, b"x", making(Answer(7))))
    assert len(on) == 0
    assert at_once(on.join(KEY, b"x", making(Answer(8)))) == Answer(8)


@given(st.lists(st.sampled_from(["ask", "other", "cancel", "finish", "fail"]), max_size=30), st.randoms())
@virtual
async def test_one_at_a_time_and_nobody_is_left_waiting(steps: list[str], random: Any) -> None:
    """Callers, cancellations and outcomes in any order: never two in the making, and everybody gets an answer."""
    on = requests()
    making_now = 0
    waiting: list[asyncio.Future[Answer]] = []
    tasks: list[asyncio.Task[Answer]] = []
    first: Answer | None = None

    async def make() -> Answer:
        nonlocal making_now
        making_now += 1
        assert making_now == 1
        waiting.append(asyncio.get_running_loop().create_future())
        try:
            return await waiting[-1]
        finally:
            making_now -= 1

    for number, step in enumerate(steps):
        if step in {"ask", "other"}:
            tasks.append(asyncio.ensure_future(on.join(KEY, b"x" if step == "ask" else b"y", make)))
        elif step == "cancel" and tasks:
            random.choice(tasks).cancel()
        elif step in {"finish", "fail"} and waiting and not waiting[-1].done():
            if step == "fail":
                waiting[-1].set_exception(StaleContextError("r1", 1, 0))
            else:
                waiting[-1].set_result(Answer(number))
        if random.random() < 0.6:
            await settle()
    while not all(task.done() for task in tasks):
        if waiting and not waiting[-1].done():
            waiting[-1].set_result(Answer(99))
        await settle()
    for task in tasks:
        if not task.cancelled() and task.exception() is None:
            first = first or task.result()._replace(replayed=False)
            assert task.result()._replace(replayed=False) == first
    assert on.in_flight == 0
    assert making_now == 0
    for future in waiting:
        if not future.cancelled():
            future.exception()
