"""Positions from outside: a FEN, a chess world's entities, a list of moves.

Two flavours of FEN are read, see `worldledger_chess.rules.board`. Source: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import chess

from worldledger_chess.rules.positions import ORTHODOX, STANDARD, UNREADABLE, fen_fields, position
from worldledger_chess.rules.state import BOARD
from worldledger_chess.rules.tags import UNPLAYABLE, status_text

#: The form of a move in UCI, and of a square.
UCI: Final = r"^[a-h][1-8][a-h][1-8][qrbn]?$"
SQUARE: Final = r"^[a-h][1-8]$"
#: A longer text is not a position: the longest FEN has some ninety characters.
MAX_FEN: Final = 128
#: At 100 a draw by fifty moves can be claimed; without a claim the game goes on, and ends by itself at 150.
MAX_HALFMOVE_CLOCK: Final = 150
#: Faults of positions that cannot be reached, or played on.
_IMPOSSIBLE: Final = UNPLAYABLE | chess.STATUS_INVALID_EP_SQUARE


def is_uci(text: str) -> bool:
    """Return whether a text has the form of a move in UCI; its legality is not checked."""
    return re.fullmatch(UCI, text) is not None


def board_of(entities: Mapping[str, Any]) -> chess.Board:
    """Return python-chess's board of a world's entities, without its moves; the passed square is that of the last move.

    Raises ValueError as `BoardState.of` does.
    """
    entity = entities.get(BOARD)
    if entity is None:
        raise ValueError("the game has not started")
    if entity["variant"] not in ORTHODOX:
        raise ValueError(f"a BoardState is of standard chess or Chess960, not of {entity['variant']}")
    board = read_fen(entity["fen"], chess960=entity["variant"] == "chess960")
    last = entity["last_move"]
    if last is not None and board.ep_square is None and last["from_square"] is not None:
        origin, target = chess.parse_square(last["from_square"]), chess.parse_square(last["to_square"])
        if board.piece_type_at(target) == chess.PAWN and abs(origin - target) == 16:
            board.ep_square = (origin + target) // 2
    return board


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
