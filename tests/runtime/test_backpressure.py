"""Backpressure: bounds, and what waits for room."""

from __future__ import annotations

from itertools import count
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.runtime.scheduling import Backpressure, Ticket

from worldledger.config import OrchestratorConfig

_numbers = count(1)


def pressure(most: int, per_agent: int, **config: Any) -> Backpressure[Ticket]:
    """Make the stage with these bounds."""
    return Backpressure(OrchestratorConfig(max_pending=most, max_pending_per_agent=per_agent, **config))


def ticket(agent_id: str) -> Ticket:
    """Make a ticket that comes after all before."""
    return Ticket(agent_id, number=next(_numbers))


def entered(on: Backpressure[Ticket], *agents: str) -> list[Ticket]:
    """Let a ticket of each agent in."""
    tickets = [ticket(agent) for agent in agents]
    for each in tickets:
        assert on.has_room(each.agent_id)
        on.enter(each)
    return tickets


def readmitted(on: Backpressure[Ticket]) -> str:
    """Let in who may come in, and give whose they are."""
    agents = ""
    while (found := on.readmit()) is not None:
        on.enter(found)
        agents += found.agent_id
    return agents


def test_the_world_has_a_bound() -> None:
    """When it is full there is room for nobody, until somebody leaves."""
    on = pressure(2, 2)
    first, _ = entered(on, "a", "b")
    assert not on.has_room("c")
    on.leave(first)
    assert on.has_room("c")


def test_each_agent_has_a_bound() -> None:
    """An agent at its own has no room; others have."""
    on = pressure(9, 2)
    entered(on, "a", "a")
    assert not on.has_room("a")
    assert on.has_room("b")


def test_who_has_to_go_for_a_newer_one() -> None:
    """The agent's own oldest where its bound is reached, else the world's oldest."""
    on = pressure(3, 2)
    b, a, _ = entered(on, "b", "a", "a")
    assert on.oldest("a") is a
    assert on.oldest("c") is b


def test_room_goes_round_those_that_wait() -> None:
    """An agent with many deferred ones does not keep the others out."""
    on = pressure(3, 3)
    here = entered(on, "x", "x", "x")
    for agent in "aaabc":
        on.defer(ticket(agent))
    assert on.deferred == 5
    for each in here:
        on.leave(each)
    assert readmitted(on) == "abc"
    assert on.deferred == 2


def test_nobody_overtakes_its_own_deferred_ones() -> None:
    """A newer ticket of an agent finds no room while an older one waits for it."""
    on = pressure(9, 1)
    (first,) = entered(on, "a")
    second = ticket("a")
    on.defer(second)
    on.leave(first)
    assert not on.has_room("a")
    assert on.readmit() is second


def test_an_agent_at_its_bound_keeps_no_room_from_others() -> None:
    """Room in the world goes to those that are below their own bounds."""
    on = pressure(3, 2)
    here = entered(on, "a", "a", "b")
    for agent in "aac":
        on.defer(ticket(agent))
    on.leave(here[2])
    assert readmitted(on) == "c"
    on.leave(here[0])
    assert readmitted(on) == "a"


def test_room_goes_to_an_agent_up_to_its_bound() -> None:
    """However much room there is in the world."""
    on = pressure(9, 1)
    (first,) = entered(on, "a")
    for agent in "aab":
        on.defer(ticket(agent))
    on.leave(first)
    assert readmitted(on) == "ba"
    assert on.deferred == 1


def test_one_that_waits_no_more_is_forgotten() -> None:
    """It gets no room, and nothing is left of it; one that is given up when it was to come in blocks nobody."""
    on = pressure(9, 1)
    (first,) = entered(on, "a")
    waiting = [ticket("a") for _ in range(3)]
    for each in waiting:
        on.defer(each)
    on.forget(waiting[0])
    on.leave(first)
    assert on.readmit() is waiting[1]  # and it has gone away just now: it does not come in
    assert on.readmit() is waiting[2]
    assert on.deferred == 0
    assert on.readmit() is None


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.sampled_from(["come", "come", "come", "leave", "forget", "lost"]), st.sampled_from("abc")),
        max_size=40,
    ),
)
def test_bounds_hold_and_room_is_used(most: int, per_agent: int, steps: list[tuple[str, str]]) -> None:
    """Whatever happens: never more than the bounds, in order for each agent, and nobody waits who has room."""
    on = pressure(most, per_agent)
    here: list[Ticket] = []
    waiting: list[Ticket] = []
    last: dict[str, int] = {}

    def came(each: Ticket) -> None:
        on.enter(each)
        here.append(each)
        assert last.get(each.agent_id, 0) < each.number
        last[each.agent_id] = each.number

    for step, agent in steps:
        if step == "come":
            each = ticket(agent)
            if on.has_room(agent):
                came(each)
            else:
                on.defer(each)
                waiting.append(each)
        elif step == "leave" and here:
            on.leave(here.pop(len(here) // 2))
        elif step == "forget" and waiting:
            on.forget(waiting.pop(len(waiting) // 2))
        elif step == "lost" and here:
            on.leave(here.pop(0))
            gone = on.readmit()
            if gone is not None:
                waiting.remove(gone)
        while (found := on.readmit()) is not None:
            waiting.remove(found)
            came(found)
        assert len(on) == len(here) <= most
        assert on.deferred == len(waiting)
        counts = {name: sum(each.agent_id == name for each in here) for name in "abc"}
        assert max(counts.values()) <= per_agent
        if len(here) < most:
            assert all(counts[each.agent_id] == per_agent for each in waiting)
