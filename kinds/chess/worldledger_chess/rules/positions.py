"""Positions: the variants by name, the state's form of FEN, python-chess's board for it, and positions from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable
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

#: The faults in python-chess's Board.status() that make a position unplayable.
UNPLAYABLE: Final = (
    chess.STATUS_NO_WHITE_KING
    | chess.STATUS_NO_BLACK_KING
    | chess.STATUS_TOO_MANY_KINGS
    | chess.STATUS_PAWNS_ON_BACKRANK
    | chess.STATUS_OPPOSITE_CHECK
    | chess.STATUS_EMPTY
    | chess.STATUS_RACE_CHECK
)
#: The form of a move in UCI, and of a square.
UCI: Final = r"^[a-h][1-8][a-h][1-8][qrbn]?$"
SQUARE: Final = r"^[a-h][1-8]$"
#: A longer text is not a position: the longest FEN has some ninety characters.
MAX_FEN: Final = 128
#: At 100 a draw by fifty moves can be claimed; without a claim the game goes on, and ends by itself at 150.
MAX_HALFMOVE_CLOCK: Final = 150
#: Faults of positions that cannot be reached, or played on.
_IMPOSSIBLE: Final = UNPLAYABLE | chess.STATUS_INVALID_EP_SQUARE

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


def status_text(status: chess.Status) -> str:
    """Describe what python-chess finds wrong with a position."""
    names = [str(flag.name).lower().replace("_", " ") for flag in chess.Status if flag and status & flag]
    return ", ".join(names)


# -- positions from outside: a FEN, a list of moves ----------------------------------------------------------
#
# Two flavours of FEN are read, see `worldledger_chess.rules.board`. Source: docs/reference/contracts.md, "Chess".


def is_uci(text: str) -> bool:
    """Return whether a text has the form of a move in UCI; its legality is not checked."""
    return re.fullmatch(UCI, text) is not None


def read_fen(fen: str, *, chess960: bool = False) -> chess.Board:
    """Return the board of a FEN of standard chess or Chess960.

    Raises ValueError for a text that is not a FEN or is longer than MAX_FEN, for an unplayable position (a king that is
    missing or superfluous, pawns on the first or last rank, the side to move could take the king, a passed square that
    no pawn has passed), and for clocks out of range.
    """
    if len(fen) > MAX_FEN:
        raise ValueError(f"a FEN has at most {MAX_FEN} characters, this one {len(fen)}")
    try:
        board = position("chess960" if chess960 else STANDARD, fen)
    except UNREADABLE as error:
        raise ValueError(f"the FEN cannot be read: {error}") from None
    check_position(board)
    return board


def replayed(initial_fen: str, moves: Iterable[str], *, chess960: bool = False) -> chess.Board:
    """Return the board after these moves (UCI), with its moves, which decide about repetition.

    Raises ValueError for the FEN as `read_fen` does, and for an illegal move.
    """
    board = read_fen(initial_fen, chess960=chess960)
    for move in moves:
        board.push_uci(move)
    return board


def check_position(board: chess.Board) -> None:
    """Raise ValueError for a position that `read_fen` would refuse."""
    status = board.status() & _IMPOSSIBLE
    if status:
        raise ValueError(f"the position cannot be played: {status_text(status)}")
    if not 0 <= board.halfmove_clock <= MAX_HALFMOVE_CLOCK:
        raise ValueError(f"the halfmove clock is 0 to {MAX_HALFMOVE_CLOCK}, not {board.halfmove_clock}")
    if fen_fields(board.fen()) is None:
        raise ValueError(f"the FEN cannot be kept: {board.fen()}")
