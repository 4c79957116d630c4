"""Reading attempted moves: UCI or SAN, on the board that they are meant for. Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import chess

from worldledger_chess.rules.board import is_uci

#: Longest text that is read as a move: no move in UCI or SAN is longer.
_MOST_CHARACTERS: Final = 20
#: Most characters of an attempt that the log keeps.
MAX_ATTEMPTED: Final = 100
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class Attempt(NamedTuple):
    """The meaning of a text on a board: a legal ``move``, or None and in ``why`` the reason."""

    move: chess.Move | None
    why: str = ""


def kept(text: str) -> str:
    """Return an attempted text as the log keeps it: cut, and with characters that JSON cannot hold replaced."""
    text = _UNSTORABLE.sub("\ufffd", text)
    return text if len(text) <= MAX_ATTEMPTED else f"{text[: MAX_ATTEMPTED - 1]}…"


def read_attempt(board: chess.Board, text: str) -> Attempt:
    """Read an attempt: text in UCI's form as UCI, any other as SAN; surrounding blanks are ignored.

    Castling may be given as the king's own move or, as in Chess960, to the rook's square. A null move is not a move.
    """
    wanted = text.strip()
    if not wanted:
        return Attempt(None, "there is no move in it")
    if len(wanted) > _MOST_CHARACTERS:
        return Attempt(None, "it is too long for a move")
    try:
        move = board.parse_uci(wanted) if is_uci(wanted) else board.parse_san(wanted)
    except chess.AmbiguousMoveError:
        return Attempt(None, "it is ambiguous: more than one piece can go there")
    except chess.IllegalMoveError:
        return Attempt(None, _why_illegal(board, wanted))
    except ValueError:
        return Attempt(None, "it cannot be read as a move, neither in UCI (e2e4, e7e8q) nor in SAN (e4, Nf3, O-O)")
    if not move:
        return Attempt(None, "a null move is none: the side to move must move")
    return Attempt(move)


def _why_illegal_san(board: chess.Board, text: str) -> str:
    """Say what is wrong with a readable move in SAN."""
    stem = text.rstrip("+#!?")
    try:
        board.parse_san(f"{stem}=Q")
    except ValueError:
        return "it is not legal here"
    return f"a pawn that reaches the last rank promotes: {stem}=Q, {stem}=R, {stem}=B or {stem}=N"


def _why_illegal(board: chess.Board, text: str) -> str:
    """Say what is wrong with a readable move."""
    if not is_uci(text):
        return _why_illegal_san(board, text)
    origin, target = chess.parse_square(text[:2]), chess.parse_square(text[2:4])
    piece = board.piece_at(origin)
    if piece is None:
        return f"there is no piece on {text[:2]}"
    if piece.color != board.turn:
        return f"the {chess.piece_name(piece.piece_type)} on {text[:2]} is the opponent's"
    promotes = piece.piece_type == chess.PAWN and chess.square_rank(target) in {0, 7}
    if promotes and len(text) == 4:
        return f"a pawn that reaches the last rank promotes: {text}q, {text}r, {text}b or {text}n"
    if not promotes and len(text) == 5:
        return f"nothing promotes by it: {text[:4]}, if that is meant"
    if board.is_pseudo_legal(chess.Move(origin, target, chess.QUEEN if promotes else None)):
        return "it would leave the king in check"
    return f"the {chess.piece_name(piece.piece_type)} on {text[:2]} cannot go to {text[2:4]}"
