"""Priorities: the highest first, and age."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.runtime.scheduling import Priorities, Ticket


class Line:
    """A line whose tickets come when the test says; ageing takes a second for a step."""

    def __init__(self, ageing_s: float = 1.0) -> None:
        self.line: Priorities[Ticket] = Priorities(ageing_s)
        self.numbers = count(1)
        self.now = 100.0

    def add(self, agent_id: str, priority: int = 0, weight: int = 1) -> Ticket:
        """Let a ticket of the agent come."""
        ticket = Ticket(agent_id, priority, weight, number=next(self.numbers), since=self.now)
        self.line.add(ticket)
        return ticket

    def serve(self) -> Ticket | None:
        """Return the next its turn."""
        ticket = self.line.first(self.now)
        if ticket is not None:
            self.line.serve(ticket)
        return ticket

    def all(self) -> str:
        """Return the agents in the order in which they are served from now on."""
        return "".join(ticket.agent_id for ticket in iter(self.serve, None))


def test_higher_priorities_go_first() -> None:
    """Whenever they came; equals take turns."""
    line = Line()
    for agent, priority in [("a", 0), ("b", 5), ("c", -3), ("d", 5), ("b", 5)]:
        line.add(agent, priority)
    assert line.all() == "bdbac"
    assert line.serve() is None


def test_an_agent_s_own_tickets_go_by_priority_too() -> None:
    """Of one agent the urgent one is first."""
    line = Line()
    line.add("a", 0)
    urgent = line.add("a", 1)
    assert line.serve() is urgent


def test_what_has_waited_long_draws_level() -> None:
    """After a second for each step it is one of the highest, and the first of them as it has had no turn there."""
    line = Line()
    line.add("low", 0)
    for _ in range(8):
        line.add("high", 2)
    served = []
    for _ in range(4):
        served.append(line.serve())
        line.now += 1.0
    assert [ticket.agent_id for ticket in served if ticket] == ["high", "high", "low", "high"]


def test_it_draws_level_and_no_further() -> None:
    """An agent with an old backlog takes turns with one that has just come, at the same and at a higher priority."""
    line = Line()
    for _ in range(10):
        line.add("o", 0)
    line.now += 60.0
    for _ in range(3):
        line.add("n", 0)
        line.add("h", 1)
    assert line.all() == "ohohoho" + "nonono" + "ooo"


def test_the_longest_overdue_goes_first() -> None:
    """Of several that have aged, the one whose time to draw level came first."""
    line = Line()
    line.add("x", -1)  # level with 1 at 102.0
    line.now += 0.5
    line.add("y", 0)  # level with 1 at 101.5
    line.now += 10.0
    line.add("h", 1)
    assert line.all() == "yxh"


def test_without_ageing_nothing_ages() -> None:
    """With 0 the highest priority is first for ever."""
    line = Line(0.0)
    line.add("low", 0)
    line.now += 1e6
    line.add("h", 1)
    assert line.all() == "hlow"


def test_one_that_goes_away_is_not_served() -> None:
    """Discarded tickets leave their priority too, if they were its last."""
    line = Line()
    gone = [line.add("a", 7), line.add("b", 3)]
    line.add("c", 0)
    for ticket in gone:
        line.line.discard(ticket)
    assert len(line.line) == 1
    assert line.all() == "c"


@given(
    gap=st.integers(1, 3),
    rate=st.integers(2, 10),
    agents=st.integers(1, 3),
    low_agents=st.integers(1, 4),
    burst=st.integers(0, 20),
)
def test_nothing_starves(gap: int, rate: int, agents: int, low_agents: int, burst: int) -> None:
    """However many of a higher priority keep coming, a lower one has its turn soon after it has drawn level."""
    line = Line()
    for _ in range(burst):
        for n in range(agents):
            line.add(f"high-{n}", gap)
    low = {line.add(f"low-{n}", 0).number for n in range(low_agents)}
    started, waited = line.now, 0
    while low:
        for _ in range(rate):  # as many come as are served
            line.add(f"high-{waited % agents}", gap)
            ticket = line.serve()
            assert ticket is not None
            low.discard(ticket.number)
            waited += 1
        line.now += 1.0
        # Level after `gap` seconds; then each of the others goes before them at most once a round.
        assert line.now - started <= gap + 2 + (low_agents * (agents + low_agents)) / rate


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["add", "serve", "discard", "pass"]),
            st.sampled_from("abc"),
            st.integers(-2, 2),
            st.integers(1, 3),
        )
    ),
    st.sampled_from([0.0, 1.0]),
)
def test_the_rule_holds(steps: list[tuple[str, str, int, int]], ageing_s: float) -> None:
    """The next is of the highest priority, or has waited a step's time for each step below it; nothing is lost."""
    line = Line(ageing_s)
    here: list[Ticket] = []
    for step, agent, priority, weight in steps:
        if step == "add":
            here.append(line.add(agent, priority, weight))
        elif step == "pass":
            line.now += weight / 2
        elif here and step == "discard":
            line.line.discard(here.pop(len(here) // 2))
        elif here:
            ticket = line.serve()
            assert ticket is not None
            highest = max(each.priority for each in here)
            below = highest - ticket.priority
            if below:
                assert ageing_s
                assert line.now - ticket.since >= below * ageing_s
            assert all(
                each.number >= ticket.number
                for each in here
                if (each.agent_id, each.priority) == (ticket.agent_id, ticket.priority)
            )
            here.remove(ticket)
        assert len(line.line) == len(here)
    while here:
        ticket = line.serve()
        assert ticket is not None
        here.remove(ticket)
    assert line.serve() is None
