"""Fairness: weighted round-robin among agents."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.runtime.scheduling import RoundRobin, Ticket


class Line:
    """A round-robin whose tickets the test names."""

    def __init__(self) -> None:
        self.robin: RoundRobin[Ticket] = RoundRobin()
        self.numbers = count(1)

    def add(self, agent_id: str, weight: int = 1) -> Ticket:
        """Let a ticket of the agent come."""
        ticket = Ticket(agent_id, weight=weight, number=next(self.numbers))
        self.robin.add(ticket)
        return ticket

    def serve(self) -> str:
        """Return the next its turn, and say whose it is."""
        ticket = self.robin.first()
        self.robin.charge(ticket.agent_id, ticket.weight)
        self.robin.discard(ticket)
        return ticket.agent_id


def test_agents_take_turns() -> None:
    """However many tickets one agent has, another is served after its next."""
    line = Line()
    for agent in "aaaaabc":
        line.add(agent)
    assert "".join(line.serve() for _ in range(7)) == "abcaaaa"


def test_an_agent_s_tickets_keep_their_order() -> None:
    """First come, first served."""
    line = Line()
    tickets = [line.add("a") for _ in range(3)]
    for ticket in tickets:
        assert line.robin.first() is ticket
        line.serve()


def test_turns_are_in_proportion_to_weights() -> None:
    """An agent of weight 3 has three turns for one of weight 1."""
    line = Line()
    for _ in range(40):
        line.add("heavy", 3)
        line.add("light", 1)
    assert Counter(line.serve() for _ in range(40)) == {"heavy": 30, "light": 10}


def test_idling_saves_nothing_up() -> None:
    """An agent that comes late gets its share from then on, not what it has missed."""
    line = Line()
    for _ in range(60):
        line.add("early")
    for _ in range(30):
        line.serve()
    for _ in range(30):
        line.add("late")
    assert Counter(line.serve() for _ in range(20)) == {"early": 10, "late": 10}


def test_coming_back_each_time_gains_nothing() -> None:
    """An agent that submits its next only after its last had its turn is not served before those that queue."""
    line = Line()
    for _ in range(40):
        line.add("queuing")
    line.add("returning")
    served = Counter[str]()
    for _ in range(40):
        agent = line.serve()
        served[agent] += 1
        if agent == "returning":
            line.add(agent)
    assert served == {"queuing": 20, "returning": 20}


def test_one_that_goes_away_leaves_nothing_behind() -> None:
    """Discarded tickets are not served, and agents without tickets are forgotten once they are not ahead."""
    line = Line()
    tickets = [line.add(agent) for agent in "abab"]
    for ticket in tickets:
        line.robin.discard(ticket)
    assert len(line.robin) == 0
    assert line.robin.agents == 0
    for n in range(100):
        line.add(f"agent-{n}")
        line.add("all the time")
        line.serve()
        line.serve()
    assert line.robin.agents <= 5


def test_coming_and_going_costs_no_turn() -> None:
    """Tickets that are taken back are not counted as turns."""
    line = Line()
    for _ in range(10):
        line.robin.discard(line.add("a"))
        line.add("b")
    line.add("a")
    assert line.serve() == "b"
    assert line.serve() == "a"


def test_a_weight_below_one_is_refused() -> None:
    """No agent can be told never to be served."""
    with pytest.raises(ValueError, match="at least 1"):
        Ticket("a", weight=0)


@given(
    weights=st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 9), min_size=2),
    turns=st.integers(1, 120),
)
def test_shares_are_never_further_apart_than_a_turn(weights: dict[str, int], turns: int) -> None:
    """Of agents that wait all the time: turns a, b and weights v, w keep |a/v - b/w| <= 1/v + 1/w at any moment."""
    line = Line()
    for agent, weight in weights.items():
        line.add(agent, weight)
    served = dict.fromkeys(weights, 0)
    for _ in range(turns):
        agent = line.serve()
        served[agent] += 1
        line.add(agent, weights[agent])
        for one, v in weights.items():
            for two, w in weights.items():
                assert abs(served[one] / v - served[two] / w) <= 1 / v + 1 / w + 1e-9


@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "discard", "serve", "guest"]), st.sampled_from("abcd"), st.integers(1, 3))
    )
)
def test_every_ticket_is_served_or_discarded_once(steps: list[tuple[str, str, int]]) -> None:
    """Whatever happens, the line holds exactly what came and has not gone, and gives all of it in the end."""
    line = Line()
    here: list[Ticket] = []
    for step, agent, weight in steps:
        if step == "add":
            here.append(line.add(agent, weight))
        elif step == "guest":
            guest = Ticket(agent, weight=weight, number=next(line.numbers))
            if here and line.robin.rank(guest) < line.robin.rank(line.robin.first()):
                line.robin.charge(agent, weight)
        elif here and step == "discard":
            line.robin.discard(here.pop(len(here) // 2))
        elif here:
            here.remove(line.robin.first())
            line.serve()
        assert len(line.robin) == len(here)
        if here:
            assert line.robin.oldest() is here[0]
            assert line.robin.rank(line.robin.first()) == min(line.robin.rank(ticket) for ticket in here)
    while here:
        here.remove(line.robin.first())
        line.serve()
    assert len(line.robin) == 0
