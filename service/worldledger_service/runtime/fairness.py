"""Fairness, the last stage before a turn: weighted round-robin among the agents that wait at one priority.

Each agent has a virtual time, its turns divided by its weight, and the agent that is furthest behind is next
(start-time fair queueing). An agent that comes back begins at the present virtual time: idling saves nothing up.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections import OrderedDict
from typing import Generic, TypeVar


class Ticket:
    """What waits for a turn: whose it is, its priority, and its agent's weight (1 or more).

    ``number`` (order of arrival, unique) and ``since`` (seconds of some clock) are those of its coming into the line.
    """

    __slots__ = ("agent_id", "number", "priority", "since", "weight")

    def __init__(
        self, agent_id: str, priority: int = 0, weight: int = 1, *, number: int = 0, since: float = 0.0
    ) -> None:
        if weight < 1:
            raise ValueError(f"the weight of agent {agent_id!r} is {weight}; at least 1 is needed")
        self.agent_id = agent_id
        self.priority = priority
        self.weight = weight
        self.number = number
        self.since = since


W = TypeVar("W", bound=Ticket)


class _Lane(Generic[W]):
    """One agent: its waiting tickets by arrival, and its virtual time, which is never behind that of the whole."""

    __slots__ = ("listed", "place", "tickets", "time")

    def __init__(self, time: float) -> None:
        self.time = time
        #: the time with which it was last listed among those ahead
        self.listed: float | None = None
        self.tickets: OrderedDict[int, W] = OrderedDict()
        #: where it stands in the order, while tickets wait
        self.place: tuple[float, int, str] | None = None


class RoundRobin(Generic[W]):
    """The tickets of one priority.

    Of two agents that wait all the time, with a and b turns and weights v and w, ``|a/v - b/w| <= 1/v + 1/w`` holds at
    any time. Equals are served by arrival, and so are an agent's own tickets. Each step costs the logarithm of the
    number of agents.
    """

    def __init__(self) -> None:
        self._time = 0.0
        self._tickets: OrderedDict[int, W] = OrderedDict()
        self._lanes: dict[str, _Lane[W]] = {}
        #: (virtual time, number of the first ticket, agent) of each agent that waits
        self._order: list[tuple[float, int, str]] = []
        #: (virtual time, agent) of those that do not wait and are still ahead of the others
        self._ahead: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def agents(self) -> int:
        """How many agents are known: those that wait, and those that have just had turns."""
        return len(self._lanes)

    def add(self, ticket: W) -> None:
        """Take in a ticket that has arrived after all that are here."""
        lane = self._lane(ticket.agent_id)
        lane.tickets[ticket.number] = ticket
        self._tickets[ticket.number] = ticket
        if lane.place is None:
            self._arrange(ticket.agent_id, lane)

    def discard(self, ticket: W) -> None:
        """Let a ticket go that is here, without its having had a turn."""
        del self._tickets[ticket.number]
        lane = self._lanes[ticket.agent_id]
        del lane.tickets[ticket.number]
        self._arrange(ticket.agent_id, lane)

    def first(self) -> W:
        """Return the ticket that is next. Raises IndexError if there is none."""
        lane = self._lanes[self._order[0][2]]
        return next(iter(lane.tickets.values()))

    def oldest(self) -> W:
        """Return the ticket that has waited longest. Raises StopIteration if there is none."""
        return next(iter(self._tickets.values()))

    def rank(self, ticket: Ticket) -> tuple[float, int]:
        """Return the place of a ticket, of this priority or not, if it were its agent's first here; lower is first."""
        lane = self._lanes.get(ticket.agent_id)
        return (self._time if lane is None else lane.time, ticket.number)

    def charge(self, agent_id: str, weight: int) -> None:
        """Take note that an agent, of this priority or not, has had a turn here; by its `rank` it was next."""
        lane = self._lane(agent_id)
        self._time = lane.time
        lane.time += 1.0 / weight
        self._arrange(agent_id, lane)
        while self._ahead and self._ahead[0][0] <= self._time:
            idle = heapq.heappop(self._ahead)[1]
            known = self._lanes.get(idle)
            if known is not None and known.place is None and known.time <= self._time:
                del self._lanes[idle]

    def _lane(self, agent_id: str) -> _Lane[W]:
        lane = self._lanes.get(agent_id)
        if lane is None:
            lane = self._lanes[agent_id] = _Lane(self._time)
        return lane

    def _arrange(self, agent_id: str, lane: _Lane[W]) -> None:
        """Put a lane where it belongs in the order, after its time or its first ticket has changed."""
        place = (lane.time, next(iter(lane.tickets)), agent_id) if lane.tickets else None
        if place is not None and place == lane.place:
            return
        if lane.place is not None:
            del self._order[bisect_left(self._order, lane.place)]
        lane.place = place
        if place is not None:
            insort(self._order, place)
        elif lane.time <= self._time:
            del self._lanes[agent_id]
        elif lane.listed != lane.time:
            lane.listed = lane.time
            heapq.heappush(self._ahead, (lane.time, agent_id))
