"""Positions: the variants by name, FEN as the state keeps it, and python-chess's board for one."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import chess
import chess.variant

from worldledger_chess.rules.endings import Player

#: What a game without a variant is.
STANDARD: Final = "standard"
#: The kinds of game that python-chess's own board plays; "#" means checkmate in them and nothing else.
ORTHODOX: Final = frozenset({STANDARD, "chess960"})
#: The games that can be played, by the name that they have in GameStarted (as the PGN reader writes it).
VARIANTS: Final[dict[str, type[chess.Board]]] = {
    STANDARD: chess.Board,
    "chess960": chess.Board,
    **{str(board.uci_variant): board for board in chess.variant.VARIANTS if board is not chess.Board},
}

#: What python-chess raises for texts and positions that it cannot work with.
UNREADABLE: Final = (ValueError, IndexError, KeyError, AssertionError)

# As python-chess writes it: pieces (with Crazyhouse's pocket and promotion marks), side to move, castling rights,
# en passant, Three-check's checks, clock and number. Bounded, because it stands in the state.
_FEN: Final = re.compile(
    r"[1-8A-Za-z/~\[\]]{1,300} ([wb]) (-|[A-Ha-hKQkq]{1,16}) (-|[a-h][1-8])(?: [0-9]{1,3}\+[0-9]{1,3})?"
    r" ([0-9]{1,15}) ([0-9]{1,15})\Z"
)
_TURNS: Final[dict[str, Player]] = {"w": "white", "b": "black"}


class Fields(NamedTuple):
    """What a FEN says besides where the pieces stand."""

    turn: Player
    castling_rights: str
    en_passant_square: str | None
    halfmove_clock: int
    fullmove_number: int


def fen_fields(fen: str) -> Fields | None:
    """Read a FEN's fields; None for a text that does not have the shape of one. Where the pieces stand is not read."""
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
    """Return the board of a position, of the variant's usual one without ``fen``. Raises one of `UNREADABLE`."""
    board = VARIANTS[variant]
    return board(board.starting_fen if fen is None else fen, chess960=variant == "chess960")
