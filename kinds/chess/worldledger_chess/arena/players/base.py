"""What a player is asked, and what every player can do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

import chess


@dataclass(frozen=True, slots=True)
class Position:
    """A position in which a player is to move, with the whole way to it.

    ``initial_fen``: where the game began, in the very text that it began with. ``chess960``: whether castling is
    written in the way of Chess960. ``moves``: all moves so far, as UCI. ``fen``: the position now, as python-chess
    writes it. ``player``: the side to move. ``legal_moves``: UCI, sorted. ``remaining_s``: seconds that are left for
    this move; None for no limit.
    """

    initial_fen: str
    chess960: bool
    moves: tuple[str, ...]
    fen: str
    player: Literal["white", "black"]
    legal_moves: tuple[str, ...]
    remaining_s: float | None = None

    @classmethod
    def of(cls, board: chess.Board, *, initial_fen: str | None = None, remaining_s: float | None = None) -> Position:
        """Return the position of a board that has the game's moves on its stack; ``initial_fen`` as text if known."""
        return cls(
            initial_fen=board.root().fen() if initial_fen is None else initial_fen,
            chess960=board.chess960,
            moves=tuple(move.uci() for move in board.move_stack),
            fen=board.fen(),
            player="white" if board.turn else "black",
            legal_moves=tuple(sorted(move.uci() for move in board.legal_moves)),
            remaining_s=remaining_s,
        )

    def board(self) -> chess.Board:
        """Return a new board with the moves on its stack. They are believed: whether each is legal is not looked at.

        Raises ValueError for a FEN or a move that cannot be read.
        """
        board = chess.Board(self.initial_fen, chess960=self.chess960)
        for move in self.moves:
            board.push(chess.Move.from_uci(move))
        return board


@runtime_checkable
class Player(Protocol):
    """Moves for one side of one game; asked for one move at a time."""

    @property
    def name(self) -> str:
        """What the player is called in messages."""

    async def move(self, position: Position) -> str:
        """Return the move that the player attempts, as UCI or SAN. It need not be a legal one, nor a move at all.

        Raises PlayerError where there is none. May be cancelled at any time, and be asked again after that or after
        an error.
        """

    async def close(self) -> None:
        """End everything that the player has started. May be called more than once, and while it is moving."""
