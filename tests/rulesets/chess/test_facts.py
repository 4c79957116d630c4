"""What a MoveMade says of its move."""

from __future__ import annotations

import re
from typing import Any

import chess
import chess.variant
from hypothesis import given
from hypothesis import strategies as st
from worldledger_chess import KIND
from worldledger_chess.rules.measures import material
from worldledger_chess.rules.moves import FIELDS, play_move
from worldledger_chess.rules.positions import VARIANTS, position

from tests.cases import cases


def told(board: chess.Board, move: chess.Move) -> dict[str, Any]:
    """Return what python-chess tells of a move on the board where it is to be made."""
    piece = None if not move else move.drop or board.piece_type_at(move.from_square)
    return {
        "from_square": None if not move or move.drop else chess.square_name(move.from_square),
        "to_square": None if not move else chess.square_name(move.to_square),
        "piece": None if piece is None else chess.piece_name(piece),
        "is_capture": bool(move) and board.is_capture(move),
        "is_castling": bool(move) and board.is_castling(move),
        "is_promotion": move.promotion is not None,
        "promotion_piece": None if move.promotion is None else chess.piece_name(move.promotion),
        "is_null": not move,
    }


@given(st.data())
def test_the_facts_of_a_move_are_those_of_the_board(data: st.DataObject) -> None:
    """In every variant; the payload has all the fields of the table, and no others."""
    board = position(data.draw(st.sampled_from(sorted(VARIANTS))))
    for ply in range(1, data.draw(st.integers(1, 40)) + 1):
        legal = sorted(board.legal_moves, key=chess.Move.uci)
        if not legal:
            break
        # Captures and promotions come up too seldom by themselves.
        rare = [move for move in legal if move.promotion or board.is_capture(move) or board.is_castling(move)]
        seldom = data.draw(st.booleans())
        move = data.draw(st.sampled_from(rare if rare and seldom else legal))
        facts = told(board, move)
        made = play_move(board, move, ply=ply, agent_id="a")
        assert {name: made[name] for name in facts} == facts
        assert made.keys() == {field.name for field in FIELDS}


@cases(
    "fen, uci",
    [
        ("4k3/P7/8/8/8/8/8/R3K3 w Q - 0 1", "a7a8n"),
        ("1r2k3/P7/8/8/8/8/8/R3K3 w Q - 0 1", "a7b8q"),
        ("4k3/8/8/8/8/8/8/R3K3 w Q - 0 1", "e1c1"),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1", "e5d6"),
        ("4k3/8/8/8/8/8/8/4K3 w - - 0 1", "0000"),
    ],
)
def test_the_facts_of_rare_moves_are_those_of_the_board(fen: str, uci: str) -> None:
    """Promotion, castling, en passant and the null move."""
    board, move = chess.Board(fen), chess.Move.from_uci(uci)
    facts = told(board, move)
    made = play_move(board, move, ply=1, agent_id="a")
    assert {name: made[name] for name in facts} == facts


def test_the_console_counts_material_as_the_measures_do() -> None:
    """A piece is worth as much on a game's page as in comparisons of games."""
    (listed,) = re.findall(r"const WORTH = \{ (.+) \};", KIND.load("panel").read_text(encoding="utf-8"))
    worth = dict(each.split(": ") for each in listed.split(", "))
    pieces = [(piece, material(f"8/8/8/8/8/8/8/{piece.upper()}7 w - - 0 1")) for piece in "pnbrq"]
    assert {piece: int(number) for piece, number in worth.items()} == dict(pieces)
