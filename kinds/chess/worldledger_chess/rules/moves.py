"""One move as the payload of a MoveMade effect: a Move and what a recorded game knows besides.

Source of the names: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import chess

from worldledger_chess.rules.notation import Made, fen_of, push


def play_move(board: chess.Board, move: chess.Move, *, ply: int, agent_id: str) -> dict[str, Any]:
    """Push a legal move (or a null move) on the board and give its payload, see `payload_of`."""
    player = "white" if board.turn else "black"
    made = push(board, move)
    return payload_of(made, fen_of(board), ply=ply, player=player, agent_id=agent_id)


def payload_of(made: Made, fen: str, *, ply: int, player: str, agent_id: str) -> dict[str, Any]:
    """Return the payload of a move that was made.

    Fields of a Move:

    - ``from_square``, ``to_square``: like ``e2``; in Chess960 castling goes to the rook's square, as in UCI.
    - ``piece``, ``promotion_piece``: pawn, knight, bishop, rook, queen or king. ``player``: white or black.
    - ``uci_notation``; ``san_notation`` as python-chess writes it, whatever the file wrote.
    - ``is_capture`` (en passant included), ``is_castling``, ``is_promotion``.
    - ``timestamp``: null, for PGN knows none. ``thinking_time``: seconds; null where unknown.

    A null move (``--`` in PGN) has ``is_null`` true, ``0000`` and ``--`` as notations, and null squares and piece.
    A piece dropped from the hand (Crazyhouse) has no ``from_square``.

    Besides these: ``ply`` (1 is the game's first), ``agent_id``, ``fen`` after the move (as python-chess writes it:
    with an en passant square only where such a capture is legal), and what the recorder knew: ``clock`` (seconds left),
    ``evaluation`` ({cp | mate, depth?}, from White's side), ``comment`` (its text, or null), ``commands`` (commands in
    comments that are not understood here, verbatim), ``nags`` and ``variations`` (sidelines to this move).
    """
    piece, origin, target, promotion, is_capture, is_castling, uci, san = made
    is_null = not piece
    return {
        "ply": ply,
        "player": player,
        "agent_id": agent_id,
        "from_square": None if origin is None else chess.SQUARE_NAMES[origin],
        "to_square": None if is_null else chess.SQUARE_NAMES[target],
        "piece": None if is_null else chess.PIECE_NAMES[piece],
        "uci_notation": uci,
        "san_notation": san,
        "is_capture": is_capture,
        "is_castling": is_castling,
        "is_promotion": promotion is not None,
        "promotion_piece": None if promotion is None else chess.PIECE_NAMES[promotion],
        "is_null": is_null,
        "timestamp": None,
        "thinking_time": None,
        "clock": None,
        "evaluation": None,
        "comment": None,
        "commands": [],
        "nags": [],
        "variations": 0,
        "fen": fen,
    }


def move_number(payload: Mapping[str, Any]) -> int | None:
    """Return the number of the move that a half-move belongs to, as records count: 1 has White's first and the reply.

    None for a payload that does not say it. (``fen`` is the position afterwards, and Black's moves raise its number.)
    """
    fen, player = payload.get("fen"), payload.get("player")
    number = fen.rpartition(" ")[2] if isinstance(fen, str) else ""
    return int(number) - (player == "black") if number.isdecimal() and len(number) < 10 else None
