"""Scheduling: which intent may be judged and written next.

In this order: quotas; fairness among agents; priorities; backpressure; and the turns, which combine the last three.
"""

from __future__ import annotations

import asyncio
import heapq
import math
import time
from bisect import bisect_left, insort
from collections import OrderedDict
from collections.abc import Callable
from types import TracebackType
from typing import Final, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar

from worldledger.config import OrchestratorConfig
from worldledger.errors import BackpressureError, DeadlineExceededError, QuotaExceededError, SimulationError
from worldledger.lru import Lru

# -- quotas: how many intents and LLM tokens an agent may use ------------------------------------------------------
#
# Each quota of each agent is a token bucket. They count in one process and start full.

QuotaType: TypeAlias = Literal["intents", "tokens"]

#: Share of the capacity (or of 1) that may be missing and still counts as enough. Sums of floats are not exact, and a
#: caller that waited as long as it was told must not be refused for that. The debt stays in the bucket.
_SLACK: Final = 1e-9
#: Retries of a request before it is charged again. Retries are free, but one req_id is no way around the quota.
_RETRIES: Final = 10


class TokenBucket:
    """Holds up to ``capacity``, is full at first, and refills by ``refill_per_s`` each second of ``clock``.

    In any t seconds at most ``capacity + refill_per_s * t`` can be taken, not counting amounts that were given back.
    """

    __slots__ = ("_at", "_clock", "_level", "capacity", "refill_per_s")

    def __init__(self, capacity: float, refill_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not capacity > 0 or not refill_per_s >= 0:
            raise ValueError("a bucket needs a capacity above 0 and a refill of at least 0")
        self.capacity: Final = capacity
        self.refill_per_s: Final = refill_per_s
        self._clock = clock
        self._level = float(capacity)
        self._at = clock()

    @property
    def level(self) -> float:
        """The amount that can be taken now."""
        now = self._clock()
        if now > self._at:
            self._level = min(self.capacity, self._level + (now - self._at) * self.refill_per_s)
            self._at = now
        return self._level

    def wait_for(self, amount: float) -> float:
        """Return the seconds until an amount can be taken: 0.0 for now, infinity for never."""
        missing = amount - self.level
        if missing <= _SLACK * max(self.capacity, 1.0) or amount <= 0:
            return 0.0
        if amount > self.capacity or not self.refill_per_s:
            return math.inf
        return missing / self.refill_per_s

    def try_take(self, amount: float = 1.0) -> float:
        """Take an amount and return 0.0, or take nothing and return the seconds to wait (infinity for never)."""
        wait = self.wait_for(amount)
        if not wait:
            self.spend(amount)
        return wait

    def spend(self, amount: float) -> None:
        """Take an amount for which `wait_for` has just returned 0.0."""
        self._level -= max(amount, 0)

    def give_back(self, amount: float) -> None:
        """Put back an amount that was not used; anything over the capacity is lost."""
        self._level = min(self.capacity, self.level + amount)


class QuotaStatus(NamedTuple):
    """One quota of an agent as it stands (the fields of RateLimit-Policy and RateLimit, draft-ietf-httpapi-ratelimit).

    ``limit``: how many can be used at once; ``window_s``: seconds in which so many are regained; ``remaining``: how
    many can be used now; ``reset_s``: seconds until all can be used again.
    """

    quota_type: QuotaType
    limit: int
    window_s: float
    remaining: int
    reset_s: float


class _Charge:
    __slots__ = ("retries", "tokens")

    def __init__(self, tokens: int) -> None:
        self.tokens = tokens
        self.retries = 0


class Quotas:
    """The quotas of all agents of one world: ``intents_per_s`` and ``token_budget`` of its configuration.

    A request is charged once, however often it is tried again (short of a flood of retries). Bounded: buckets that have
    refilled are dropped, and so are the least recently used ones beyond twice ``max_agents``; of past requests as many
    are known as ``memory.max_remembered_requests``.
    """

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        #: capacity and refill of each quota that is set
        self._rates: dict[QuotaType, tuple[int, float]] = {}
        if config.intents_per_s:
            self._rates["intents"] = (config.intent_capacity, config.intents_per_s)
        if config.token_budget:
            self._rates["tokens"] = (config.token_budget, config.token_refill_per_s)
        self._most_agents = 2 * config.max_agents
        self._agents: OrderedDict[str, dict[QuotaType, TokenBucket]] = OrderedDict()
        self._charges: Lru[tuple[str, str], _Charge] = Lru(config.memory.max_remembered_requests)

    def __len__(self) -> int:
        """Return the number of agents that have buckets."""
        return len(self._agents)

    def charge(self, agent_id: str, req_id: str, tokens: int = 0) -> bool:
        """Charge a request of ``tokens`` LLM tokens, unless it was charged before; a larger one pays the difference.

        Returns whether this call has charged it. Raises QuotaExceededError, and charges nothing, if a quota does not
        suffice: of several, the one that takes longest to refill. Its ``retry_after_s`` is None if it never suffices.
        """
        if not self._rates:
            return False
        key = (agent_id, req_id)
        charge = self._charges.get(key)
        if charge is None or charge.retries >= _RETRIES:
            self._take(agent_id, 1, tokens)
            self._charges[key] = _Charge(tokens)
            return True
        if tokens > charge.tokens:
            self._take(agent_id, 0, tokens - charge.tokens)
            charge.tokens = tokens
        charge.retries += 1
        self._charges.move_to_end(key)
        return False

    def refund(self, agent_id: str, req_id: str) -> None:
        """Refund a request that failed through no fault of the agent; unknown requests are ignored."""
        charge = self._charges.pop((agent_id, req_id), None)
        buckets = self._agents.get(agent_id)
        if charge is None or buckets is None:
            return
        for quota_type, bucket in buckets.items():
            bucket.give_back(1 if quota_type == "intents" else charge.tokens)

    def status(self, agent_id: str) -> list[QuotaStatus]:
        """Return the agent's quotas as they stand; nothing where none is set."""
        buckets = self._agents.get(agent_id)
        result = []
        for quota_type, (capacity, refill_per_s) in self._rates.items():
            level = float(capacity) if buckets is None else buckets[quota_type].level
            result.append(
                QuotaStatus(
                    quota_type,
                    limit=capacity,
                    window_s=capacity / refill_per_s,
                    remaining=max(0, math.floor(level + _SLACK * capacity)),
                    reset_s=(capacity - level) / refill_per_s,
                )
            )
        return result

    def _take(self, agent_id: str, intents: int, tokens: int) -> None:
        """Take from both buckets or from none."""
        buckets = self._agents.get(agent_id)
        if buckets is None:
            buckets = self._add(agent_id)
        else:
            self._agents.move_to_end(agent_id)
        longest = 0.0
        lacking: QuotaType = "intents"
        for quota_type, bucket in buckets.items():
            wait = bucket.wait_for(intents if quota_type == "intents" else tokens)
            if wait > longest:
                longest, lacking = wait, quota_type
        if longest:
            limit = self._rates[lacking][0]
            raise QuotaExceededError(agent_id, lacking, limit, None if math.isinf(longest) else longest)
        for quota_type, bucket in buckets.items():
            bucket.spend(intents if quota_type == "intents" else tokens)

    def _add(self, agent_id: str) -> dict[QuotaType, TokenBucket]:
        """Make an agent's buckets; full buckets of others are dropped for them, the longest unused first."""
        while self._agents:
            oldest = next(iter(self._agents))
            full = all(bucket.level >= bucket.capacity for bucket in self._agents[oldest].values())
            if not full and len(self._agents) < self._most_agents:
                break
            del self._agents[oldest]
        buckets = {name: TokenBucket(*rate, self._clock) for name, rate in self._rates.items()}
        self._agents[agent_id] = buckets
        return buckets


# -- fairness: weighted round-robin among the agents that wait at one priority -------------------------------------
#
# Each agent has a virtual time, its turns divided by its weight, and the agent that is furthest behind is next
# (start-time fair queueing). An agent that comes back begins at the present virtual time: idling saves nothing up.


class Ticket:
    """A request for a turn: its agent, its priority, and its agent's weight (1 or more).

    ``number`` (order of arrival, unique) and ``since`` (seconds of some clock) are those of its arrival in the line.
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
        #: the time with which it was last listed among the agents ahead
        self.listed: float | None = None
        self.tickets: OrderedDict[int, W] = OrderedDict()
        #: its place in the order, while tickets wait
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
        #: (virtual time, agent) of agents that do not wait and are still ahead of the others
        self._ahead: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def agents(self) -> int:
        """The number of known agents: those that wait, and those that have just had turns."""
        return len(self._lanes)

    def add(self, ticket: W) -> None:
        """Add a ticket that has arrived after all others."""
        lane = self._lane(ticket.agent_id)
        lane.tickets[ticket.number] = ticket
        self._tickets[ticket.number] = ticket
        if lane.place is None:
            self._arrange(ticket.agent_id, lane)

    def discard(self, ticket: W) -> None:
        """Remove a ticket that has had no turn."""
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
        """Count a turn of an agent, of this priority or not, that was next by its `rank`."""
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
        """Move a lane to its place in the order, after its time or its first ticket has changed."""
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


# -- priority: the highest goes first, and counts as higher the longer it has waited -------------------------------


class _Level(Generic[W]):
    """The tickets of one priority, and the key of the one that has waited longest."""

    __slots__ = ("age", "robin")

    def __init__(self) -> None:
        self.robin: RoundRobin[W] = RoundRobin()
        self.age: tuple[float, int] | None = None


class Priorities(Generic[W]):
    """All tickets that wait for a turn.

    Next is, of the agents that wait at the highest priority, the one that has had least for its weight. A ticket of a
    lower priority that has waited ``ageing_s`` seconds for each step between competes with them as one of theirs (if
    there are several, the one that is longest overdue). So it gets its turn, however many of the highest there are; and
    since it can only draw level, no backlog, however old, takes precedence over others of the same priority. With
    ``ageing_s`` 0 nothing ages.

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
        """Add a ticket that has arrived after all others."""
        level = self._levels.get(ticket.priority)
        if level is None:
            level = self._levels[ticket.priority] = _Level()
            insort(self._order, ticket.priority)
        level.robin.add(ticket)
        self._count += 1
        self._note_age(ticket.priority, level)

    def discard(self, ticket: W) -> None:
        """Remove a ticket that has had no turn."""
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
        """Remove the ticket that `first` returned: it has its turn, which counts at the highest priority that waits."""
        self._levels[self._order[-1]].robin.charge(ticket.agent_id, ticket.weight)
        self.discard(ticket)

    def _note_age(self, priority: int, level: _Level[W]) -> None:
        """Update the order of the overdue, after a level's oldest ticket may have changed."""
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


# -- backpressure: how many intents may wait, and what happens to one that finds no room ---------------------------


class Backpressure(Generic[W]):
    """Counts the waiting tickets of the world and of each agent, and keeps the deferred ones, which wait for room.

    At most ``max_pending`` tickets are in, and ``max_pending_per_agent`` of one agent. Deferred tickets are not
    counted, because each takes a waiting caller. Free room goes to the agents with deferred tickets in turn.
    """

    def __init__(self, config: OrchestratorConfig) -> None:
        self.policy: Final = config.backpressure_policy
        self._most = config.max_pending
        self._most_per_agent = config.max_pending_per_agent
        self._tickets: OrderedDict[int, W] = OrderedDict()
        self._agents: dict[str, OrderedDict[int, W]] = {}
        self._deferred: dict[str, OrderedDict[W, None]] = {}
        self._deferred_count = 0
        #: the agents with deferred tickets that are below their own bound, in the order of their turns
        self._open: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def deferred(self) -> int:
        """The number of tickets that wait for room."""
        return self._deferred_count

    def has_room(self, agent_id: str) -> bool:
        """Return whether a ticket of this agent may come in now: not before its deferred ones."""
        return len(self._tickets) < self._most and agent_id not in self._deferred and not self._is_full(agent_id)

    def enter(self, ticket: W) -> None:
        """Admit a ticket for which there is room."""
        self._tickets[ticket.number] = ticket
        self._agents.setdefault(ticket.agent_id, OrderedDict())[ticket.number] = ticket
        if self._is_full(ticket.agent_id):
            self._open.pop(ticket.agent_id, None)

    def leave(self, ticket: W) -> None:
        """Remove a ticket that was admitted; `readmit` then fills its place."""
        del self._tickets[ticket.number]
        tickets = self._agents[ticket.agent_id]
        del tickets[ticket.number]
        if not tickets:
            del self._agents[ticket.agent_id]
        if ticket.agent_id in self._deferred:
            self._open[ticket.agent_id] = None

    def oldest(self, agent_id: str) -> W:
        """Return the ticket that makes room for one of this agent: its own oldest at its bound, else the world's."""
        tickets = self._agents[agent_id] if self._is_full(agent_id) else self._tickets
        return next(iter(tickets.values()))

    def defer(self, ticket: W) -> None:
        """Defer a ticket until there is room."""
        self._deferred.setdefault(ticket.agent_id, OrderedDict())[ticket] = None
        self._deferred_count += 1
        if not self._is_full(ticket.agent_id):
            self._open[ticket.agent_id] = None

    def forget(self, ticket: W) -> None:
        """Remove a deferred ticket."""
        tickets = self._deferred[ticket.agent_id]
        del tickets[ticket]
        self._deferred_count -= 1
        if not tickets:
            del self._deferred[ticket.agent_id]
            self._open.pop(ticket.agent_id, None)

    def readmit(self) -> W | None:
        """Remove and return the deferred ticket that may come in next; None if there is none."""
        if not self._open or len(self._tickets) >= self._most:
            return None
        agent_id = next(iter(self._open))
        self._open.move_to_end(agent_id)
        ticket = next(iter(self._deferred[agent_id]))
        self.forget(ticket)
        return ticket

    def _is_full(self, agent_id: str) -> bool:
        return len(self._agents.get(agent_id, ())) >= self._most_per_agent


# -- turns: waiting for one's turn to be judged and written --------------------------------------------------------
#
# The Scheduler combines what stands above: it lets intents in, and wakes the one that is next.

#: Shortest and longest sleep for a deadline, in seconds: a timer may fire a little before its time.
_SLEEP: Final = (0.001, 3600.0)


class _Waiter(Ticket):
    """A ticket with its caller. The result of ``told`` is None for a turn, else the error to raise."""

    __slots__ = ("is_woken", "place", "told", "turn")

    def __init__(self, turn: Turn, told: asyncio.Future[SimulationError | None]) -> None:
        super().__init__(turn.agent_id, turn.priority, turn.weight)
        self.turn = turn
        self.told = told
        self.place: Literal["nowhere", "deferred", "line"] = "nowhere"
        #: it was given a turn, and has not come to run yet
        self.is_woken = False


class Turn:
    """One turn, to be used once: ``async with scheduler.turn(…):``."""

    __slots__ = ("_scheduler", "agent_id", "deadline_at", "priority", "req_id", "weight")

    def __init__(
        self, scheduler: Scheduler, agent_id: str, priority: int, weight: int, deadline_at: float | None, req_id: str
    ) -> None:
        self._scheduler = scheduler
        self.agent_id = agent_id
        self.priority = priority
        self.weight = weight
        self.deadline_at = deadline_at
        self.req_id = req_id

    async def __aenter__(self) -> Self:
        if not self._scheduler.try_begin(self):
            await self._scheduler.wait(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._scheduler.end()


class Scheduler:
    """Gives turns, at most ``max_in_flight`` at once.

    A caller that finds room has its turn at once, without yielding to the event loop. Otherwise it waits in line, where
    the next is chosen by priority, age and fairness (`Priorities`); if the line is full, the configuration's
    ``backpressure_policy`` decides which one leaves. A cancelled waiter leaves nothing behind. ``deadline_at`` is in
    seconds of ``clock``.
    """

    def __init__(self, config: OrchestratorConfig, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._most = config.max_in_flight
        self._deadline_ms = config.deadline_ms
        self._in_flight = 0
        self._woken = 0
        self._arrivals = 0
        self._backpressure: Backpressure[_Waiter] = Backpressure(config)
        self._line: Priorities[_Waiter] = Priorities(config.ageing_ms / 1000.0)

    @property
    def in_flight(self) -> int:
        """The number of turns under way."""
        return self._in_flight

    @property
    def waiting(self) -> int:
        """The number of waiters in line, never more than ``max_pending``."""
        return len(self._line)

    @property
    def deferred(self) -> int:
        """The number of waiters for room in the line; only with the policy ``defer``."""
        return self._backpressure.deferred

    def turn(
        self,
        agent_id: str,
        priority: int = 0,
        weight: int = 1,
        *,
        deadline_at: float | None = None,
        req_id: str = "",
    ) -> Turn:
        """Return a turn to enter: it begins with the ``async with`` block, which may have to wait, and ends with it.

        Entering raises DeadlineExceededError if the deadline has passed or passes in waiting, and BackpressureError if
        there is no room (``drop_newest``) or others have taken its place (``shed_oldest``).
        """
        return Turn(self, agent_id, priority, weight, deadline_at, req_id)

    def try_begin(self, turn: Turn) -> bool:
        """Begin a turn if there is room. No waiter is overtaken: while there is room, none waits.

        Nor are those that have been given a turn and have not come to run: behind them one waits as behind others.
        """
        if turn.deadline_at is not None and self._clock() >= turn.deadline_at:
            raise self._too_late(turn, self._clock())
        if self._in_flight >= self._most or self._woken:
            return False
        self._in_flight += 1
        return True

    async def wait(self, turn: Turn) -> None:
        """Wait in line until the turn has begun."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(turn, loop.create_future())
        began = self._clock()
        self._receive(waiter)
        self._serve()
        timer = _Timer(self._clock, turn.deadline_at, lambda: self._dismiss(waiter, self._too_late(turn, began)))
        try:
            if waiter.told.done():  # there was room: those that were woken before run first
                await asyncio.sleep(0)
            refused = await waiter.told
        except asyncio.CancelledError:
            if waiter.place != "nowhere":
                self._remove(waiter)
            elif not waiter.told.cancelled() and waiter.told.result() is None:
                self.end()
            raise
        finally:
            timer.stop()
            self._woken -= waiter.is_woken
        if refused is not None:
            raise refused

    def end(self) -> None:
        """End a turn that has begun: the next in line has it."""
        self._in_flight -= 1
        self._serve()

    def _serve(self) -> None:
        """Wake those in line for whom there is room."""
        if not len(self._line):
            return
        now = self._clock()
        while self._in_flight < self._most and (waiter := self._line.first(now)) is not None:
            if waiter.told.done():  # cancelled just now
                self._remove(waiter)
                continue
            self._line.serve(waiter)
            self._backpressure.leave(waiter)
            waiter.place = "nowhere"
            self._in_flight += 1
            self._woken += 1
            waiter.is_woken = True
            waiter.told.set_result(None)
            self._refill()

    # -- the line ------------------------------------------------------------------------------------------

    def _receive(self, waiter: _Waiter) -> None:
        policy = self._backpressure.policy
        if self._backpressure.has_room(waiter.agent_id):
            self._enter(waiter)
        elif policy == "defer":
            self._backpressure.defer(waiter)
            waiter.place = "deferred"
        elif policy == "drop_newest":
            raise BackpressureError(waiter.agent_id, policy)
        else:
            oldest = self._backpressure.oldest(waiter.agent_id)
            self._dismiss(oldest, BackpressureError(oldest.agent_id, policy))
            self._enter(waiter)

    def _enter(self, waiter: _Waiter) -> None:
        self._arrivals += 1
        waiter.number = self._arrivals
        waiter.since = self._clock()
        waiter.place = "line"
        self._backpressure.enter(waiter)
        self._line.add(waiter)

    def _dismiss(self, waiter: _Waiter, error: SimulationError) -> None:
        """Remove a waiter that has had no turn, and tell it why."""
        self._remove(waiter)
        if not waiter.told.done():
            waiter.told.set_result(error)

    def _remove(self, waiter: _Waiter) -> None:
        if waiter.place == "line":
            self._line.discard(waiter)
            self._backpressure.leave(waiter)
        elif waiter.place == "deferred":
            self._backpressure.forget(waiter)
        waiter.place = "nowhere"
        self._refill()

    def _refill(self) -> None:
        """Admit deferred waiters, as far as there is room."""
        while (waiter := self._backpressure.readmit()) is not None:
            self._enter(waiter)

    def _too_late(self, turn: Turn, began: float) -> DeadlineExceededError:
        waited = 0.0 if turn.deadline_at is None else max(0.0, turn.deadline_at - began) * 1000.0
        return DeadlineExceededError(turn.req_id, self._deadline_ms or round(waited, 3))


class _Timer:
    """Calls once when a deadline has passed by its clock; never without a deadline."""

    def __init__(self, clock: Callable[[], float], deadline_at: float | None, call: Callable[[], None]) -> None:
        self._clock = clock
        self._deadline_at = deadline_at
        self._call = call
        self._handle: asyncio.TimerHandle | None = None
        self._sleep()

    def stop(self) -> None:
        """Cancel the call."""
        if self._handle is not None:
            self._handle.cancel()

    def _sleep(self) -> None:
        if self._deadline_at is None:
            return
        rest = self._deadline_at - self._clock()
        if self._handle is not None and rest <= 0:
            self._call()
            return
        shortest, longest = _SLEEP
        loop = asyncio.get_running_loop()
        self._handle = loop.call_later(min(max(rest, shortest), longest), self._sleep)
