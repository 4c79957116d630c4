"""What the rules of a chess world take and refuse as a move."""

from __future__ import annotations

from typing import Any

import chess

from tests.cases import cases

from .recorded import one
from .worlds import Table, table

FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")


@cases(
    "payload, source, path",
    [
        ({"player": "black"}, "arena", "$.payload.player"),
        ({"agent_id": "bo"}, "arena", "$.payload.agent_id"),
        ({"agent_id": "cy"}, "arena", "$.payload.agent_id"),
        ({}, "bo", "$.source_id"),
        ({"player": "white", "agent_id": "ana"}, "bo", "$.source_id"),
    ],
)
def test_nobody_moves_for_the_opponent(payload: Any, source: str, path: str) -> None:
    """Player, agent and source must be of the side to move where they are told."""
    refusal = table().refused("MoveMade", {"uci_notation": "e2e4", **payload}, source)
    assert (refusal.details["rule"], refusal.path) == ("not_your_turn", path)
    assert "ana" in str(refusal) or "white" in str(refusal)


def test_the_player_or_somebody_else_for_it_moves() -> None:
    """The source is the agent to move, or an arena that speaks for both."""
    world = table()
    world.post("MoveMade", {"uci_notation": "e2e4"}, "ana")
    world.post("MoveMade", {"uci_notation": "e7e5", "player": "black", "agent_id": "bo", "reasoning": ["…"]}, "arena")
    assert world.board["ply"] == 2


@cases(
    "payload, name, why",
    [
        ({"uci_notation": "e2e5"}, "uci_notation", "is not legal"),
        ({"uci_notation": "e7e5"}, "uci_notation", "is not legal"),
        ({"uci_notation": "e2e4q"}, "uci_notation", "is not legal"),
        ({"uci_notation": "N@e4"}, "uci_notation", "is not legal"),
        ({"uci_notation": "0000"}, "uci_notation", "is not legal"),
        ({"uci_notation": "0000", "is_null": True}, "uci_notation", "is not legal"),
        ({"san_notation": "--", "is_null": True}, "san_notation", "is not legal"),
        ({"uci_notation": "castle!"}, "uci_notation", "cannot be read"),
        ({"uci_notation": ""}, "uci_notation", "cannot be read"),
        ({"uci_notation": "e2e4" * 1000}, "uci_notation", "cannot be read"),
        ({"san_notation": "Nd2"}, "san_notation", "is not legal"),
        ({"san_notation": "Zz9"}, "san_notation", "cannot be read"),
    ],
)
def test_illegal_moves_are_named_with_the_position(payload: Any, name: str, why: str) -> None:
    """The message has the move and the FEN; a null move is none."""
    refusal = table().refused("MoveMade", payload)
    text = payload[name]
    assert refusal.details == {
        "rule": "illegal_move",
        "path": f"$.payload.{name}",
        "move": text[:20],
        "fen": chess.STARTING_FEN,
    }
    assert why in str(refusal)
    assert (text[:20] in str(refusal), len(str(refusal)) < 250) == (True, True)


def test_an_ambiguous_move_is_refused_as_such() -> None:
    """Two knights could go there."""
    world = table("4k3/8/8/8/8/8/8/1N2KN2 w - - 0 1")
    assert "is ambiguous" in str(world.refused("MoveMade", {"san_notation": "Nd2"}))


@cases(
    "payload, path",
    [
        ({}, "$.payload.uci_notation"),
        ({"uci_notation": 1}, "$.payload.uci_notation"),
        ({"uci_notation": "e2e4", "san_notation": ["e4"]}, "$.payload.san_notation"),
        ({"uci_notation": "e2e4", "player": "White"}, "$.payload.player"),
        ({"uci_notation": "e2e4", "agent_id": 5}, "$.payload.agent_id"),
        ({"uci_notation": "e2e4", "thinking_time": "3 s"}, "$.payload.thinking_time"),
        ({"uci_notation": "e2e4", "thinking_time": -0.5}, "$.payload.thinking_time"),
        ({"uci_notation": "e2e4", "clock": False}, "$.payload.clock"),
        ({"uci_notation": "e2e4", "clock": 1e10}, "$.payload.clock"),
    ],
)
def test_a_move_that_cannot_be_read(payload: Any, path: str) -> None:
    """The field is named."""
    refusal = table().refused("MoveMade", payload)
    assert (refusal.details["rule"], refusal.path) == ("payload", path)


WRONG = {
    "ply": 4,
    "san_notation": "e4",
    "from_square": "d4",
    "to_square": "e5",
    "piece": "queen",
    "is_capture": False,
    "is_castling": True,
    "is_promotion": True,
    "promotion_piece": "queen",
    "is_null": True,
    "fen": chess.STARTING_FEN,
}


@cases("name", WRONG)
def test_nothing_false_is_said_about_a_move(name: str) -> None:
    """Each field that says what the move is must be right; the message has both."""
    game = one("1. e4 d5 2. exd5 *")
    world = Table(*game.drafts[:3])
    true = game.drafts[3]["payload"]
    refusal = world.refused("MoveMade", {**true, name: WRONG[name]})
    assert refusal.details == {"rule": "field_mismatch", "path": f"$.payload.{name}", "field": name}
    assert f"it is {true[name]!r}" in str(refusal)
    world.ask("MoveMade", {**true, name: None})
    world.ask("MoveMade", true)


def test_a_number_is_no_truth_value() -> None:
    """1 is not true, and 1.0 is not 1."""
    for wrong in ({"is_capture": 0}, {"ply": 1.0}, {"ply": True}):
        assert table().refused("MoveMade", {"uci_notation": "e2e4", **wrong}).details["rule"] == "field_mismatch"


def test_san_alone_may_be_written_loosely() -> None:
    """Beside uci_notation it must be exact, because then it is taken at its word."""
    world = table("4k3/P7/8/8/8/8/8/R3K3 w Q - 0 1")
    for text in ("a8Q", "a8=Q", "a8=Q+", "0-0-0", "O-O-O"):
        world.ask("MoveMade", {"san_notation": text})
    world.ask("MoveMade", {"uci_notation": "a7a8q", "san_notation": "a8=Q+"})
    for text in ("a8Q", "a8=Q"):
        refusal = world.refused("MoveMade", {"uci_notation": "a7a8q", "san_notation": text})
        assert refusal.details["field"] == "san_notation"


def test_castling_has_one_spelling_in_uci() -> None:
    """The king's square in standard chess, the rook's in Chess960."""
    fen = "4k3/8/8/8/8/8/8/4K2R w K - 0 1"
    for variant, right, wrong in (("standard", "e1g1", "e1h1"), ("chess960", "e1h1", "e1g1")):
        world = table(fen, variant)
        assert world.refused("MoveMade", {"uci_notation": wrong}).details["field"] == "uci_notation"
        assert world.move(right).board["fen"] == "4k3/8/8/8/8/8/8/5RK1 b - - 1 1"


def test_promotion_must_say_to_what() -> None:
    """A pawn that reaches the last rank without a piece is no move, and no piece moves like that."""
    world = table("8/P4k2/8/8/8/8/8/4K3 w - - 0 1")
    assert world.refused("MoveMade", {"uci_notation": "a7a8"}).details["rule"] == "illegal_move"
    assert world.refused("MoveMade", {"uci_notation": "a7a8k"}).details["rule"] == "illegal_move"
    world.ask("MoveMade", {"uci_notation": "a7a8r", "promotion_piece": "rook"})


def test_en_passant_is_a_capture_for_one_move() -> None:
    """It is legal at once, and not later."""
    world = table().move("e2e4", "a7a6", "e4e5", "d7d5")
    world.ask("MoveMade", {"uci_notation": "e5d6", "is_capture": True})
    world.move("a2a3", "a6a5")
    assert world.refused("MoveMade", {"uci_notation": "e5d6"}).details["rule"] == "illegal_move"


def test_nobody_moves_after_the_board_has_ended_the_game() -> None:
    """Mate leaves no move, and a variant's end none either."""
    assert table().move(*FOOLS_MATE).refused("MoveMade", {"uci_notation": "a2a3"}).details["rule"] == "illegal_move"
    hill = table(None, "kingofthehill").move("e2e4", "a7a6", "e1e2", "a6a5", "e2e3", "a5a4", "e3d4")
    assert hill.refused("MoveMade", {"uci_notation": "b7b6"}).details["rule"] == "game_over"


def test_a_rejected_move_is_of_the_side_to_move() -> None:
    """What it was and why can be anything."""
    world = table()
    world.post("MoveRejected", {"attempted": "♞ to the moon", "reason": "not a move", "raw": {"tokens": 9}}, "ana")
    world.post("MoveRejected", {"player": "white", "attempted": None})
    refusal = world.refused("MoveRejected", {"player": "black"})
    assert (refusal.details["rule"], refusal.path) == ("not_your_turn", "$.payload.player")
    assert world.refused("MoveRejected", {"player": "nobody"}).details["rule"] == "payload"
    assert world.refused("MoveRejected", {"reason": {}}).details["rule"] == "payload"
