"""FEN, SAN and UCI as python-chess writes them, in a fraction of its time.

To write a position, python-chess visits each square, and to write a move it looks for all legal moves to the same
square: together twice the work of reading that move and making it. Here the common cases are read from the bitboards.
All others, and every variant, are left to python-chess.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import chess

#: Most ranks that are cached: games have the same ones again and again.
_MOST_RANKS: Final = 65_536
#: By python-chess's numbers of the types of pieces.
LETTERS: Final = " PNBRQK"
_RIGHTS: Final = ((chess.BB_H1, "K"), (chess.BB_A1, "Q"), (chess.BB_H8, "k"), (chess.BB_A8, "q"))


def _castling_of(mask: int) -> str:
    return "".join(letter for rook, letter in _RIGHTS if mask & rook) or "-"


#: Castling rights of standard chess, by the squares of the rooks.
_CASTLING: Final = {
    mask: _castling_of(mask)
    for mask in (h1 | a1 | h8 | a8 for h1 in (0, chess.BB_H1) for a1 in (0, chess.BB_A1) for h8 in (0, chess.BB_H8)
                 for a8 in (0, chess.BB_A8))
}  # fmt: skip


#: The bits of a byte, each in a hexadecimal digit of its own, the first file's first.
_SPREAD: Final = [int(f"{bits:08b}"[::-1], 16) for bits in range(256)]
#: From such digits (the type of piece, and 8 for White) to characters of a FEN.
_PIECES: Final = str.maketrans("0123456789abcdef", "1pnbrqk??PNBRQK?")
_EMPTY: Final = [("1" * count, str(count)) for count in range(8, 1, -1)]


class _Ranks(dict[tuple[int, ...], str]):
    """A rank's text in a FEN, by its bits in the four masks of `planes`."""

    def __missing__(self, rank: tuple[int, ...]) -> str:
        if len(self) >= _MOST_RANKS:
            self.clear()
        one, two, four, white = rank
        digits = _SPREAD[one] | _SPREAD[two] << 1 | _SPREAD[four] << 2 | _SPREAD[white] << 3
        text = f"{digits:08x}".translate(_PIECES)
        if "11" in text:
            for squares, count in _EMPTY:
                text = text.replace(squares, count)
        self[rank] = text
        return text


RANKS: Final = _Ranks()


def planes(board: chess.Board) -> tuple[int, int, int, int]:
    """Return the three bits of the type of piece (pawn 1, knight 2 … king 6), and the white ones, of all squares."""
    bishops, queens, kings = board.bishops, board.queens, board.kings
    return (
        board.pawns | bishops | queens,
        board.knights | bishops | kings,
        board.rooks | queens | kings,
        board.occupied_co[chess.WHITE],
    )


def ranks_of(board: chess.Board) -> list[str]:
    """Return each rank's text in a FEN, from the eighth down."""
    return [RANKS[rank] for rank in zip(*(plane.to_bytes(8, "big") for plane in planes(board)), strict=True)]


def is_plain(board: chess.Board) -> bool:
    """Return whether a board plays standard chess or Chess960, and not a variant."""
    return board.uci_variant == chess.Board.uci_variant


def fen_of(board: chess.Board, ranks: list[str] | None = None) -> str:
    """Return the same as ``board.fen()``; ``ranks`` is the result of `ranks_of`, if it is known."""
    if not is_plain(board):
        return board.fen()
    turn = board.turn
    rights = board.castling_rights
    if not rights:
        castling = "-"
    elif ranks is None or board.chess960:
        castling = board.castling_xfen()
    else:
        castling = _CASTLING[rights]
    passed = board.ep_square
    en_passant = "-"
    if passed is not None:
        capturers = board.pawns & board.occupied_co[turn] & chess.BB_PAWN_ATTACKS[not turn][passed]
        if capturers and board.has_legal_en_passant():
            en_passant = chess.SQUARE_NAMES[passed]
    return (
        f"{'/'.join(ranks or ranks_of(board))} {'w' if turn else 'b'} {castling} {en_passant}"
        f" {board.halfmove_clock} {board.fullmove_number}"
    )


class Made(NamedTuple):
    """A move that was made, in the two notations as python-chess writes them."""

    uci: str
    san: str


def push(board: chess.Board, move: chess.Move) -> Made:
    """Make a legal move (or a null move) on the board and describe it, as python-chess's functions do."""
    uci = board.uci(move)
    if not move or not is_plain(board):
        return Made(uci, board.san_and_push(move))
    origin, target, turn = move.from_square, move.to_square, board.turn
    piece = board.piece_type_at(origin) or 0
    is_castling = piece == chess.KING and board.is_castling(move)
    if piece != chess.PAWN and not is_castling and movers(board, piece, target) != chess.BB_SQUARES[origin]:
        san = board.san_and_push(move)  # another piece of the type might reach the square, unless it is pinned
    else:
        if is_castling:
            san = "O-O-O" if chess.square_file(target) < chess.square_file(origin) else "O-O"
        else:
            san = san_without_suffix(piece, origin, target, is_capture=board.is_capture(move))
        if move.promotion is not None:
            san += "=" + LETTERS[move.promotion]
        board.push(move)
        if checkers(board, turn):
            san += "+" if any(board.generate_legal_moves()) else "#"
    return Made(uci, san)


def san_without_suffix(piece: chess.PieceType, origin: chess.Square, target: chess.Square, *, is_capture: bool) -> str:
    """Return the SAN of a move that only one piece of its type can make, without a sign of check."""
    square = chess.SQUARE_NAMES[target]
    if piece == chess.PAWN:
        return f"{chess.FILE_NAMES[origin & 7]}x{square}" if is_capture else square
    return f"{LETTERS[piece]}x{square}" if is_capture else LETTERS[piece] + square


def checkers(board: chess.Board, by: chess.Color) -> int:
    """Return the pieces of a side that give check."""
    king = (board.kings & board.occupied_co[not by]).bit_length() - 1
    return board.attackers_mask(by, king) if king >= 0 else 0


def movers(board: chess.Board, piece: chess.PieceType, target: chess.Square) -> int:
    """Return the pieces of a type, pawns aside, of the side to move that reach a square; they may be pinned."""
    ours = board.occupied_co[board.turn]
    if piece == chess.KNIGHT:
        return board.knights & ours & chess.BB_KNIGHT_ATTACKS[target]
    if piece == chess.KING:
        return board.kings & ours & chess.BB_KING_ATTACKS[target]
    occupied = board.occupied
    seen = 0
    if piece != chess.ROOK:
        seen = chess.BB_DIAG_ATTACKS[target][chess.BB_DIAG_MASKS[target] & occupied]
    if piece != chess.BISHOP:
        seen |= chess.BB_RANK_ATTACKS[target][chess.BB_RANK_MASKS[target] & occupied]
        seen |= chess.BB_FILE_ATTACKS[target][chess.BB_FILE_MASKS[target] & occupied]
    if piece == chess.QUEEN:
        return board.queens & ours & seen
    return (board.bishops if piece == chess.BISHOP else board.rooks) & ours & seen
