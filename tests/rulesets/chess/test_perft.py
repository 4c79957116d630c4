"""How many ways there are to play on: the public perft positions, counted by what BoardState says is legal.

Source of positions and numbers: the Chess Programming Wiki, "Perft Results" and "Chess960 Perft Results".
"""

from __future__ import annotations

import pytest
from worldledger_chess.rules import BoardState, read_fen

START = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"
FIFTH = "rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8"
SIXTH = "r4rk1/1pp1qppp/p1np1n2/2b1p1B1/2B1P1b1/P1NP1N2/1PP1QPPP/R4RK1 w - - 0 10"
POSITIONS = [
    pytest.param(START, [20, 400, 8902], False, id="start"),
    pytest.param(START, [20, 400, 8902, 197281], False, id="start, deeper", marks=pytest.mark.thorough),
    pytest.param(KIWIPETE, [48, 2039], False, id="kiwipete"),
    pytest.param(KIWIPETE, [48, 2039, 97862], False, id="kiwipete, deeper", marks=pytest.mark.thorough),
    pytest.param("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", [14, 191, 2812], False, id="position-3"),
    pytest.param(
        "r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", [6, 264, 9467], False, id="position-4"
    ),
    pytest.param(
        "r2q1rk1/pP1p2pp/Q4n2/bbp1p3/Np6/1B3NBn/pPPP1PPP/R3K2R b KQ - 0 1", [6, 264, 9467], False, id="4-mirrored"
    ),
    pytest.param(FIFTH, [44, 1486], False, id="position-5"),
    pytest.param(FIFTH, [44, 1486, 62379], False, id="position-5, deeper", marks=pytest.mark.thorough),
    pytest.param(SIXTH, [46, 2079], False, id="position-6"),
    pytest.param(SIXTH, [46, 2079, 89890], False, id="position-6, deeper", marks=pytest.mark.thorough),
    pytest.param(
        "bqnb1rkr/pp3ppp/3ppn2/2p5/5P2/P2P4/NPP1P1PP/BQ1BNRKR w HFhf - 2 9", [21, 528, 12189], True, id="960-1"
    ),
    pytest.param("2nnrbkr/p1qppppp/8/1ppb4/6PP/3PP3/PPP2P2/BQNNRBKR w HEhe - 1 9", [21, 807, 18002], True, id="960-2"),
]


def perft(board: BoardState, depth: int, chess960: bool) -> int:
    """Count the games of so many moves; of the last ones only the number is asked."""
    if depth == 1:
        return len(board.legal_moves)
    count = 0
    for move in board.legal_moves:
        after = read_fen(board.fen, chess960=chess960)
        after.push_uci(move)
        count += perft(BoardState.from_board(after), depth - 1, chess960)
    return count


@pytest.mark.parametrize(("fen", "counts", "chess960"), POSITIONS)
def test_perft(fen: str, counts: list[int], chess960: bool) -> None:
    """As many as everybody else has counted, at each depth."""
    board = BoardState.from_fen(fen, chess960)
    assert [perft(board, depth, chess960) for depth in range(1, len(counts) + 1)] == counts


@pytest.mark.parametrize(("fen", "counts", "chess960"), POSITIONS)
def test_their_fields_hold(fen: str, counts: list[int], chess960: bool) -> None:
    """Each of these positions is a BoardState also when it is read field by field."""
    board = BoardState.from_fen(fen, chess960)
    assert BoardState.model_validate_json(board.model_dump_json()) == board
    assert len(board.legal_moves) == counts[0]
