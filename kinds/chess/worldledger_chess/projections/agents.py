"""Who acts in each world: one row for each agent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, View, WorldProjection, moment

from worldledger.effects import SERVICE_SOURCE, Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger_chess.rules.claims import PLAYERS, Players, Start, read_players, read_start
from worldledger_chess.rules.pgn import SOURCE as PGN_SOURCE

#: Sources that are no agents: the service itself, and the reader of recorded games.
NO_AGENTS: Final = frozenset({SERVICE_SOURCE, PGN_SOURCE})

#: The role of an agent that plays both colours.
BOTH: Final = "both"
_BEGIN: Final = frozenset({"GameStarted", "GameContinued"})


@dataclass(slots=True)
class _Agent:
    """A row: fields in the order of the columns."""

    world_id: str
    agent_id: str
    role: str | None
    name: str | None
    effects: int
    first_seq: int
    last_seq: int
    first_sim_time: float
    last_sim_time: float
    first_seen_at: datetime
    last_seen_at: datetime


_row_of: Final[Callable[[_Agent], Row]] = attrgetter(*(field.name for field in fields(_Agent)))


class _World(WorldProjection):
    """The rows by agent_id; ``_last`` has the newest effect of those that changed."""

    def __init__(self, world_id: str, rows: Sequence[Row]) -> None:
        self._world_id = world_id
        self._agents = {agent.agent_id: agent for agent in (_Agent(*row) for row in rows)}
        self._started = any(agent.role is not None for agent in self._agents.values())
        self._last: dict[str, Effect] = {}

    def apply(self, effect: Effect) -> None:
        source = effect["source_id"]
        if source not in NO_AGENTS:
            agent = self._agents.get(source)
            if agent is None:
                agent = self._meet(source, effect)
            agent.effects += 1
            self._last[source] = effect
        if effect["kind"] in _BEGIN and not self._started:
            self._start(effect)

    def _meet(self, agent_id: str, effect: Effect) -> _Agent:
        seq, sim_time, now = effect["global_seq"], effect["sim_time"], moment(effect["wall_time"])
        agent = _Agent(self._world_id, agent_id, None, None, 0, seq, seq, sim_time, sim_time, now, now)
        self._agents[agent_id] = agent
        return agent

    def _start(self, effect: Effect) -> None:
        payload, continued = effect["payload"], effect["kind"] == "GameContinued"
        if continued and effect["source_id"] != SERVICE_SOURCE:
            return
        try:
            start: Players | Start = read_players(payload) if continued else read_start(payload)
        except IllegalEffectError:
            return
        self._started = True
        for player in PLAYERS:
            agent_id = start.agents[player]
            agent = self._agents.get(agent_id) or self._meet(agent_id, effect)
            agent.role = player if agent.role is None else BOTH
            agent.name = agent.name or start.names[player]
            self._last[agent_id] = effect

    def take_changes(self) -> Changes:
        rows: list[Row] = []
        for agent_id, effect in self._last.items():
            agent = self._agents[agent_id]
            agent.last_seq = effect["global_seq"]
            agent.last_sim_time = effect["sim_time"]
            agent.last_seen_at = moment(effect["wall_time"])
            rows.append(_row_of(agent))
        self._last = {}
        return Changes(upserts=rows)


class Agents(Projection):
    """One row for each agent of a world of any ruleset: whoever was the source of an effect, and chess players.

    A GameStarted that reads as one of the ruleset ``chess`` names two players, and so does a GameContinued; they have
    rows from then on, before they move. What an agent did is told by source_id alone.
    """

    name = "agents"
    version = 1
    comment = "Who acts in each world: the sources of its effects, and the players of its game."
    columns = (
        WORLD,
        Column("agent_id", "text", "The agent's id: the source_id of its effects."),
        Column("role", "text", "white, black, or both for a game against itself; null for other agents.", True),
        Column("name", "text", "The player's name, where the game tells it.", True),
        Column("effects", "bigint", "How many effects of the world have the agent as their source."),
        Column("first_seq", "bigint", "The first effect that has the agent as its source or names it as a player."),
        Column("last_seq", "bigint", "The last such effect."),
        Column("first_sim_time", "double precision", "The sim_time of the first, in seconds."),
        Column("last_sim_time", "double precision", "The sim_time of the last, in seconds."),
        Column("first_seen_at", "timestamptz", "The wall_time of the first."),
        Column("last_seen_at", "timestamptz", "The wall_time of the last."),
    )
    key = ("world_id", "agent_id")
    published = MappingProxyType({"first_sim_time": "first_sim_time_s", "last_sim_time": "last_sim_time_s"})
    indexes = (("agent_id", "world_id"),)
    views = (
        View(
            "agent_directory",
            "select agent_id, count(*) as worlds, sum(effects)::bigint as effects, "
            "min(first_seen_at) as first_seen_at, max(last_seen_at) as last_seen_at from agents group by agent_id",
            "All agents, each with what it did in all worlds together.",
        ),
    )
    needs_rows = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the agents' fold from their rows on."""
        return _World(world_id, rows)
