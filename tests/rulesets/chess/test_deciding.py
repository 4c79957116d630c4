"""How a game that is played ends: by the board, by a claim at once, by giving up, by the clock."""

from __future__ import annotations

import random

import chess
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.rules import automatic_end, replayed, resignation, timed_out
from worldledger_chess.rules.endings import Player, Reason

from tests.cases import cases
from tests.rulesets.chess.worlds import table

SHUFFLE = ["g1f3", "g8f6", "f3g1", "f6g8"]
#: A king that walks round and a rook that steps aside: no position comes again for long.
ROOK = "7k/8/8/8/8/8/8/KR6 w - - {clock} 80"


@cases(
    "moves, ending",
    [
        ([], None),
        (["f2f3", "e7e5", "g2g4"], None),
        (["f2f3", "e7e5", "g2g4", "d8h4"], ("checkmate", "black_wins", "checkmate")),
        (["e2e4", "e7e5", "f1c4", "b8c6", "d1h5", "g8f6", "h5f7"], ("checkmate", "white_wins", "checkmate")),
        (SHUFFLE, None),
        ((SHUFFLE * 2)[:-1], None),
        (SHUFFLE * 2, ("draw", "draw", "threefold_repetition")),
        (SHUFFLE * 4, ("draw", "draw", "threefold_repetition")),
    ],
)
def test_ends_from_the_usual_position(moves: list[str], ending: tuple[str, str, str] | None) -> None:
    """Checkmate; repetition once it is there the third time (claimed) or the fifth, not one move before."""
    found = automatic_end(replayed(chess.STARTING_FEN, moves))
    assert (found and (found.status, found.result, found.reason)) == ending


@cases(
    "fen, ending",
    [
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 0 1", ("stalemate", "draw", "stalemate")),
        ("7k/8/6K1/8/8/8/8/8 b - - 0 1", ("draw", "draw", "insufficient_material")),
        ("7k/8/6K1/8/8/8/8/6N1 b - - 0 1", ("draw", "draw", "insufficient_material")),
        ("7k/8/6K1/8/8/8/8/5NN1 b - - 0 1", None),
        (ROOK.format(clock=99), None),
        (ROOK.format(clock=100), ("draw", "draw", "fifty_moves")),
        (ROOK.format(clock=149), ("draw", "draw", "fifty_moves")),
        (ROOK.format(clock=150), ("draw", "draw", "fifty_moves")),
        ("R6k/6pp/8/8/8/8/8/K7 b - - 100 80", ("checkmate", "white_wins", "checkmate")),
        ("7k/5Q2/6K1/8/8/8/8/8 b - - 150 80", ("stalemate", "draw", "stalemate")),
    ],
)
def test_ends_on_the_board(fen: str, ending: tuple[str, str, str] | None) -> None:
    """Stalemate, dead positions, fifty and seventy-five moves; checkmate and stalemate go before the clock."""
    found = automatic_end(replayed(fen, []))
    assert (found and (found.status, found.result, found.reason)) == ending


def test_the_fiftieth_move_ends_it() -> None:
    """The game is drawn by the move that makes it a hundred, not by the one before."""
    board = replayed(ROOK.format(clock=98), ["b1b2"])
    assert automatic_end(board) is None
    board.push_uci("h8g8")
    found = automatic_end(board)
    assert found is not None
    assert found.reason == "fifty_moves"


def test_giving_up() -> None:
    """The other side wins; why can be said."""
    reasons: tuple[tuple[Player, Reason, str], ...] = (
        ("white", "resignation", "black_wins"),
        ("black", "illegal_move", "white_wins"),
        ("white", "abandoned", "black_wins"),
    )
    for loser, reason, result in reasons:
        found = resignation(loser, reason)
        assert (found.status, found.result, found.reason) == ("resigned", result, reason)
    assert resignation("black").reason == "resignation"


@cases(
    "fen, loser, ending",
    [
        (chess.STARTING_FEN, "white", ("timeout", "black_wins", "timeout")),
        (chess.STARTING_FEN, "black", ("timeout", "white_wins", "timeout")),
        ("7k/7p/8/8/8/8/8/K7 w - - 0 1", "white", ("timeout", "black_wins", "timeout")),
        ("7k/7p/8/8/8/8/8/K7 w - - 0 1", "black", ("draw", "draw", "timeout")),
        ("7k/7q/8/8/8/8/8/KB6 w - - 0 1", "black", ("draw", "draw", "timeout")),
        ("7k/7p/8/8/8/8/8/KB6 w - - 0 1", "black", ("timeout", "white_wins", "timeout")),
    ],
)
def test_time_that_is_over(fen: str, loser: Player, ending: tuple[str, str, str]) -> None:
    """The other side wins, unless it could never checkmate."""
    found = timed_out(replayed(fen, []), loser)
    assert (found.status, found.result, found.reason) == ending


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 150))
def test_the_rules_take_every_end(seed: int, plies: int) -> None:
    """Whatever end is found in a random game, the rules of the world write it."""
    rng = random.Random(seed)
    world = table("3rk3/8/8/8/8/8/8/3RK3 w - - 90 60")
    board = replayed(world.board["initial_fen"], [])
    for _ in range(plies):
        if automatic_end(board) is not None:
            break
        move = rng.choice(list(board.legal_moves))
        world.move(move.uci())
        board.push(move)
    loser: Player = rng.choice(["white", "black"])
    by_board = automatic_end(board)
    for ending in (by_board,) if by_board is not None else (resignation(loser), timed_out(board, loser)):
        claim = {"status": ending.status, "result": ending.result, "reason": ending.reason}
        written = world.ask("GameEnded", claim)
        assert written == {**claim, "final_fen": board.fen(), "plies": len(board.move_stack)}
