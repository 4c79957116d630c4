"""A game of standard chess or Chess960 that is read move by move.

It is python-chess's board, which knows the rules, with a short way for plain moves: a pawn or the only piece of its
type that reaches a square goes there, without castling, promotion or en passant. That is nine moves of ten, in less
than half the time. All others are python-chess's, on the same board.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, Self

import chess

from worldledger_chess.rules.notation import (
    RANKS,
    Made,
    checkers,
    fen_of,
    is_plain,
    movers,
    planes,
    ranks_of,
    san_without_suffix,
)

#: Most words that are remembered.
_MOST_WORDS: Final = 65_536
_PLAIN: Final = re.compile(r"([NBRQK]?)([a-h]?)([1-8]?)x?([a-h][1-8])[+#]?\Z")


class _Word(NamedTuple):
    """Which piece, from which squares it may come, and where to."""

    piece: chess.PieceType
    squares: int
    target: chess.Square


class _Words(dict[str, _Word | None]):
    """What the words for moves mean; None for those that are not plain."""

    def __missing__(self, text: str) -> _Word | None:
        if len(self) >= _MOST_WORDS:
            self.clear()
        match = _PLAIN.match(text)
        word = None
        if match is not None:
            letter, file, rank, square = match.groups()
            squares = chess.BB_ALL
            if file:
                squares &= chess.BB_FILES[chess.FILE_NAMES.index(file)]
            if rank:
                squares &= chess.BB_RANKS[int(rank) - 1]
            target = chess.parse_square(square)
            if letter:
                word = _Word(chess.PIECE_SYMBOLS.index(letter.lower()), squares, target)
            elif not rank and 0 < chess.square_rank(target) < 7:
                word = _Word(chess.PAWN, squares, target)
        self[text] = word
        return word


_WORDS: Final = _Words()

#: From where a rook, a bishop or a queen may attack a square, were the board empty.
_LINES: Final = [
    chess.BB_RANK_ATTACKS[square][0] | chess.BB_FILE_ATTACKS[square][0] | chess.BB_DIAG_ATTACKS[square][0]
    for square in chess.SQUARES
]
#: From where a piece of each type may attack a square; a king gives no check.
_ATTACKS: Final[list[list[int]]] = [
    [0] * 64,
    [chess.BB_PAWN_ATTACKS[chess.WHITE][square] | chess.BB_PAWN_ATTACKS[chess.BLACK][square] for square in range(64)],
    chess.BB_KNIGHT_ATTACKS,
    [chess.BB_DIAG_ATTACKS[square][0] for square in range(64)],
    [chess.BB_RANK_ATTACKS[square][0] | chess.BB_FILE_ATTACKS[square][0] for square in range(64)],
    _LINES,
    [0] * 64,
]


class Line(chess.Board):
    """The position of a game and the FENs of all positions so far, this one last. Plain moves cannot be taken back."""

    fens: list[str]
    _ranks: list[str]
    _in_check: bool

    @classmethod
    def of(cls, board: chess.Board) -> Self | None:
        """Begin at the position of a board; None for a variant's, and where the side that waits is in check."""
        if not is_plain(board) or board.was_into_check():
            return None
        line = cls(None, chess960=board.chess960)
        line.pawns, line.knights, line.bishops = board.pawns, board.knights, board.bishops
        line.rooks, line.queens, line.kings = board.rooks, board.queens, board.kings
        line.occupied, line.promoted = board.occupied, board.promoted
        line.occupied_co[:] = board.occupied_co
        line.turn, line.ep_square = board.turn, board.ep_square
        line.halfmove_clock, line.fullmove_number = board.halfmove_clock, board.fullmove_number
        line.castling_rights = board.clean_castling_rights()
        line._ranks = ranks_of(line)
        line._in_check = line.is_check()
        line.fens = [fen_of(line, line._ranks)]
        return line

    def clean_castling_rights(self) -> chess.Bitboard:
        """Return the castling rights, which were cleaned at the beginning."""
        return self.castling_rights

    def is_repetition(self, count: int = 3) -> bool:
        """Tell whether the position, with its castling rights and what can be captured en passant, is the n-th such."""
        position = self.fens[-1].rsplit(" ", 2)[0] + " "
        return sum(fen.startswith(position) for fen in self.fens) >= count

    def pushed(self, made: Made) -> None:
        """Take note of a move that was made by python-chess's ways."""
        self._in_check = made.san[-1] in "+#"
        self._ranks = ranks_of(self)
        self.fens.append(fen_of(self, self._ranks))

    def play(self, san: str) -> Made | None:
        """Make a plain, legal move; None where the text is none, and then nothing has changed."""
        word = _WORDS[san]
        if word is None:
            return None
        piece, squares, target = word
        turn = self.turn
        to = chess.BB_SQUARES[target]
        if to & (self.occupied_co[turn] | self.kings):
            return None
        is_capture = self.occupied & to != 0
        if piece == chess.PAWN:
            mover = self._pawns(squares, target, is_capture=is_capture)
        else:
            mover = movers(self, piece, target)
        if not mover or mover & (mover - 1) or not mover & squares:
            return None  # nobody, or several, of whom all but one may be pinned
        origin = mover.bit_length() - 1
        if not self._is_safe_after(piece, mover, to):
            return None
        self._put(piece, mover, to, is_capture=is_capture)
        if piece == chess.PAWN and abs(target - origin) == 16:
            self.ep_square = (target + origin) // 2
        san = san_without_suffix(piece, origin, target, is_capture=is_capture)
        king = (self.kings & self.occupied_co[not turn]).bit_length() - 1
        may_check = to & _ATTACKS[piece][king] or mover & _LINES[king]  # else it has opened or attacked nothing of it
        self._in_check = may_check != 0 and checkers(self, turn) != 0
        if self._in_check:
            san += "+" if any(self.generate_legal_moves()) else "#"
        one, two, three, white = planes(self)
        for shift in {origin & 56, target & 56}:
            rank = one >> shift & 255, two >> shift & 255, three >> shift & 255, white >> shift & 255
            self._ranks[7 - (shift >> 3)] = RANKS[rank]
        self.fens.append(fen_of(self, self._ranks))
        uci = chess.SQUARE_NAMES[origin] + chess.SQUARE_NAMES[target]
        return Made(piece, origin, target, None, is_capture, False, uci, san)

    def _pawns(self, squares: int, target: chess.Square, *, is_capture: bool) -> int:
        """Return the pawns that come to a square; by a capture, if their file is given, and only then."""
        turn = self.turn
        pawns = self.pawns & self.occupied_co[turn]
        if squares != chess.BB_ALL:
            return pawns & squares & chess.BB_PAWN_ATTACKS[not turn][target] if is_capture else 0
        if is_capture:
            return 0
        step = -8 if turn else 8
        near = chess.BB_SQUARES[target + step]
        if self.occupied & near:
            return pawns & near
        return pawns & chess.BB_SQUARES[target + 2 * step] if target >> 3 == (3 if turn else 4) else 0

    def _is_safe_after(self, piece: chess.PieceType, mover: int, to: int) -> bool:
        """Tell whether the king of the side to move is not in check once a piece has moved."""
        king = to if piece == chess.KING else self.kings & self.occupied_co[self.turn]
        square = king.bit_length() - 1
        if square < 0:
            return False
        if piece != chess.KING and not self._in_check:
            line = chess.BB_RAYS[square][mover.bit_length() - 1]  # nothing, where the two do not stand on one
            if not line & self.occupied_co[not self.turn] & (self.bishops | self.rooks | self.queens):
                return True
        return not self.attackers_mask(not self.turn, square, self.occupied & ~mover | to) & ~to

    def _put(self, piece: chess.PieceType, mover: int, to: int, *, is_capture: bool) -> None:
        """Do what python-chess's ``push`` does for a plain move."""
        turn = self.turn
        both = mover | to
        if is_capture:
            keep = ~to
            self.occupied_co[not turn] &= keep
            self.pawns &= keep
            self.knights &= keep
            self.bishops &= keep
            self.rooks &= keep
            self.queens &= keep
        if piece == chess.PAWN:
            self.pawns ^= both
        elif piece == chess.KNIGHT:
            self.knights ^= both
        elif piece == chess.BISHOP:
            self.bishops ^= both
        elif piece == chess.ROOK:
            self.rooks ^= both
        elif piece == chess.QUEEN:
            self.queens ^= both
        else:
            self.kings ^= both
        if self.castling_rights:
            self.castling_rights &= ~both
            if piece == chess.KING:
                self.castling_rights &= ~(chess.BB_RANK_1 if turn else chess.BB_RANK_8)
        if self.promoted:
            self.promoted = self.promoted & ~both | (to if self.promoted & mover else 0)
        self.occupied_co[turn] ^= both
        self.occupied = self.occupied & ~mover | to
        self.ep_square = None
        self.halfmove_clock = 0 if is_capture or piece == chess.PAWN else self.halfmove_clock + 1
        self.fullmove_number += not turn
        self.turn = not turn
