"""Priority, the stage before fairness: the highest that waits is first, and what has waited long counts as higher."""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import Generic

from worldledger_service.runtime.fairness import RoundRobin, W


class _Level(Generic[W]):
    """The tickets of one priority, and the key of the one that has waited longest."""

    __slots__ = ("age", "robin")

    def __init__(self) -> None:
        self.robin: RoundRobin[W] = RoundRobin()
        self.age: tuple[float, int] | None = None


class Priorities(Generic[W]):
    """All tickets that wait for a turn.

    Next is, of the agents that wait at the highest priority, the one that has had least for its weight. A ticket of a
    lower priority that has waited ``ageing_s`` seconds for each step between competes with them as one of theirs (the
    one that is longest overdue, where there are several). So it comes to its turn, however many of the highest there
    are; and since it can only draw level, no backlog, however old, takes precedence over what others bring at the same
    priority. With ``ageing_s`` 0 nothing ages.

    A step costs the logarithm of the numbers of agents and of different priorities.
    """

    def __init__(self, ageing_s: float) -> None:
        self._ageing_s = ageing_s
        self._levels: dict[int, _Level[W]] = {}
        self._order: list[int] = []
        #: (since - priority * ageing_s, priority) of each level's oldest ticket: the order in which they are overdue
        self._ages: list[tuple[float, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, ticket: W) -> None:
        """Take in a ticket that has arrived after all that are here."""
        level = self._levels.get(ticket.priority)
        if level is None:
            level = self._levels[ticket.priority] = _Level()
            insort(self._order, ticket.priority)
        level.robin.add(ticket)
        self._count += 1
        self._note_age(ticket.priority, level)

    def discard(self, ticket: W) -> None:
        """Let a ticket go that is here, without its having had a turn."""
        level = self._levels[ticket.priority]
        level.robin.discard(ticket)
        self._count -= 1
        self._note_age(ticket.priority, level)
        if not level.robin:
            del self._levels[ticket.priority]
            del self._order[bisect_left(self._order, ticket.priority)]

    def first(self, now: float) -> W | None:
        """Return the ticket that is next, or None if nothing waits."""
        if not self._order:
            return None
        highest = self._order[-1]
        robin = self._levels[highest].robin
        ticket = robin.first()
        if self._ageing_s and len(self._order) > 1:
            overdue, priority = self._ages[0] if self._ages[0][1] != highest else self._ages[1]
            if overdue <= now - highest * self._ageing_s:
                guest = self._levels[priority].robin.oldest()
                if robin.rank(guest) < robin.rank(ticket):
                    return guest
        return ticket

    def serve(self, ticket: W) -> None:
        """Take out the ticket that `first` gave: it has its turn, which counts at the highest priority that waits."""
        self._levels[self._order[-1]].robin.charge(ticket.agent_id, ticket.weight)
        self.discard(ticket)

    def _note_age(self, priority: int, level: _Level[W]) -> None:
        """Keep the order of the overdue, after a level's oldest ticket may have changed."""
        if not self._ageing_s:
            return
        age = (level.robin.oldest().since - priority * self._ageing_s, priority) if level.robin else None
        if age == level.age:
            return
        if level.age is not None:
            del self._ages[bisect_left(self._ages, level.age)]
        if age is not None:
            insort(self._ages, age)
        level.age = age
