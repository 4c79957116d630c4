"""How the agents of chess games did: one row for each game and agent. Source: docs/reference/contracts.md, "Chess"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Final

from worldledger_projections.base import Changes, Column, Projection, Row, View, WorldProjection, needed
from worldledger_projections.tables import WITH_FORKS

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState
from worldledger_chess.projections.play import Play
from worldledger_chess.rules.claims import PLAYERS
from worldledger_chess.rules.endings import Player

#: Seconds are rounded to this many digits, as in the fold, so that sums of milliseconds come out whole.
_DIGITS: Final = 6
_WINNERS: Final[dict[str, Player | None]] = {"white_wins": "white", "black_wins": "black", "draw": None}


@dataclass(slots=True)
class _Stats:
    """A row: fields in the order of the columns."""

    world_id: str
    agent_id: str
    games_played: int = 0
    games_won: int = 0
    games_lost: int = 0
    games_drawn: int = 0
    total_moves: int = 0
    timed_moves: int = 0
    total_thinking_time: float = 0.0
    average_thinking_time: float = 0.0
    illegal_moves_attempted: int = 0
    timeouts: int = 0
    is_fork: bool = False


_row_of: Final[Callable[[_Stats], Row]] = attrgetter(*(field.name for field in fields(_Stats)))


class _World(WorldProjection):
    """The rows by agent_id: they count what this world's own effects say, and the state only who plays."""

    def __init__(self, world_id: str, rows: Sequence[Row], state: WorldState) -> None:
        self._world_id = world_id
        self._play = Play.of(state)
        self._rows = {row.agent_id: row for row in (_Stats(*row) for row in rows)}
        self._is_fork = any(row.is_fork for row in self._rows.values())
        #: the rows of who plays, once something of theirs has counted
        self._playing: dict[Player, _Stats] = {}
        self._changed = False
        if self._play.status is not None:
            self._is_fork = self._is_fork or not rows  # it was not started here
            self._players: dict[Player, str] = {player: state.entities[player]["agent_id"] for player in PLAYERS}

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        play = self._play
        if kind == "MoveMade":
            if play.move(effect):
                row = self._row(play.mover)
                row.total_moves += 1
                if play.thinking_time is not None:
                    row.timed_moves += 1
                    row.total_thinking_time = round(row.total_thinking_time + play.thinking_time, _DIGITS)
        elif kind == "GameStarted":
            start = play.start(effect["payload"])
            if start is not None:
                self._players = start.agents
                self._meet()
        elif kind == "GameContinued":
            players = play.go_on(effect)
            if players is not None:
                self._players = players.agents
                self._meet()
        elif kind == "MoveRejected":
            rejected = play.reject(effect["payload"])
            if rejected is not None:
                player, illegal = rejected
                self._row(player).illegal_moves_attempted += illegal
        elif kind == "GameEnded":
            claim = play.end(effect["payload"])
            if claim is not None:
                self._end(_WINNERS[claim.result])

    def _row(self, player: Player) -> _Stats:
        """Return the row of a colour's agent, which is about to change; the other one has a row from then on, too."""
        if not self._playing:
            self._meet()
        self._changed = True
        return self._playing[player]

    def _meet(self) -> None:
        self._changed = True
        for agent_id in self._players.values():
            if agent_id not in self._rows:
                self._rows[agent_id] = _Stats(self._world_id, agent_id, is_fork=self._is_fork)
        self._playing = {player: self._rows[agent_id] for player, agent_id in self._players.items()}

    def _end(self, winner: Player | None) -> None:
        for player in PLAYERS:
            row = self._row(player)
            row.games_played += 1
            if winner is None:
                row.games_drawn += 1
            elif winner == player:
                row.games_won += 1
            else:
                row.games_lost += 1
                row.timeouts += self._play.status == "timeout"

    def take_changes(self) -> Changes:
        if not self._changed:
            return Changes()
        self._changed = False
        for row in self._rows.values():
            if row.timed_moves:
                row.average_thinking_time = row.total_thinking_time / row.timed_moves
        return Changes(upserts=[_row_of(row) for row in self._rows.values()])


_SUMS: Final = """
select agent_id,
       sum(games_played)::bigint as games_played,
       sum(games_won)::bigint as games_won,
       sum(games_lost)::bigint as games_lost,
       sum(games_drawn)::bigint as games_drawn,
       sum(total_moves)::bigint as total_moves,
       sum(timed_moves)::bigint as timed_moves,
       sum(total_thinking_time::numeric)::double precision as total_thinking_time,
       case when sum(timed_moves) > 0
            then (sum(total_thinking_time::numeric) / sum(timed_moves))::double precision
            else 0 end as average_thinking_time,
       sum(illegal_moves_attempted)::bigint as illegal_moves_attempted,
       sum(timeouts)::bigint as timeouts
from agent_stats
"""


class AgentStats(Projection):
    """One row for each chess world and agent, with the fields and rules of AgentStats.

    - A game counts as played once it has ended, so won + lost + drawn = played; what was done in a game that goes on
      counts at once.
    - ``average_thinking_time`` is over the moves whose time is known, of which there are ``timed_moves``; 0.0 where
      there are none.
    - ``timeouts`` are games lost by status timeout. A rejected move counts as an illegal one unless the effect gives
      another reason.
    - An agent that plays both colours has one row, and the game counts twice: it wins once and loses once, or draws
      twice.

    - A fork of a game counts what was done in it alone, and its end; nothing of what it inherits.

    Which effects count is what counts in the fold, see `projections.play`. Totals over games: the view agent_totals.
    """

    name = "agent_stats"
    version = 2
    comment = "How the agents of chess games did: one row for each game and agent."
    columns = (
        Column("world_id", "text", "The name of the world, and so of the game."),
        Column("agent_id", "text", "The agent."),
        Column("games_played", "bigint", "1 once the game has ended; 2 for an agent that played against itself."),
        Column("games_won", "bigint", "Of those, how many the agent won."),
        Column("games_lost", "bigint", "Of those, how many the agent lost."),
        Column("games_drawn", "bigint", "Of those, how many were drawn."),
        Column("total_moves", "bigint", "How many moves the agent made."),
        Column("timed_moves", "bigint", "Of how many of them the thinking time is known."),
        Column("total_thinking_time", "double precision", "Seconds: the sum of the thinking times that are known."),
        Column("average_thinking_time", "double precision", "Seconds: over timed_moves; 0 where there are none."),
        Column("illegal_moves_attempted", "bigint", "How many illegal moves the agent tried."),
        Column("timeouts", "bigint", "How many games the agent lost by running out of time."),
        Column("is_fork", "boolean", "Whether the game is a fork: what was done before the fork is its parent's."),
    )
    key = ("world_id", "agent_id")
    rulesets = frozenset({"chess"})
    published = MappingProxyType(
        {
            "total_thinking_time": "total_thinking_time_s",
            "average_thinking_time": "average_thinking_time_s",
        }
    )
    indexes = (("agent_id", "world_id"),)
    views = (
        View(
            "agent_totals",
            f"{_SUMS}where not is_fork group by agent_id",
            "How each agent did over all games, as AgentStats has it, without forks. Times are summed in numeric, "
            "which is exact.",
        ),
        View(
            f"agent_totals{WITH_FORKS}",
            f"{_SUMS}group by agent_id",
            "As agent_totals, with what was done in forks of games. Nothing that a fork inherits is counted twice.",
        ),
    )
    kinds = frozenset({"GameStarted", "GameContinued", "MoveMade", "MoveRejected", "GameEnded"})
    needs_rows = True
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the statistics' fold from their rows on; the state says who plays."""
        return _World(world_id, rows, needed(fold).state)
