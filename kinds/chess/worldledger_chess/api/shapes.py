"""The shapes of live games: making them, moves, how they stand. Source: docs/reference/contracts.md, "Chess"."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from worldledger_service.api.openapi import Body, GlobalSeq, Near, Shape, Word, WorldName
from worldledger_service.api.projections import row_of

from worldledger.canonical import MAX_INT
from worldledger.moments import moment_rule
from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves
from worldledger_chess.rules.agents import AgentSpec
from worldledger_chess.rules.claims import MAX_SECONDS
from worldledger_chess.rules.endings import Player, Reason, Result, Status
from worldledger_chess.rules.entities import MoveFields
from worldledger_chess.rules.live import MAX_DEADLINE, LiveConfig, PlayerSpec
from worldledger_chess.rules.positions import MAX_HALFMOVE_CLOCK, SQUARE, UCI

Square = Annotated[str, Field(pattern=SQUARE)]
Uci = Annotated[str, Field(pattern=UCI)]
Cell = Annotated[int, Field(ge=0, le=1)]
Channels = Annotated[list[Cell], Field(min_length=12, max_length=12)]
Row = Annotated[list[Channels], Field(min_length=8, max_length=8)]
Tensor = Annotated[list[Row], Field(min_length=8, max_length=8)]
Seconds = Annotated[float, Field(ge=0.0, le=MAX_SECONDS)]
DeadlineS = Annotated[float, Field(gt=0.0, le=MAX_DEADLINE)]

_NEW: dict[str, Any] = {
    "white": {"agent_id": "alpha", "name": "Aggressive Alpha", "personality": "aggressive"},
    "black": {"agent_id": "beta"},
    "players": {"black": "random"},
    "seed": 1,
}
_PLAYED_ON: dict[str, Any] = {**_NEW, "fork_of": {"world_id": "immortal-game", "at": "ply:30"}}
_MOVE: dict[str, Any] = {"agent_id": "alpha", "move": "e2e4", "thinking_time": 2.34, "req_id": "move-1"}
_RESIGNATION: dict[str, Any] = {"agent_id": "alpha", "req_id": "enough"}
_ONE_OF_TWO: dict[str, Any] = {
    "oneOf": [
        {"required": [one], "properties": {one: {"type": "string"}, other: {"type": "null"}}}
        for one, other in (("agent_id", "player"), ("player", "agent_id"))
    ]
}


# -- making a game -----------------------------------------------------------------------------------------


class DeadlineOfEach(Shape):
    """Seconds for a move of each colour; null for no limit."""

    model_config = ConfigDict(extra="forbid")

    white: DeadlineS | None
    black: DeadlineS | None


class GameForkOf(BaseModel):
    """The game that is played on, recorded or live, and the moment from which on."""

    model_config = ConfigDict(extra="forbid", strict=True)

    world_id: WorldName
    at: str = Field(
        default="head", min_length=1, max_length=200, description=f"Before the game was over: {moment_rule()}."
    )


class NewGame(LiveConfig):
    """A game to be made: a world of its own, in which the game has begun and both agents are registered."""

    model_config = ConfigDict(json_schema_extra={"examples": [_NEW, _PLAYED_ON]})

    fork_of: GameForkOf | None = Field(
        default=None,
        description="The world is a fork of that one, in which these agents play on; `fen` and `chess960` are its own.",
    )


# -- moves -------------------------------------------------------------------------------------------------


class MoveRequest(Body):
    """An attempt to move. Exactly one of `agent_id` and `player` says whose it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [_MOVE], **_ONE_OF_TWO})

    move: str = Field(max_length=10_000, description="UCI (e2e4, e7e8q) or SAN (e4, Nf3, O-O).")
    agent_id: Word | None = None
    player: Player | None = Field(default=None, description="The colour of the agent.")
    thinking_time: Seconds | None = Field(default=None, description="Seconds; null if unknown.")
    req_id: Word | None = Field(default=None, description="Idempotency key, unique per agent and game.")
    ply: Annotated[int, Field(ge=1, le=MAX_INT)] | None = Field(
        default=None, description="The attempt counts only as the move of this number; 1 is the first."
    )


class Resignation(Body):
    """A resignation. Exactly one of `agent_id` and `player` says whose it is."""

    model_config = ConfigDict(json_schema_extra={"examples": [_RESIGNATION], **_ONE_OF_TWO})

    agent_id: Word | None = None
    player: Player | None = Field(default=None, description="The colour of the agent.")
    req_id: Word | None = Field(default=None, description="Idempotency key, unique per agent and game.")


class BoardState(Shape):
    """A position."""

    fen: str = Field(description="Always with the square that a pawn has just passed over, as the standards have it.")
    board_tensor: Tensor | None = Field(
        default=None,
        description="8x8x12 zeros and ones: ranks 8 to 1, files a to h, channels PNBRQKpnbrqk. Absent where "
        "`tensor=false`.",
    )
    legal_moves: list[Uci] = Field(description="In UCI, sorted; castling in Chess960 goes to the rook's square.")
    is_check: bool
    is_checkmate: bool
    is_stalemate: bool
    castling_rights: str = Field(description="Of `KQkq`, empty for none; in Chess960 perhaps a file's letter.")
    en_passant_square: str | None = Field(pattern=r"^[a-h][36]$")
    halfmove_clock: int = Field(ge=0, le=MAX_HALFMOVE_CLOCK)
    fullmove_number: int = Field(ge=1)


class PlayedMove(MoveFields, Shape):
    """A move that was made."""


class GameEnd(Shape):
    """The end of a game."""

    status: Status
    result: Result
    reason: Reason | None
    global_seq: GlobalSeq = Field(description="The effect that says so.")


class MoveOutcome(Shape):
    """The outcome of an attempt. A rejected one is recorded, too, and the game goes on."""

    game_id: WorldName
    agent_id: Word
    player: Player
    accepted: bool = Field(description="True if it was a legal move and is made.")
    global_seq: GlobalSeq = Field(description="The effect that it has become: MoveMade or MoveRejected.")
    ply: int = Field(ge=1, description="The move's number, or the one that it would have had.")
    fen: str | None = Field(description="The position after it, as in the log.")
    move: PlayedMove | None = Field(description="The move, if it was made.")
    attempted: str | None = Field(description="The attempt, if it was rejected.")
    reason: str | None = Field(description="The reason if it was rejected: `illegal_move`, `player_failed`.")
    detail: str | None = Field(description="The same for people.")
    attempts_left: int | None = Field(
        description="The number of attempts that may still be rejected before the fallback."
    )
    fallback: PlayedMove | None = Field(description="The move that was made instead by the fallback, if any.")
    ended: GameEnd | None = Field(description="The end of the game, if this has ended it.")
    replayed: bool = Field(description="True if an earlier request with this req_id had this answer.")
    board_state: BoardState | None = Field(description="The position that it led to; of a rejected one, as it stood.")


class ResignOutcome(Shape):
    """A resignation that was accepted."""

    game_id: WorldName
    agent_id: Word
    player: Player
    global_seq: GlobalSeq
    ended: GameEnd
    replayed: bool
    board_state: BoardState | None = Field(description="The last position.")


# -- rows of projections ----------------------------------------------------------------------------------

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
    worlds: int = Field(description="The number of worlds in which it has acted or is a player.")
    effects: int = Field(description="The number of effects that have it as their source.")
    first_seen_at: datetime
    last_seen_at: datetime


class AgentPage(Shape):
    """A page of agents by name."""

    agents: list[Agent]
    next_after: str | None = Field(description="The `after` of the next page; null when this is the last.")


class AgentStats(Shape):
    """An agent's results over all its games (AgentStats). Games that have not ended do not count."""

    agent_id: str
    games_played: int = Field(description="games_won + games_lost + games_drawn.")
    games_won: int
    games_lost: int
    games_drawn: int
    total_moves: int
    average_thinking_time: float = Field(description="Seconds, over the moves whose time is known; 0 if none is.")
    illegal_moves_attempted: int
    timeouts: int = Field(description="Games lost by running out of time.")


# -- the state of a game -----------------------------------------------------------------------------------


class GameAgent(Shape):
    """The agent of a colour, with its numbers in this game."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    agent_id: str
    name: str | None
    personality: str | None = Field(description="Null if the game is not played here.")
    model_name: str | None
    player: PlayerSpec | None = Field(description="Its player: `external`, `random`, …")
    total_moves: int
    illegal_moves_attempted: int
    thinking_time: float = Field(description="Seconds, the sum of those known.")


class GameAgents(Shape):
    """Both agents."""

    white: GameAgent
    black: GameAgent


class Clocks(Shape):
    """Seconds left on each clock when it was last known; null where it is not."""

    white: float | None
    black: float | None


class LiveSettings(Shape):
    """The settings of a live game: see NewGame."""

    max_illegal: int
    fallback: Literal["resign", "random"]
    deadline_s: float | DeadlineOfEach | None
    seed: int | None


class Game(GameSummary):  # type: ignore[valid-type, misc]
    """A game as it stands: its row, and the Game with its BoardState.

    What comes after the row's columns is read from the log itself. It is null where there is none: nothing has begun,
    or the record is none of standard chess or Chess960.
    """

    global_seq: GlobalSeq | None = Field(description="The last effect of the world that is in it.")
    current_turn: Player | None
    board_state: BoardState | None
    move_history: list[PlayedMove] | None = Field(description="Absent with `moves=false`.", default=None)
    agents: GameAgents | None
    clocks: Clocks | None
    live: LiveSettings | None = Field(description="Its settings; null for a game that is not played here.")
    move_deadline: datetime | None = Field(description="The end of the time of the side to move.")
    attempts_left: int | None = Field(
        description="The number of attempts of the side to move that may still be rejected."
    )


# -- sessions ----------------------------------------------------------------------------------------------


class PlayerStats(Shape):
    """An agent's numbers in this game (AgentStats)."""

    games_played: int
    games_won: int
    games_lost: int
    games_drawn: int
    total_moves: int
    average_thinking_time: float
    illegal_moves_attempted: int
    timeouts: int


class PlayingAgent(AgentSpec):
    """An agent with all its settings (an Agent)."""

    stats: PlayerStats


class GameSession(Shape):
    """A live game that is in the memory of this process."""

    session_id: str = Field(description="A UUID that follows from the game.")
    game_id: WorldName
    websocket_connections: int = Field(ge=0, description="The number of its watchers here.")
    agent_white: PlayingAgent
    agent_black: PlayingAgent
    created_at: datetime
    is_active: bool = Field(description="False once the game has ended.")


class SessionList(Shape):
    """The live games in memory, the most recently asked for last."""

    sessions: list[GameSession]
