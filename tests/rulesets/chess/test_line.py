"""Games that are read move by move, and notations: what python-chess makes of the same moves."""

from __future__ import annotations

import random
from collections.abc import Iterator

import chess
import chess.variant
import pytest
from worldledger_chess.rules.movetext import Line
from worldledger_chess.rules.notation import fen_of, push

from tests.cases import cases

#: Castling, pins, promotions and passed pawns at hand; many queens and knights to one square; kings alone.
STARTS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1",
    "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1",
    "QQQQ1r1k/8/Q5P1/1NNN4/N1N5/NN6/8/K7 w - - 0 1",
    "4k3/2p1p1p1/8/1P1P1P2/8/8/B6B/R3K2R b KQ - 0 1",
    "8/8/4k3/8/8/2R5/4K3/8 w - - 30 40",
)
MASKS = ("pawns", "knights", "bishops", "rooks", "queens", "kings", "occupied", "occupied_co", "promoted")


def walk(board: chess.Board, pick: random.Random, plies: int = 60) -> Iterator[chess.Move]:
    """Make legal moves at random on a board; castling, promotion and en passant wherever they can be, half the time."""
    for _ in range(plies):
        moves = list(board.legal_moves)
        if not moves:
            return
        rare = [m for m in moves if m.promotion or board.is_castling(m) or board.is_en_passant(m)]
        yield pick.choice(rare if rare and pick.random() < 0.5 else moves)


def told(board: chess.Board, move: chess.Move) -> tuple[str, str, str]:
    """Make a move on python-chess's board, and tell of it what it tells."""
    return board.uci(move), board.san_and_push(move), board.fen()


@cases("start", [*STARTS, *(chess.Board.from_chess960_pos(n).fen() for n in (0, 518, 777, 959))])
def test_a_game_is_the_same_move_by_move(start: str) -> None:
    """Whatever is played, and however it is written: the same moves, notations, positions and ends."""
    pick = random.Random(start)
    chess960 = start not in STARTS
    plain = plies = 0
    for _ in range(3):
        board = chess.Board(start, chess960=chess960)
        line = Line.of(board)
        assert line is not None
        for move in walk(board, pick):
            san = board.san(move)
            text = pick.choice([san, san.rstrip("+#")])
            made = line.play(text)
            plies += 1
            plain += made is not None
            if made is None:
                made = push(line, line.parse_san(text))
                line.pushed(made)
            assert (*made, line.fens[-1]) == told(board, move)
            assert [getattr(line, name) for name in MASKS] == [getattr(board, name) for name in MASKS]
            assert line.fen() == board.fen()
            assert line.castling_rights == board.clean_castling_rights()
            assert [line.is_repetition(n) for n in (2, 3, 5)] == [board.is_repetition(n) for n in (2, 3, 5)]
            assert line.outcome() == board.outcome()
    assert plain > plies / 2


@pytest.mark.parametrize("start", STARTS)
def test_what_is_no_legal_move_changes_nothing(start: str, thorough: bool) -> None:
    """Of every piece and square the words that python-chess refuses are refused, and the game is where it was."""
    pick = random.Random(start)
    board = chess.Board(start)
    line = Line.of(board)
    assert line is not None
    for move in walk(board, pick, 12 if thorough else 5):
        for piece in ("", "N", "B", "R", "Q", "K"):
            for square in chess.SQUARE_NAMES:
                try:
                    board.parse_san(piece + square)
                except ValueError:
                    assert line.play(piece + square) is None
        assert line.fen() == board.fen()
        line.pushed(push(line, move))
        board.push(move)


@cases("variant", [chess.Board, *chess.variant.VARIANTS])
def test_notations_in_all_variants(variant: type[chess.Board]) -> None:
    """UCI, SAN and FEN of any variant are python-chess's; only standard chess can be a Line."""
    pick = random.Random(variant.__name__)
    theirs, ours = variant(), variant()
    assert (Line.of(ours) is not None) == (variant is chess.Board)
    for move in walk(theirs, pick):
        made = push(ours, move)
        assert (*made, fen_of(ours)) == told(theirs, move)


def test_a_side_that_waits_in_check() -> None:
    """Such a position, which only a file can hold, is left to python-chess: any move might be said to give check."""
    assert Line.of(chess.Board("QQQQ3k/8/8/8/8/8/8/K7 w - - 0 1")) is None
    assert Line.of(chess.Board("QQQQ3k/8/8/8/8/8/8/K7 b - - 0 1")) is not None


def test_a_null_move() -> None:
    """It is written as python-chess writes it, and takes the right to capture en passant."""
    board = chess.Board()
    board.push_san("e4")
    made = push(board, chess.Move.null())
    assert made == ("0000", "--")
    assert fen_of(board) == board.fen()
