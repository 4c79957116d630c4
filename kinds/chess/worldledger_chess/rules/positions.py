"""Positions: the variants by name, the state's form of FEN, and python-chess's board for it."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import chess
import chess.variant

from worldledger_chess.rules.endings import Player

#: The variant of a game without one.
STANDARD: Final = "standard"
#: The variants that python-chess's own board plays; in them "#" means checkmate and nothing else.
ORTHODOX: Final = frozenset({STANDARD, "chess960"})
#: The playable variants, by the name in GameStarted (as the PGN reader writes it).
VARIANTS: Final[dict[str, type[chess.Board]]] = {
    STANDARD: chess.Board,
    "chess960": chess.Board,
    **{str(board.uci_variant): board for board in chess.variant.VARIANTS if board is not chess.Board},
}

#: The errors of python-chess for texts and positions that it cannot use.
UNREADABLE: Final = (ValueError, IndexError, KeyError, AssertionError)

# As python-chess writes it: pieces (with Crazyhouse's pocket and promotion marks), side to move, castling rights, en
# passant, Three-check's checks, clock and number. Bounded, because the state holds it.
_FEN: Final = re.compile(
    r"[1-8A-Za-z/~\[\]]{1,300} ([wb]) (-|[A-Ha-hKQkq]{1,16}) (-|[a-h][1-8])(?: [0-9]{1,3}\+[0-9]{1,3})?"
    r" ([0-9]{1,15}) ([0-9]{1,15})\Z"
)
_TURNS: Final[dict[str, Player]] = {"w": "white", "b": "black"}


class Fields(NamedTuple):
    """The fields of a FEN besides the pieces."""

    turn: Player
    castling_rights: str
    en_passant_square: str | None
    halfmove_clock: int
    fullmove_number: int


def fen_fields(fen: str) -> Fields | None:
    """Read a FEN's fields; None for a text of another form. The pieces are not read."""
    match = _FEN.match(fen)
    if match is None:
        return None
    turn, castling, en_passant, clock, number = match.groups()
    return Fields(
        _TURNS[turn],
        "" if castling == "-" else castling,
        None if en_passant == "-" else en_passant,
        int(clock),
        int(number),
    )


def position(variant: str, fen: str | None = None) -> chess.Board:
    """Return the board of a position, by default of the variant's usual one. Raises one of `UNREADABLE`."""
    board = VARIANTS[variant]
    return board(board.starting_fen if fen is None else fen, chess960=variant == "chess960")
