"""Move: its rules, each with what holds and what does not."""

from __future__ import annotations

from typing import Any

import chess
import pytest
from pydantic import ValidationError
from worldledger_chess.rules import Move, move_errors, moves_of, read_fen

from tests.cases import cases
from tests.rulesets.chess.recorded import one
from tests.rulesets.chess.worlds import EXAMPLES, draft, effects, games_in, moved, started

E4: dict[str, Any] = {
    "from_square": "e2",
    "to_square": "e4",
    "piece": "pawn",
    "player": "white",
    "uci_notation": "e2e4",
    "san_notation": "e4",
    "is_capture": False,
    "is_castling": False,
    "is_promotion": False,
    "promotion_piece": None,
    "timestamp": "2025-10-25T10:00:00Z",
    "thinking_time": 2.34,
}
CASTLING = {
    "from_square": "e1",
    "to_square": "g1",
    "piece": "king",
    "uci_notation": "e1g1",
    "san_notation": "O-O",
    "is_castling": True,
}
PROMOTION = {
    "from_square": "a7",
    "to_square": "a8",
    "uci_notation": "a7a8q",
    "san_notation": "a8=Q+",
    "is_promotion": True,
    "promotion_piece": "queen",
}
CAPTURE = {"from_square": "e4", "to_square": "d5", "uci_notation": "e4d5", "san_notation": "exd5", "is_capture": True}
KNIGHT = {"from_square": "g1", "to_square": "f3", "piece": "knight", "uci_notation": "g1f3", "san_notation": "Nf3"}


@cases(
    "changes",
    [
        {},
        CASTLING,
        {**CASTLING, "to_square": "c1", "uci_notation": "e1c1", "san_notation": "O-O-O+"},
        {**CASTLING, "player": "black", "from_square": "e8", "to_square": "g8", "uci_notation": "e8g8"},
        {**CASTLING, "from_square": "d1", "to_square": "c1", "uci_notation": "d1c1", "san_notation": "O-O-O"},
        PROMOTION,
        {**PROMOTION, "uci_notation": "a7a8n", "san_notation": "a8=N", "promotion_piece": "knight"},
        CAPTURE,
        KNIGHT,
        {**KNIGHT, "san_notation": "Ngf3#"},
        {"thinking_time": 0.0},
        {"thinking_time": 31},
        {"timestamp": "2025-10-25T12:00:00+02:00"},
    ],
)
def test_what_is_a_move(changes: dict[str, Any]) -> None:
    """A plain example and its like; a moment is kept in UTC."""
    move = Move(**{**E4, **changes})
    assert move.model_dump(mode="json")["timestamp"] == "2025-10-25T10:00:00Z"
    assert Move.model_validate_json(move.model_dump_json()) == move


@cases(
    "changes, named",
    [
        ({"from_square": "e9"}, "from_square"),
        ({"from_square": None}, "from_square"),
        ({"to_square": "i4"}, "to_square"),
        ({"to_square": "E4"}, "to_square"),
        ({"to_square": "e2", "uci_notation": "e2e2"}, "the same"),
        ({"piece": "prawn"}, "piece"),
        ({"piece": "P"}, "piece"),
        ({"player": "red"}, "player"),
        ({"player": "w"}, "player"),
        ({"uci_notation": "e2-e4"}, "uci_notation"),
        ({"uci_notation": "e2e4k"}, "uci_notation"),
        ({"uci_notation": "e2e3"}, "uci_notation"),
        ({"uci_notation": "e2e4q"}, "uci_notation"),
        ({"uci_notation": "0000"}, "uci_notation"),
        ({"san_notation": ""}, "san_notation"),
        ({"san_notation": "pawn to e4"}, "san_notation"),
        ({"san_notation": "Ne4"}, "san_notation"),
        ({"san_notation": "e4!"}, "san_notation"),
        ({"san_notation": "O-O"}, "castling"),
        ({"is_capture": True}, "capture"),
        ({"is_capture": "no"}, "is_capture"),
        ({**CAPTURE, "is_capture": False}, "capture"),
        ({"is_castling": True}, "castling"),
        ({**CASTLING, "is_castling": False}, "castling"),
        ({**CASTLING, "piece": "queen"}, "king"),
        ({**CASTLING, "to_square": "e2", "uci_notation": "e1e2"}, "king"),
        ({**CASTLING, "player": "black"}, "king"),
        ({**CASTLING, "is_capture": True}, "captures"),
        ({"is_promotion": True, "promotion_piece": "queen"}, "last rank"),
        ({"is_promotion": True}, "promotion_piece"),
        ({"promotion_piece": "queen"}, "promotion_piece"),
        ({**PROMOTION, "promotion_piece": None}, "promotion_piece"),
        ({**PROMOTION, "promotion_piece": "king", "uci_notation": "a7a8k"}, "promotion_piece"),
        ({**PROMOTION, "promotion_piece": "pawn"}, "promotion_piece"),
        ({**PROMOTION, "promotion_piece": "rook"}, "uci_notation"),
        ({**PROMOTION, "uci_notation": "a7a8"}, "uci_notation"),
        ({**PROMOTION, "player": "black"}, "last rank"),
        ({**PROMOTION, "is_promotion": False, "promotion_piece": None, "uci_notation": "a7a8"}, "last rank"),
        ({"timestamp": "2025-10-25T10:00:00"}, "timestamp"),
        ({"timestamp": "yesterday"}, "timestamp"),
        ({"timestamp": None}, "timestamp"),
        ({"thinking_time": -0.1}, "thinking_time"),
        ({"thinking_time": float("nan")}, "thinking_time"),
        ({"thinking_time": float("inf")}, "thinking_time"),
        ({"thinking_time": None}, "thinking_time"),
        ({"thinking_time": "2.34"}, "thinking_time"),
        ({"comment": ""}, "comment"),
    ],
)
def test_what_is_no_move(changes: dict[str, Any], named: str) -> None:
    """Each field has its form, and the fields fit each other."""
    with pytest.raises(ValidationError, match=named):
        Move(**{**E4, **changes})


@cases("name", [name for name in E4 if name != "promotion_piece"])
def test_the_documented_fields_are_needed(name: str) -> None:
    """All but the piece that a pawn becomes."""
    with pytest.raises(ValidationError, match=name):
        Move(**{field: value for field, value in E4.items() if field != name})


@cases(
    "changes, fen, errors",
    [
        ({}, chess.STARTING_FEN, []),
        (CASTLING, "4k3/8/8/8/8/8/8/4K2R w K - 0 1", []),
        (PROMOTION, "4k3/P7/8/8/8/8/8/4K3 w - - 0 1", []),
        ({}, "4k3/8/8/8/8/8/8/4K3 w - - 0 1", ["Illegal move in history: e2e4", "e2e4: e2 has no piece of white"]),
        (
            {"to_square": "e3", "uci_notation": "e2e3", "san_notation": "e3"},
            "4k3/8/8/8/8/4N3/4P3/4K3 w - - 0 1",
            ["Illegal move in history: e2e3", "e2e3: e3 has a piece of white already"],
        ),
        (CASTLING, "4k3/8/8/8/8/8/8/4K2R w - - 0 1", ["Illegal move in history: e1g1"]),
        (CASTLING, "4kr2/8/8/8/8/8/8/4K2R w K - 0 1", ["Illegal move in history: e1g1"]),
        (PROMOTION, "k7/P7/8/8/8/8/8/4K3 w - - 0 1", ["Illegal move in history: a7a8q"]),
        ({**KNIGHT, "san_notation": "Ngf3"}, chess.STARTING_FEN, ["g1f3: san_notation says 'Ngf3', but it is 'Nf3'"]),
        ({**KNIGHT, "piece": "bishop", "san_notation": "Bf3"}, chess.STARTING_FEN, None),
        (
            CAPTURE,
            "4k3/8/8/8/4P3/8/8/4K3 w - - 0 1",
            ["Illegal move in history: e4d5"],
        ),
    ],
)
def test_what_only_the_board_can_tell(changes: dict[str, Any], fen: str, errors: list[str] | None) -> None:
    """A piece of the player's stands there, none where it goes, the move is legal and is what it says."""
    board = read_fen(fen)
    found = move_errors(Move(**{**E4, **changes}), board)
    assert board.fen() == fen
    if errors is None:
        assert len(found) == 2
    else:
        assert found == errors


def test_a_move_of_a_whole_effect() -> None:
    """Its timestamp is the payload's, or when it was written; a time that nobody said is none."""
    game = one('[TimeControl "60"]\n\n1. e4 {[%clk 0:00:58]} e5 *')
    first, second = effects(game.drafts)[1:]
    move = Move.of(first)
    assert (move.san_notation, move.thinking_time) == ("e4", 2.0)
    assert move.timestamp.timestamp() == 1002.0
    assert move.timestamp.utcoffset() is not None
    assert Move.of(second).thinking_time == 0.0
    first["payload"]["timestamp"] = "2025-10-25T10:00:00Z"
    assert Move.of(first).model_dump(mode="json")["timestamp"] == "2025-10-25T10:00:00Z"


def test_a_move_that_says_little_is_asked_of_the_board() -> None:
    """The same moves, whether the log has them whole or not; other effects are passed over."""
    for game in games_in(EXAMPLES)[:3]:
        log = effects(game.drafts)
        initial_fen, variant = log[0]["payload"]["initial_fen"], log[0]["payload"]["variant"]
        moves = moves_of(log, initial_fen=initial_fen, variant=variant)
        assert len(moves) == game.moves
        minimal: list[Any] = [
            {**effect, "payload": {name: effect["payload"][name] for name in ("san_notation", "thinking_time")}}
            for effect in log
            if effect["kind"] == "MoveMade"
        ]
        assert moves_of(minimal, initial_fen=initial_fen, variant=variant) == moves


def test_what_no_move_is_made_of() -> None:
    """Null moves, drops, and what is not legal: ValueError."""
    null = one("1. e4 -- *")
    drop = one('[Variant "Crazyhouse"]\n\n1. e4 d5 2. exd5 Qxd5 3. P@e4 *')
    for log in (null.drafts, drop.drafts):
        with pytest.raises(ValueError, match="square"):
            moves_of(effects(log), initial_fen=chess.STARTING_FEN)
    for drafts, named in (([started(), moved("e2e5")], "ply 1"), ([draft("MoveMade", {})], "ply 1")):
        with pytest.raises(ValueError, match=named):
            moves_of(effects(drafts), initial_fen=chess.STARTING_FEN)
    with pytest.raises(ValidationError):
        Move.of(effects([moved("e2e4")])[0])
