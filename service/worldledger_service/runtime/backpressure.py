"""Backpressure, the stage after quotas: how many intents may wait, and what becomes of one that finds no room."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Generic

from worldledger_service.runtime.fairness import W

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig


class Backpressure(Generic[W]):
    """Counts what waits in the world and of each agent, and keeps those that wait for room to wait.

    At most ``max_pending`` tickets are in, and ``max_pending_per_agent`` of one agent. Those deferred are not counted:
    their callers hold them, and they hold their callers. Room that comes free goes round the agents that wait for it.
    """

    def __init__(self, config: OrchestratorConfig) -> None:
        self.policy: Final = config.backpressure_policy
        self._most = config.max_pending
        self._most_per_agent = config.max_pending_per_agent
        self._tickets: OrderedDict[int, W] = OrderedDict()
        self._agents: dict[str, OrderedDict[int, W]] = {}
        self._deferred: dict[str, OrderedDict[W, None]] = {}
        self._deferred_count = 0
        #: the agents with deferred tickets that are below their own bound, in turn
        self._open: OrderedDict[str, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tickets)

    @property
    def deferred(self) -> int:
        """How many wait for room."""
        return self._deferred_count

    def has_room(self, agent_id: str) -> bool:
        """Tell whether a ticket of this agent may come in now: not before its deferred ones."""
        return len(self._tickets) < self._most and agent_id not in self._deferred and not self._is_full(agent_id)

    def enter(self, ticket: W) -> None:
        """Let a ticket in for which there is room."""
        self._tickets[ticket.number] = ticket
        self._agents.setdefault(ticket.agent_id, OrderedDict())[ticket.number] = ticket
        if self._is_full(ticket.agent_id):
            self._open.pop(ticket.agent_id, None)

    def leave(self, ticket: W) -> None:
        """Let a ticket out that is in; `readmit` then fills its place."""
        del self._tickets[ticket.number]
        tickets = self._agents[ticket.agent_id]
        del tickets[ticket.number]
        if not tickets:
            del self._agents[ticket.agent_id]
        if ticket.agent_id in self._deferred:
            self._open[ticket.agent_id] = None

    def oldest(self, agent_id: str) -> W:
        """Return who has to go for a ticket of this agent: its own oldest at its bound, else the world's."""
        tickets = self._agents[agent_id] if self._is_full(agent_id) else self._tickets
        return next(iter(tickets.values()))

    def defer(self, ticket: W) -> None:
        """Let a ticket wait for room."""
        self._deferred.setdefault(ticket.agent_id, OrderedDict())[ticket] = None
        self._deferred_count += 1
        if not self._is_full(ticket.agent_id):
            self._open[ticket.agent_id] = None

    def forget(self, ticket: W) -> None:
        """Let a ticket go that waits for room."""
        tickets = self._deferred[ticket.agent_id]
        del tickets[ticket]
        self._deferred_count -= 1
        if not tickets:
            del self._deferred[ticket.agent_id]
            self._open.pop(ticket.agent_id, None)

    def readmit(self) -> W | None:
        """Return the deferred ticket that may come in next, which is deferred no more; None if there is none."""
        if not self._open or len(self._tickets) >= self._most:
            return None
        agent_id = next(iter(self._open))
        self._open.move_to_end(agent_id)
        ticket = next(iter(self._deferred[agent_id]))
        self.forget(ticket)
        return ticket

    def _is_full(self, agent_id: str) -> bool:
        return len(self._agents.get(agent_id, ())) >= self._most_per_agent
