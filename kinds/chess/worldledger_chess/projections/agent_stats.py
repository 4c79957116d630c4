"""How the agents of chess games did: one row for each game and agent. Source: docs/reference/contracts.md, "Chess"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final

from worldledger_projections.base import Changes, Column, Projection, Row, View, WorldProjection

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
class _Side:
    """What one colour's player did: as in the state."""

    agent_id: str
    moves: int = 0
    timed_moves: int = 0
    thinking_time: float = 0.0
    illegal_moves_attempted: int = 0

    @classmethod
    def of(cls, entity: dict[str, Any]) -> _Side:
        return cls(
            entity["agent_id"],
            entity["moves"],
            entity["timed_moves"],
            entity["thinking_time"],
            entity["illegal_moves_attempted"],
        )


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


_row_of: Final[Callable[[_Stats], Row]] = attrgetter(*(field.name for field in fields(_Stats)))


class _World(WorldProjection):
    def __init__(self, world_id: str, state: WorldState) -> None:
        self._world_id = world_id
        self._play = Play.of(state)
        self._sides: dict[Player, _Side] = {}
        self._result: str | None = None
        if self._play.status is not None:
            self._sides = {player: _Side.of(state.entities[player]) for player in PLAYERS}
            self._result = state.entities["board"]["result"]
        self._changed = False

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind == "MoveMade":
            play = self._play
            if play.move(effect):
                side = self._sides[play.mover]
                side.moves += 1
                if play.thinking_time is not None:
                    side.timed_moves += 1
                    side.thinking_time = round(side.thinking_time + play.thinking_time, _DIGITS)
                self._changed = True
        elif kind == "GameStarted":
            start = self._play.start(effect["payload"])
            if start is not None:
                self._sides = {player: _Side(start.agents[player]) for player in PLAYERS}
                self._changed = True
        elif kind == "MoveRejected":
            rejected = self._play.reject(effect["payload"])
            if rejected is not None:
                player, illegal = rejected
                self._sides[player].illegal_moves_attempted += illegal
                self._changed = True
        elif kind == "GameEnded":
            claim = self._play.end(effect["payload"])
            if claim is not None:
                self._result = claim.result
                self._changed = True

    def take_changes(self) -> Changes:
        if not self._changed:
            return Changes()
        self._changed = False
        rows: dict[str, _Stats] = {}
        for player, side in self._sides.items():
            row = rows.setdefault(side.agent_id, _Stats(self._world_id, side.agent_id))
            self._add(row, player, side)
        return Changes(upserts=[_row_of(row) for row in rows.values()])

    def _add(self, row: _Stats, player: Player, side: _Side) -> None:
        row.total_moves += side.moves
        row.timed_moves += side.timed_moves
        row.total_thinking_time = round(row.total_thinking_time + side.thinking_time, _DIGITS)
        if row.timed_moves:
            row.average_thinking_time = row.total_thinking_time / row.timed_moves
        row.illegal_moves_attempted += side.illegal_moves_attempted
        if self._result is None:
            return
        row.games_played += 1
        winner = _WINNERS[self._result]
        if winner is None:
            row.games_drawn += 1
        elif winner == player:
            row.games_won += 1
        else:
            row.games_lost += 1
            row.timeouts += self._play.status == "timeout"


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

    Which effects count is what counts in the fold, see `projections.play`. Totals over games: the view agent_totals.
    """

    name = "agent_stats"
    version = 1
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
            """
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
group by agent_id
""",
            "How each agent did over all games, as AgentStats has it. Times are summed in numeric, which is exact.",
        ),
    )
    kinds = frozenset({"GameStarted", "MoveMade", "MoveRejected", "GameEnded"})
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the statistics' fold from the state on, in which all of them stand."""
        if fold is None:
            raise ValueError("statistics are kept from the world's state on")
        return _World(world_id, fold.state)
