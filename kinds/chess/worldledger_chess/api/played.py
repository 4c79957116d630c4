"""The shapes of what projections have made of games of chess."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field
from worldledger_service.api.schemas.base import Near, Shape
from worldledger_service.api.schemas.projections import row_of

from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves

GameSummary = row_of("GameSummary", Games())
Move = row_of("Move", Moves())


class GamePage(Shape):
    """A page of games by name."""

    games: list[GameSummary]  # type: ignore[valid-type]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")
    near: Near = None


class MovePage(Shape):
    """A page of a game's moves, in order."""

    game_id: str
    moves: list[Move]  # type: ignore[valid-type]
    next_after_ply: int | None = Field(description="The after_ply of the next page; null when this is the last.")


class Agent(Shape):
    """An agent, with what it did in all worlds together."""

    agent_id: str
    worlds: int = Field(description="In how many worlds it has acted, or is a player.")
    effects: int = Field(description="How many effects have it as their source.")
    first_seen_at: datetime
    last_seen_at: datetime


class AgentPage(Shape):
    """A page of agents by name."""

    agents: list[Agent]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")


class AgentStats(Shape):
    """How an agent did over all its games (AgentStats). Games that have not ended are not played yet."""

    agent_id: str
    games_played: int = Field(description="games_won + games_lost + games_drawn.")
    games_won: int
    games_lost: int
    games_drawn: int
    total_moves: int
    average_thinking_time: float = Field(description="Seconds, over the moves whose time is known; 0 if none is.")
    illegal_moves_attempted: int
    timeouts: int = Field(description="Games lost by running out of time.")
