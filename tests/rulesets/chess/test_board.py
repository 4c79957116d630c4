"""BoardState: its rules, each with what holds and what does not."""

from __future__ import annotations

import json
from typing import Any

import chess
import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError
from worldledger_chess.rules import BoardState, board_of, is_uci, read_fen, replayed, tensor_of

from tests.cases import cases
from tests.rulesets.chess.worlds import draft, folded, moved, started, table

AFTER_E4 = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
MATE = "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"
STALEMATE = "7k/5Q2/6K1/8/8/8/8/8 b - - 0 1"
CHESS960 = "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"


def values(fen: str = AFTER_E4, /, **changes: Any) -> dict[str, Any]:
    """Return the fields of a position as JSON has them, some of them changed."""
    found: dict[str, Any] = json.loads(BoardState.from_fen(fen).model_dump_json())
    return {**found, **changes}


def test_a_position() -> None:
    """After e2e4: every field as it must be."""
    board = BoardState.from_fen(AFTER_E4)
    assert board.fen == AFTER_E4
    assert len(board.legal_moves) == 20
    assert {"a7a6", "a7a5", "b7b6", "b7b5"} <= set(board.legal_moves)
    assert board.legal_moves == sorted(board.legal_moves)
    assert (board.is_check, board.is_checkmate, board.is_stalemate) == (False, False, False)
    assert (board.castling_rights, board.en_passant_square) == ("KQkq", "e3")
    assert (board.halfmove_clock, board.fullmove_number) == (0, 1)


def test_a_tensor() -> None:
    """Row 0 is the eighth rank, column 0 the a file; White's pieces come first, pawn to king."""
    tensor = BoardState.from_fen(chess.STARTING_FEN).board_tensor
    assert tensor.shape == (8, 8, 12)
    assert tensor.dtype == np.uint8
    assert tensor.sum() == 32
    assert set(np.unique(tensor)) == {0, 1}
    places = {(6, 4, 0), (7, 1, 1), (7, 2, 2), (7, 0, 3), (7, 3, 4), (7, 4, 5), (1, 0, 6), (0, 1, 7), (0, 5, 8)}
    for place in places | {(0, 7, 9), (0, 3, 10), (0, 4, 11)}:
        assert tensor[place] == 1
    assert np.array_equal(tensor, tensor_of(chess.Board()))


def test_the_tensor_cannot_be_changed_and_shares_nothing() -> None:
    """It is part of a frozen value, whether it was made of a board or read."""
    source = tensor_of(read_fen(AFTER_E4))
    for board in (BoardState.from_fen(AFTER_E4), BoardState(**values(board_tensor=source))):
        with pytest.raises(ValueError, match="read-only"):
            board.board_tensor[0, 0, 0] = 1
    source[0, 0, 0] = 1


def test_json_and_back() -> None:
    """The tensor is nested lists there; the schema says so."""
    board = BoardState.from_fen(AFTER_E4)
    text = board.model_dump_json()
    assert json.loads(text)["board_tensor"][4][4] == [1] + [0] * 11
    assert BoardState.model_validate_json(text) == board
    assert BoardState.model_validate(json.loads(text)) == board
    assert BoardState(**board.model_dump()) == board
    assert board == BoardState.from_fen(AFTER_E4)
    assert board != BoardState.from_fen(chess.STARTING_FEN)
    assert board != AFTER_E4
    schema = TypeAdapter(BoardState).json_schema()["properties"]["board_tensor"]
    assert (schema["minItems"], schema["items"]["minItems"], schema["items"]["items"]["minItems"]) == (8, 8, 12)


@cases(
    "changes, named",
    [
        ({"fen": "startpos"}, "FEN"),
        ({"fen": AFTER_E4.replace("e3", "-")}, "en_passant_square"),
        ({"fen": chess.STARTING_FEN}, "FEN"),
        ({"fen": AFTER_E4 + " " * 100}, "at most 128"),
        ({"fen": 1}, "fen"),
        ({"legal_moves": []}, "legal_moves"),
        ({"legal_moves": ["e7e5"]}, "legal_moves"),
        ({"legal_moves": ["e7-e5"]}, "pattern"),
        ({"legal_moves": ["a7a8k"]}, "pattern"),
        ({"legal_moves": ["i7i8"]}, "pattern"),
        ({"legal_moves": ["e7e5\n"]}, "pattern"),
        ({"is_check": True}, "is_check"),
        ({"is_check": 0}, "is_check"),
        ({"is_checkmate": True}, "is_checkmate without is_check"),
        ({"is_stalemate": True}, "is_stalemate"),
        ({"castling_rights": "KQk"}, "castling_rights"),
        ({"castling_rights": "KQkqx"}, "castling_rights"),
        ({"castling_rights": "x"}, "pattern"),
        ({"en_passant_square": None}, "en_passant_square"),
        ({"en_passant_square": "e6"}, "en_passant_square"),
        ({"en_passant_square": "e4"}, "pattern"),
        ({"en_passant_square": "i3"}, "pattern"),
        ({"halfmove_clock": 1}, "halfmove_clock"),
        ({"halfmove_clock": -1}, "halfmove_clock"),
        ({"halfmove_clock": 151}, "halfmove_clock"),
        ({"halfmove_clock": "0"}, "halfmove_clock"),
        ({"fullmove_number": 0}, "fullmove_number"),
        ({"fullmove_number": 2}, "fullmove_number"),
        ({"board_tensor": []}, "shape"),
        ({"board_tensor": [[1], [1, 2]]}, "shape"),
        ({"board_tensor": np.zeros((8, 8, 12), np.uint8)}, "board_tensor"),
        ({"board_tensor": np.zeros((8, 8, 11), np.uint8)}, "shape"),
        ({"board_tensor": np.zeros((8, 8, 12), np.float64)}, "uint8"),
        ({"board_tensor": np.full((8, 8, 12), 2, np.uint8)}, "elsewhere"),
        ({"board_tensor": np.full((8, 8, 12), 0.5).tolist()}, "elsewhere"),
        ({"board_tensor": np.full((8, 8, 12), -1).tolist()}, "elsewhere"),
        ({"board_tensor": "tensor"}, "shape"),
        ({"variant": "standard"}, "variant"),
    ],
)
def test_what_is_no_board_state(changes: dict[str, Any], named: str) -> None:
    """Each field has its form, and says what the FEN says."""
    with pytest.raises(ValidationError, match=named):
        BoardState.model_validate(values(**changes))


def test_the_order_of_legal_moves_is_no_matter() -> None:
    """They may come in any order, and are kept in one."""
    moves = values()["legal_moves"]
    assert BoardState.model_validate(values(legal_moves=moves[::-1])).legal_moves == moves


def test_checkmate_needs_check_and_stalemate_none() -> None:
    """Neither leaves a legal move."""
    mate, stalemate = BoardState.from_fen(MATE), BoardState.from_fen(STALEMATE)
    assert (mate.is_check, mate.is_checkmate, mate.is_stalemate, mate.legal_moves) == (True, True, False, [])
    assert (stalemate.is_check, stalemate.is_checkmate, stalemate.is_stalemate) == (False, False, True)
    assert stalemate.legal_moves == []
    for fen, changes in (
        (MATE, {"is_check": False}),
        (MATE, {"is_checkmate": False}),
        (MATE, {"is_stalemate": True}),
        (STALEMATE, {"is_check": True}),
        (STALEMATE, {"is_stalemate": False}),
        (STALEMATE, {"legal_moves": ["h8h7"]}),
    ):
        with pytest.raises(ValidationError):
            BoardState.model_validate(values(fen, **changes))


@cases(
    "fen, named",
    [
        ("", "cannot be read"),
        ("startpos", "cannot be read"),
        ("9/8/8/8/8/8/8/8 w - - 0 1", "cannot be read"),
        ("8/8/8/8/8/8/8/8 w - - 0 1", "no white king"),
        ("8/8/8/8/8/8/8/K7 w - - 0 1", "no black king"),
        ("k7/8/8/8/8/8/8/8 w - - 0 1", "no white king"),
        ("k7/8/8/8/8/8/8/K6K w - - 0 1", "too many kings"),
        ("k6k/8/8/8/8/8/8/K7 w - - 0 1", "too many kings"),
        ("k6R/8/8/8/8/8/8/K7 w - - 0 1", "opposite check"),
        ("k6P/8/8/8/8/8/8/K7 w - - 0 1", "pawns on backrank"),
        ("k7/8/8/8/8/8/8/K7 w - e3 0 1", "invalid ep square"),
        ("k7/8/8/8/8/8/8/K7 w - e4 0 1", "ep square|cannot be read"),
        ("k7/8/8/8/8/8/8/K7 w - - 151 200", "halfmove clock"),
        ("k7/8/8/8/8/8/8/K7 w - - -1 1", "cannot be read"),
        (f"k7/8/8/8/8/8/8/K7 w - - 0 1{'0' * 30}", "cannot be kept"),
        ("k7/8/8/8/8/8/8/K7 w - - 0 1" + "8/" * 100_000, "at most 128"),
    ],
)
def test_positions_that_cannot_be_played(fen: str, named: str) -> None:
    """One king a colour, the side that is not to move not in check, clocks in range; said in words."""
    for make in (BoardState.from_fen, read_fen, lambda text: replayed(text, [])):
        with pytest.raises(ValueError, match=named):
            make(fen)


@pytest.mark.parametrize(
    ("fen", "clock"), [("k7/8/8/8/8/8/P7/K7 w - - 100 80", 100), ("k7/8/8/8/8/8/P7/K7 w - - 150 120", 150)]
)
def test_the_clock_goes_on_to_seventy_five_moves(fen: str, clock: int) -> None:
    """Nobody need claim the draw of the fifty."""
    assert BoardState.model_validate(values(fen)).halfmove_clock == clock


@cases(
    "moves, square",
    [
        (["e2e4"], "e3"),
        (["e2e4", "d7d5"], "d6"),
        (["e2e4", "d7d5", "e4e5", "f7f5"], "f6"),
        (["e2e4", "d7d5", "g1f3"], None),
        (["e2e3"], None),
        (["e2e3", "d7d6"], None),
        ([], None),
    ],
)
def test_the_passed_square_is_there_whether_or_not_it_can_be_taken(moves: list[str], square: str | None) -> None:
    """Made of the log's state, whose FEN names it only where it can be, it is the same."""
    board = BoardState.from_board(replayed(chess.STARTING_FEN, moves))
    state = table().move(*moves).fold.state
    assert board.en_passant_square == square
    assert board.fen.split()[3] == (square or "-")
    assert BoardState.of(state.entities) == board
    assert board_of(state.entities).fen() == state.entities["board"]["fen"]


def test_castling_in_chess960_goes_to_the_rooks_square() -> None:
    """Its moves and its rights are of their own kind; the same FEN as standard chess has others, or none."""
    state = table(CHESS960, "chess960").fold.state
    board = BoardState.of(state.entities)
    assert "d1c1" in board.legal_moves
    assert board.castling_rights == "KQkq"
    assert BoardState.from_fen(CHESS960, chess960=True) == board
    assert BoardState.model_validate_json(board.model_dump_json()) == board
    assert BoardState.from_fen(CHESS960).castling_rights == ""
    inner = BoardState.from_fen("rr2k3/8/8/8/8/8/8/RR2K3 w Bb - 0 1", chess960=True)
    assert inner.castling_rights == "Bb"
    assert BoardState.model_validate_json(inner.model_dump_json()) == inner


def test_there_is_none_of_what_is_no_such_game() -> None:
    """No start, another variant, a record that left the board unplayable, a game beyond the clock: ValueError."""
    odd = moved("e2e4", san_notation="e4", fen="xxxxxxxx/8/8/8/8/8/8/8 b - - 0 1")
    beyond = moved("e2e4", san_notation="e4", fen="k7/8/8/8/8/8/8/K7 b - - 151 90")
    for drafts, named in (
        ([], "not started"),
        ([started(variant="atomic")], "atomic"),
        ([started(), odd], "cannot be read"),
        ([started(), beyond], "halfmove clock"),
    ):
        with pytest.raises(ValueError, match=named):
            BoardState.of(folded(drafts).entities)
    with pytest.raises(ValueError, match="crazyhouse"):
        BoardState.from_board(chess.variant.CrazyhouseBoard())


def test_a_null_move_leaves_a_position() -> None:
    """A record may have one; what it leaves is a position like any other."""
    null = draft("MoveMade", {"uci_notation": "0000", "is_null": True})
    board = BoardState.of(folded([started(), moved("e2e4"), null]).entities)
    assert (board.en_passant_square, board.fullmove_number) == (None, 2)


@cases("text", ["e2e4", "a7a8q", "h2h1n", "e1e1"])
def test_what_has_the_form_of_uci(text: str) -> None:
    """Two squares, and what a pawn becomes."""
    assert is_uci(text)


@cases("text", ["", "e4", "e2e9", "i2i4", "e7e8k", "e7e8Q", "E2E4", "e2e4\n", " e2e4", "0000", "O-O"])
def test_what_has_not(text: str) -> None:
    """Neither SAN, nor a null move, nor anything beside it."""
    assert not is_uci(text)


def test_moves_are_played_again_as_they_were() -> None:
    """With their history; an illegal one is named."""
    board = replayed(chess.STARTING_FEN, ["g1f3", "g8f6", "f3g1", "f6g8"] * 2)
    assert board.is_repetition(3)
    with pytest.raises(ValueError, match="e2e5"):
        replayed(chess.STARTING_FEN, ["e2e5"])
