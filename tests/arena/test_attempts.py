"""Reading attempts: every legal move in either notation is read as itself, and nothing else is a move."""

from __future__ import annotations

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.arena.attempts import MAX_ATTEMPTED, kept, read_attempt

_POSITIONS = (
    chess.STARTING_FEN,
    "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1",
    "n1n5/PPPk4/8/8/8/8/4Kppp/5N1N b - - 0 1",
    "8/2p5/3p4/KP5r/1R3pPk/8/4P3/8 b - g3 0 1",
    "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8",
)


@pytest.mark.parametrize("fen", _POSITIONS)
@pytest.mark.parametrize("chess960", [False, True])
def test_legal_moves_are_read_as_themselves(fen: str, *, chess960: bool) -> None:
    """Each legal move, as UCI and as SAN, blanks around it or not, is that move."""
    board = chess.Board(fen, chess960=chess960)
    for move in board.legal_moves:
        for text in (board.uci(move), board.san(move), f"  {board.uci(move)}\n"):
            assert read_attempt(board, text).move == move


_BOARDS = st.sampled_from([chess.Board(fen) for fen in _POSITIONS])


@settings(deadline=None)
@given(board=_BOARDS, text=st.one_of(st.text(max_size=30), st.text("abcdefgh12345678NBRQKO0x=+#-qrbn@ ", max_size=12)))
def test_any_text_is_a_legal_move_or_says_why_not(board: chess.Board, text: str) -> None:
    """Whatever the text, there is an answer, and a move that is given is legal; the board stays as it was."""
    before = board.fen()
    attempt = read_attempt(board, text)
    assert (attempt.move is None) == bool(attempt.why)
    assert attempt.move is None or attempt.move in board.legal_moves
    assert board.fen() == before


@given(st.text())
def test_what_is_kept_can_be_kept(text: str) -> None:
    """What stands in the log is UTF-8 without NUL, bounded, and keeping it again changes nothing."""
    told = kept(text)
    assert "\x00" not in told.encode().decode()
    assert len(told) <= MAX_ATTEMPTED
    assert kept(told) == told


@pytest.mark.parametrize(
    ("fen", "text", "why"),
    [
        (chess.STARTING_FEN, "e4e5", "there is no piece on e4"),
        (chess.STARTING_FEN, "e7e5", "is the opponent's"),
        (chess.STARTING_FEN, "e2e4q", "nothing promotes"),
        (chess.STARTING_FEN, "e2e5", "cannot go to e5"),
        (chess.STARTING_FEN, "0000", "null move"),
        (chess.STARTING_FEN, "i9j0", "cannot be read"),
        (chess.STARTING_FEN, "", "no move in it"),
        (chess.STARTING_FEN, "e2e4" * 9, "too long"),
        ("7k/P7/8/8/8/8/8/K7 w - - 0 1", "a7a8", "promotes: a7a8q"),
        ("4r2k/8/8/8/8/8/4N3/4K3 w - - 0 1", "e2c3", "leave the king in check"),
        ("7k/8/8/8/8/8/8/KN3N2 w - - 0 1", "Nd2", "ambiguous"),
        (chess.STARTING_FEN, "Nd4", "not legal"),
    ],
)
def test_why_not(fen: str, text: str, why: str) -> None:
    """Who attempts something else is told in words what is wrong with it."""
    attempt = read_attempt(chess.Board(fen), text)
    assert attempt.move is None
    assert why in attempt.why
