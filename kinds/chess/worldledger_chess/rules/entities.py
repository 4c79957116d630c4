"""The entities: Game, BoardState, Move, Agent, AgentStats and GameSession, with the rules that each keeps.

They are made of a world's log and state, which are what is kept: a Game is a view of a world. Source:
docs/reference/contracts.md, "Chess". Besides:

- ``game_id`` is a world's name, since a game is a world; the arena names its games by UUID4.
- ``websocket_connections`` is how many watch, not the sockets.
- ``halfmove_clock`` goes to 150, see `BoardState`; datetimes have a zone, which is UTC.
- ``initial_fen``, ``variant`` and ``reason`` of a Game are there too, and what a null move, a drop (Crazyhouse)
  and a game of another variant are has no place in it: there is no Game of such a record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import chess
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.world import WorldState
from worldledger_chess.rules.agents import Agent, AgentSpec, AgentStats
from worldledger_chess.rules.board import BoardState
from worldledger_chess.rules.claims import MAX_SECONDS, play
from worldledger_chess.rules.endings import OTHER, Player, Reason, Result, Status
from worldledger_chess.rules.live import GameId
from worldledger_chess.rules.positions import MAX_FEN, SQUARE, UCI, fen_fields, read_fen
from worldledger_chess.rules.state import BOARD
from worldledger_chess.rules.times import Moment, moment

__all__ = ["Agent", "AgentSpec", "AgentStats", "BoardState", "Game", "GameSession", "Move", "moves_of"]

Piece: TypeAlias = Literal["pawn", "knight", "bishop", "rook", "queen", "king"]
Promotion: TypeAlias = Literal["queen", "rook", "bishop", "knight"]

_SAN: Final = r"^(?:[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](?:=[QRBN])?|O-O(?:-O)?)[+#]?$"
_LETTERS: Final = {"knight": "N", "bishop": "B", "rook": "R", "queen": "Q", "king": "K"}
_UUID4: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_LAST_RANK: Final[dict[Player, str]] = {"white": "8", "black": "1"}
#: The results of each status.
_RESULTS: Final[dict[Status, frozenset[Result | None]]] = {
    "in_progress": frozenset({None}),
    "checkmate": frozenset({"white_wins", "black_wins"}),
    "stalemate": frozenset({"draw"}),
    "draw": frozenset({"draw"}),
    "resigned": frozenset({"white_wins", "black_wins"}),
    "timeout": frozenset({"white_wins", "black_wins"}),
}


def _uuid4(value: str) -> str:
    if _UUID4.fullmatch(value) is None:
        raise ValueError("session_id is a UUID of version 4, in lower case")
    return value


class MoveFields(BaseModel):
    """The fields of a move, as they are shown."""

    from_square: str = Field(pattern=SQUARE)
    to_square: str = Field(pattern=SQUARE)
    piece: Piece
    player: Player
    uci_notation: str = Field(pattern=UCI)
    san_notation: str
    is_capture: bool
    is_castling: bool
    is_promotion: bool
    promotion_piece: Promotion | None
    timestamp: datetime
    thinking_time: float = Field(ge=0.0, description="Seconds; 0 where unknown.")


class Move(MoveFields):
    """One move.

    ``timestamp`` is the payload's, or else when its effect was written. ``thinking_time`` is in seconds, 0.0 where
    nobody said it. In Chess960 castling goes to the rook's square. That the move was legal where it was made, and that
    ``from_square`` had a piece of the player's, only the board can tell: see
    `worldledger_chess.rules.validation.move_errors`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    san_notation: str = Field(pattern=_SAN)
    promotion_piece: Promotion | None = None
    timestamp: Moment
    thinking_time: float = Field(ge=0.0, le=MAX_SECONDS, allow_inf_nan=False)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.from_square == self.to_square:
            raise ValueError("from_square and to_square are the same")
        if self.is_promotion != (self.promotion_piece is not None):
            raise ValueError("promotion_piece belongs to a promotion, and to nothing else")
        if self.is_promotion != (self.piece == "pawn" and self.to_square[1] == _LAST_RANK[self.player]):
            raise ValueError("is_promotion is said of a pawn that reaches the last rank, and of nothing else")
        piece = self.promotion_piece
        suffix = "" if piece is None else _LETTERS[piece].lower()
        if self.uci_notation != f"{self.from_square}{self.to_square}{suffix}":
            raise ValueError("uci_notation is from_square, to_square and the letter of the promotion_piece")
        self._check_castling()
        if not self.is_castling:
            letter = _LETTERS.get(self.piece, "")
            if (self.san_notation[0] if self.san_notation[0].isupper() else "") != letter:
                raise ValueError(f"san_notation is not that of a {self.piece}")
            if ("x" in self.san_notation) != self.is_capture:
                raise ValueError("san_notation has an x for a capture, and for nothing else")
        return self

    def _check_castling(self) -> None:
        if self.san_notation.startswith("O-O") != self.is_castling:
            raise ValueError("san_notation is O-O or O-O-O for castling, and for nothing else")
        if not self.is_castling:
            return
        home = _LAST_RANK[OTHER[self.player]]
        if self.piece != "king" or self.from_square[1] != home or self.to_square[1] != home:
            raise ValueError("is_castling is said of a king that moves along its own first rank")
        if self.is_capture:
            raise ValueError("castling captures nothing")

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """Make it of a MoveMade whose payload is whole, as the rules and the PGN reader write it.

        Raises ValueError for any other, and for what is no Move (null moves, drops). Of a move that says
        less, `moves_of` asks the board.
        """
        return cls._made(effect["payload"], effect)

    @classmethod
    def _made(cls, facts: Mapping[str, Any], effect: Effect) -> Self:
        said = effect["payload"]
        values: dict[str, Any] = {name: facts.get(name) for name in _FACTS}
        timestamp = said.get("timestamp")
        thinking_time = said.get("thinking_time")
        return cls(
            **values,
            timestamp=moment(effect["wall_time"]) if timestamp is None else timestamp,
            thinking_time=0.0 if thinking_time is None else thinking_time,
        )


_FACTS: Final = tuple(name for name in Move.model_fields if name not in {"timestamp", "thinking_time"})


def moves_of(effects: Sequence[Effect], *, initial_fen: str, variant: str = "standard") -> list[Move]:
    """Return the moves of a game's MoveMade effects, in order; what a payload leaves out the board tells.

    Other effects are passed over. Raises ValueError for a move that is not legal, and as `Move.of` does.
    """
    made = [effect for effect in effects if effect["kind"] == "MoveMade"]
    if all(_is_whole(effect["payload"]) for effect in made):
        return [Move.of(effect) for effect in made]
    board = read_fen(initial_fen, chess960=variant == "chess960")
    moves = []
    for ply, effect in enumerate(made, 1):
        try:
            facts = play(board, effect["payload"], ply=ply, null_moves=False).facts
        except IllegalEffectError as error:
            raise ValueError(f"ply {ply}: {error.reason}") from None
        moves.append(Move._made(facts, effect))  # noqa: SLF001 - of this module
    return moves


def _is_whole(payload: Mapping[str, Any]) -> bool:
    return all(name in payload for name in _FACTS)


class Game(BaseModel):
    """A game: its position, its moves, and how it stands.

    - ``game_id``: the world's name. ``current_turn``: who is to move, also where the game has ended.
    - ``status``, ``result``, ``reason``: the words of `worldledger_chess.rules.endings`; ``result`` and ``ended_at``
      are there once the status is not in_progress, and then for good.
    - ``move_history`` in order; it begins at ``initial_fen`` (the log's flavour of FEN).
    - ``started_at``, ``ended_at``, ``last_updated``: none before the first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    game_id: GameId
    board_state: BoardState
    move_history: list[Move] = Field(default_factory=list)
    current_turn: Player
    status: Status
    result: Result | None = None
    started_at: Moment
    ended_at: Moment | None = None
    last_updated: Moment
    initial_fen: str = Field(default=chess.STARTING_FEN, max_length=MAX_FEN)
    variant: Literal["standard", "chess960"] = "standard"
    reason: Reason | None = None

    @model_validator(mode="after")
    def _holds(self) -> Self:
        self._check_turns()
        if self.result not in _RESULTS[self.status]:
            known = " or ".join(sorted(str(result) for result in _RESULTS[self.status]))
            raise ValueError(f"the result of a game with the status {self.status} is {known}, not {self.result}")
        if (self.ended_at is None) != (self.status == "in_progress"):
            raise ValueError("ended_at is set when the game has ended, and not before")
        if self.reason is not None and self.status == "in_progress":
            raise ValueError("a game in progress has no reason for its end")
        for name in ("ended_at", "last_updated"):
            at = getattr(self, name)
            if at is not None and at < self.started_at:
                raise ValueError(f"{name} is before started_at")
        if self.status == "checkmate" and not self.board_state.is_checkmate:
            raise ValueError("the status is checkmate, and there is none on the board")
        if self.status == "stalemate" and not self.board_state.is_stalemate:
            raise ValueError("the status is stalemate, and there is none on the board")
        return self

    def _check_turns(self) -> None:
        start, now = fen_fields(self.initial_fen), fen_fields(self.board_state.fen)
        if start is None or now is None:
            raise ValueError("initial_fen is no FEN")
        if self.current_turn != now.turn:
            raise ValueError(f"current_turn is {self.current_turn}, but on the board it is the turn of {now.turn}")
        turn = start.turn
        for ply, move in enumerate(self.move_history, 1):
            if move.player != turn:
                raise ValueError(f"move_history: turns alternate, and ply {ply} is of {turn}")
            turn = OTHER[turn]
        made = 2 * (now.fullmove_number - start.fullmove_number)
        made += (now.turn == "black") - (start.turn == "black")
        if made != len(self.move_history):
            raise ValueError(f"move_history has {len(self.move_history)} moves, the board's turn number says {made}")

    @classmethod
    def of(cls, state: WorldState, moves: Sequence[Effect], *, game_id: str) -> Self:
        """Make it of a chess world's state and its MoveMade effects up to there; other effects are passed over.

        A MoveMade that the fold took for malformed (which no rules have let through) must not be among them.

        Raises ValueError where there is no such Game: nothing has started, another variant, a record with null moves or
        one that has led to a position that cannot be played.
        """
        board_state = BoardState.of(state.entities)
        board = state.entities[BOARD]
        history = moves_of(moves, initial_fen=board["initial_fen"], variant=board["variant"])
        return cls._made(board_state, board, history, game_id)

    @classmethod
    def from_entities(
        cls, entities: Mapping[str, Any], moves: Sequence[Move], *, game_id: str, board: BoardState | None = None
    ) -> Self:
        """Make it of a state's entities, once the game has begun, and its moves. Raises ValueError as `of`.

        ``board`` is the position where more is known of it: before the first move the entities do not have the square
        that was passed, unless somebody can capture there.
        """
        return cls._made(BoardState.of(entities) if board is None else board, entities[BOARD], moves, game_id)

    @classmethod
    def _made(cls, board_state: BoardState, board: Mapping[str, Any], moves: Sequence[Move], game_id: str) -> Self:
        ended = board["ended_at"]
        return cls(
            game_id=game_id,
            board_state=board_state,
            move_history=list(moves),
            current_turn=board["turn"],
            status=board["status"],
            result=board["result"],
            started_at=moment(board["started_at"]),
            ended_at=None if ended is None else moment(ended),
            last_updated=moment(board["last_updated"]),
            initial_fen=board["initial_fen"],
            variant=board["variant"],
            reason=board["reason"],
        )


class GameSession(BaseModel):
    """A game that is being played or watched here: who plays, and how many sockets watch.

    ``session_id`` is a UUID4. ``is_active`` is false once the game has ended or has left memory; nothing of it is lost
    then, since the log has it all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    session_id: Annotated[str, AfterValidator(_uuid4)]
    game_id: GameId
    websocket_connections: int = Field(default=0, ge=0)
    agent_white: Agent
    agent_black: Agent
    created_at: Moment
    is_active: bool = True

    @model_validator(mode="after")
    def _two_agents(self) -> Self:
        if self.agent_white.agent_id == self.agent_black.agent_id:
            raise ValueError("agent_white and agent_black are one agent")
        return self
