"""Moves as whole numbers, for learners: the coding of PettingZoo's chess.

An action is ``file * 584 + rank * 73 + plane``, where file and rank (from 0) are those of the starting square, and the
plane is the kind of move, seen from the side that moves: Black's moves are mirrored, so that both sides go up the
board.

- planes 0 to 55, like a queen: ``8 * (distance - 1) + direction``, the directions being (-1, -1), (-1, 0), (-1, 1), (0,
  -1), (0, 1), (1, -1), (1, 0), (1, 1) as (files, ranks). Castling, too: to the king's new square, in Chess960 to the
  rook's square. A pawn that reaches the last rank this way becomes a queen.
- planes 56 to 63, like a knight: (-2, -1), (-2, 1), (-1, -2), (-1, 2), (1, -2), (1, 2), (2, -1), (2, 1)
- planes 64 to 72, pawns that become another piece: ``64 + 3 * (files + 1) + piece``, the pieces being knight, bishop
  and rook

Source: docs/how-to-pettingzoo.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import chess
import numpy as np

#: The number of actions; most of them are not a legal move in any position.
ACTIONS: Final = 8 * 8 * 73

_PLANES: Final = 73
_UNDERPROMOTIONS: Final = 64
_PIECES: Final = (chess.KNIGHT, chess.BISHOP, chess.ROOK)
_DIRECTIONS: Final = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if x or y]
_JUMPS: Final = [(x, y) for x in (-2, -1, 1, 2) for y in (-2, -1, 1, 2) if abs(x) + abs(y) == 3]
#: The files and ranks that planes 0 to 63 move; and the reverse.
_STEPS: Final = [(n * x, n * y) for n in range(1, 8) for x, y in _DIRECTIONS] + _JUMPS
_PLANE_OF: Final = {step: plane for plane, step in enumerate(_STEPS)}


def action_of(move: chess.Move, turn: chess.Color) -> int:
    """Return the action of this move by that side. Raises ValueError for a move without one, such as a null move."""
    seen = (lambda square: square) if turn else chess.square_mirror
    origin, target = seen(move.from_square), seen(move.to_square)
    file, rank = chess.square_file(origin), chess.square_rank(origin)
    files, ranks = chess.square_file(target) - file, chess.square_rank(target) - rank
    if move.promotion in _PIECES and ranks == 1 and -1 <= files <= 1:
        plane = _UNDERPROMOTIONS + 3 * (files + 1) + _PIECES.index(move.promotion)
    elif move.promotion in {None, chess.QUEEN} and (files, ranks) in _PLANE_OF:
        plane = _PLANE_OF[files, ranks]
    else:
        raise ValueError(f"{move.uci()} is no action")
    return (8 * file + rank) * _PLANES + plane


def move_of(action: int, board: chess.Board) -> chess.Move | None:
    """Return the move of an action by the side to move, legal or not; None if it leads off the board.

    Raises ValueError for a number that is not an action.
    """
    if not 0 <= action < ACTIONS:
        raise ValueError(f"an action is 0 to {ACTIONS - 1}, not {action}")
    square, plane = divmod(action, _PLANES)
    file, rank = divmod(square, 8)
    promotion: chess.PieceType | None = None
    if plane < _UNDERPROMOTIONS:
        files, ranks = _STEPS[plane]
    else:
        sideways, piece = divmod(plane - _UNDERPROMOTIONS, 3)
        files, ranks, promotion = sideways - 1, 1, _PIECES[piece]
    if not (0 <= file + files < 8 and 0 <= rank + ranks < 8):
        return None
    origin, target = chess.square(file, rank), chess.square(file + files, rank + ranks)
    if not board.turn:
        origin, target = chess.square_mirror(origin), chess.square_mirror(target)
    if promotion is None and rank + ranks == 7 and board.piece_type_at(origin) == chess.PAWN:
        promotion = chess.QUEEN
    return chess.Move(origin, target, promotion)


def legal_actions(board: chess.Board) -> dict[int, chess.Move]:
    """Return the legal moves of the side to move, by their actions."""
    return {action_of(move, board.turn): move for move in board.legal_moves}


def action_mask(actions: Iterable[int]) -> np.ndarray[Any, np.dtype[np.int8]]:
    """Return ones for these actions, else zeros: int8 of the shape (4672,)."""
    mask = np.zeros(ACTIONS, dtype=np.int8)
    mask[list(actions)] = 1
    return mask
