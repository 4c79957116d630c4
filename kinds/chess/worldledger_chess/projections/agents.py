"""Who acts in each world: one row for each agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, View, WorldProjection, moment
from worldledger_projections.tables import NO_FORK, WITH_FORKS

from worldledger.effects import SERVICE_SOURCE, Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger_chess.rules.claims import PLAYERS, Players, Start, read_players, read_start
from worldledger_chess.rules.endings import Player
from worldledger_chess.rules.pgn import SOURCE as PGN_SOURCE
from worldledger_chess.rules.state import BOARD

#: Sources that are no agents: the service itself, and the reader of recorded games.
NO_AGENTS: Final = frozenset({SERVICE_SOURCE, PGN_SOURCE})

#: The role of an agent that plays both colours.
BOTH: Final = "both"


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
    """The rows by agent_id; ``_last`` has the newest effect of those that changed.

    ``_inherited`` are the sides of a fork of a game, by player, until its genesis has been read.
    """

    def __init__(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> None:
        self._world_id = world_id
        entities = {} if fold is None else fold.state.entities
        self._inherited = {player: entities[player] for player in PLAYERS} if BOARD in entities else {}
        self._agents = {agent.agent_id: agent for agent in (_Agent(*row) for row in rows)}
        self._started = any(agent.role is not None for agent in self._agents.values())
        self._last: dict[str, Effect] = {}
        self._gone: set[str] = set()

    def apply(self, effect: Effect) -> None:
        source = effect["source_id"]
        if source not in NO_AGENTS:
            agent = self._agents.get(source)
            if agent is None:
                agent = self._meet(source, effect)
            agent.effects += 1
            self._last[source] = effect
        if self._inherited:
            self._meet_players(
                effect, {player: (side["agent_id"], side["name"]) for player, side in self._inherited.items()}
            )
            self._inherited = {}
        elif effect["kind"] == "GameContinued" or (effect["kind"] == "GameStarted" and not self._started):
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
        if continued:
            self._forget_players()
        self._meet_players(effect, {player: (start.agents[player], start.names[player]) for player in PLAYERS})

    def _forget_players(self) -> None:
        """Let those go who played before the fork, but for what they did themselves here."""
        for agent_id, agent in [*self._agents.items()]:
            if agent.role is not None:
                agent.role = agent.name = None
                if not agent.effects:
                    del self._agents[agent_id]
                    self._last.pop(agent_id, None)
                    self._gone.add(agent_id)

    def _meet_players(self, effect: Effect, players: Mapping[Player, tuple[str, str | None]]) -> None:
        self._started = True
        for player, (agent_id, name) in players.items():
            agent = self._agents.get(agent_id) or self._meet(agent_id, effect)
            agent.role = player if agent.role is None else BOTH
            agent.name = agent.name or name
            self._last[agent_id] = effect

    def take_changes(self) -> Changes:
        rows: list[Row] = []
        for agent_id, effect in self._last.items():
            agent = self._agents[agent_id]
            agent.last_seq = effect["global_seq"]
            agent.last_sim_time = effect["sim_time"]
            agent.last_seen_at = moment(effect["wall_time"])
            rows.append(_row_of(agent))
        deletes: list[Row] = [(self._world_id, agent_id) for agent_id in self._gone if agent_id not in self._last]
        self._last, self._gone = {}, set()
        return Changes(rows, deletes)


_IN_ALL: Final = (
    "select agent_id, count(*) as worlds, sum(effects)::bigint as effects, min(first_seen_at) as first_seen_at, "
    "max(last_seen_at) as last_seen_at from agents a"
)


class Agents(Projection):
    """One row for each agent of a world of any ruleset: whoever was the source of an effect, and chess players.

    A GameStarted that reads as one of the ruleset ``chess`` names two players; they have rows from then on, before they
    move. The players of a fork of a game have rows from its genesis on, or those that its GameContinued names. What an
    agent did is told by source_id alone.
    """

    name = "agents"
    version = 2
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
            f"{_IN_ALL} where {NO_FORK.format('a')} group by agent_id",
            "All agents, each with what it did in all worlds together. Forks are left out.",
        ),
        View(
            f"agent_directory{WITH_FORKS}",
            f"{_IN_ALL} group by agent_id",
            "As agent_directory, with what was done in forks. Nothing that a fork inherits is counted twice.",
        ),
    )
    needs_rows = True
    needs_beginning = frozenset({"chess"})

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the agents' fold from their rows on, or from the game that a fork begins with."""
        return _World(world_id, rows, fold)
