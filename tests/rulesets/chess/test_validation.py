"""validate_game_state: what it finds in a log and in a Game, and in which words."""

from __future__ import annotations

from typing import Any

import chess
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_chess.rules import BoardState, Game, validate_game_state

from tests.cases import cases
from tests.rulesets.chess.recorded import one
from tests.rulesets.chess.worlds import EXAMPLES, draft, effects, folded, games_in, moved, started

FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")
MATE = {"status": "checkmate", "result": "black_wins", "reason": "checkmate"}
MATED = (started(), *map(moved, FOOLS_MATE), draft("GameEnded", MATE))
RESIGNED = draft("GameEnded", {"status": "resigned", "result": "white_wins"})
BLACK_FIRST = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq - 0 1"


def game_of(*drafts: Any) -> Game:
    """Return the Game of these effects."""
    return Game.of(folded(drafts), effects(drafts), game_id="g")


@cases(
    "drafts",
    [
        [started()],
        [started(), moved("e2e4"), moved("e7e5")],
        [started(), draft("MoveMade", {"san_notation": "Nf3"}), draft("MoveRejected", {}), moved("e7e5")],
        [started(initial_fen=BLACK_FIRST), moved("e7e5", player="black")],
        [draft("Weather", {}), started(), draft("Weather", {}), moved("e2e4"), RESIGNED, draft("Weather", {})],
        MATED,
    ],
)
def test_a_log_that_holds(drafts: list[Any]) -> None:
    """There is nothing to say of it, nor of its Game; what is of no game is passed over."""
    assert validate_game_state(effects(drafts)) == []
    assert validate_game_state(effects(drafts), game_of(*drafts)) == []


def test_the_recorded_games_hold() -> None:
    """Each of the examples, and the Game made of it."""
    for recorded in games_in(EXAMPLES):
        log = effects(recorded.drafts)
        assert validate_game_state(log, Game.of(folded(recorded.drafts), log, game_id="g")) == []


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ('[Variant "Atomic"]\n\n1. Nf3 f6 2. Nd4 c6 3. Ne6 h6 4. Nxd8# 1-0', []),
        ('[Variant "Crazyhouse"]\n\n1. e4 d5 2. exd5 Qxd5 3. P@e4 *', []),
        ("1. e4 -- 2. d4 *", ["Illegal move in history: 0000"]),
    ],
)
def test_logs_of_other_games(text: str, errors: list[str]) -> None:
    """Variants by their own rules; a null move is no legal one."""
    assert validate_game_state(effects(one(text).drafts)) == errors


@cases(
    "drafts, errors",
    [
        ([], ["The game has not started"]),
        ([moved("e2e4")], ["MoveMade 1 comes before the game has started", "The game has not started"]),
        ([draft("GameStarted", {})], None),
        ([started(), started()], ["GameStarted 2: the game was started before"]),
        ([started(), moved("e2e5")], ["Illegal move in history: e2e5"]),
        ([started(), moved("e2e5"), moved("e7e5"), RESIGNED], ["Illegal move in history: e2e5"]),
        ([started(), moved("e2")], ["Illegal move in history: e2"]),
        ([started(), draft("MoveMade", {"uci_notation": 1})], ["Illegal move in history: 1"]),
        ([started(), draft("MoveMade", {})], ["Illegal move in history: "]),
        ([started(), draft("MoveMade", {"san_notation": "Ke2"})], ["Illegal move in history: Ke2"]),
        ([started(), moved("e2e4", player="black")], ["Turn mismatch: even moves should be white's turn"]),
        (
            [started(), moved("e2e4"), moved("e7e5", player="white")],
            ["Turn mismatch: odd moves should be black's turn"],
        ),
        (
            [started(initial_fen=BLACK_FIRST), moved("e7e5", player="white")],
            ["Turn mismatch: even moves should be black's turn"],
        ),
        ([started(), moved("e2e4", player=["white"])], ["Turn mismatch: even moves should be white's turn"]),
        ([started(), moved("e2e4", fen=chess.STARTING_FEN)], ["Board state doesn't match move history: ply 1"]),
        ([started(), moved("e2e4", piece="king")], ["Wrong fact: ply 1: piece says 'king'"]),
        ([started(), moved("e2e4", ply=2)], ["Wrong fact: ply 1: ply says 2"]),
        ([started(), draft("GameEnded", {"status": "draw"})], ["Terminal game must have result"]),
        ([started(), draft("GameEnded", {"status": "won", "result": "draw"})], ["GameEnded 2: the status"]),
        ([started(), draft("GameEnded", MATE)], ["Terminal state checkmate is not on the board"]),
        (
            [started(), draft("GameEnded", {"status": "stalemate", "result": "draw"})],
            ["Terminal state stalemate is not on the board"],
        ),
        (
            [started(), draft("GameEnded", {"status": "draw", "result": "draw", "plies": 3})],
            ["GameEnded 2: plies says 3"],
        ),
        ([started(), RESIGNED, moved("e2e4")], ["MoveMade 3 comes after the end of the game"]),
        ([started(), RESIGNED, draft("MoveRejected", {})], ["MoveRejected 3 comes after the end of the game"]),
        ([*MATED, RESIGNED], ["GameEnded 7 comes after the end of the game"]),
    ],
)
def test_a_log_that_does_not_hold(drafts: list[Any], errors: list[str] | None) -> None:
    """What is wrong is told, in order."""
    found = validate_game_state(effects(drafts))
    if errors is None:
        assert found
    else:
        assert len(found) == len(errors)
        assert all(text.startswith(error) for text, error in zip(found, errors, strict=True))


def test_what_follows_an_illegal_move_is_not_compared() -> None:
    """There is no board to compare it with."""
    drafts = [started(), moved("e2e4")]
    found = validate_game_state(effects([*drafts, moved("e2e4")]), game_of(*drafts))
    assert found == ["Illegal move in history: e2e4"]


@cases(
    "changes, error",
    [
        ({"current_turn": "black"}, "Turn mismatch: even moves should be white's turn"),
        ({"board_state": BoardState.from_fen(chess.STARTING_FEN)}, "Board state doesn't match move history"),
        ({"move_history": []}, "Move history is not that of the log"),
        ({"status": "in_progress"}, "Status is in_progress, but by the log it is checkmate"),
        ({"result": None}, "Terminal game must have result"),
        ({"result": "white_wins"}, "Result is white_wins, but by the log it is black_wins"),
        ({"ended_at": None}, "Terminal game must have end timestamp"),
        ({"started_at": None}, "started_at is not that of the log"),
        ({"ended_at": None}, "ended_at is not that of the log"),
        ({"last_updated": None}, "last_updated is not that of the log"),
    ],
)
def test_a_game_that_is_not_the_logs(changes: dict[str, Any], error: str) -> None:
    """Each field is compared; the copy has not been checked by itself."""
    assert error in validate_game_state(effects(MATED), game_of(*MATED).model_copy(update=changes))


def test_an_older_game_is_not_the_logs() -> None:
    """What a Game lacks is told."""
    found = validate_game_state(effects(MATED), game_of(*MATED[:3]))
    assert "Move history is not that of the log" in found
    assert "Status is in_progress, but by the log it is checkmate" in found


scalars = (
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["e2e4", "e4", "white", "draw", "", "\ud7ff"])
)
payloads = st.dictionaries(
    st.sampled_from(["uci_notation", "san_notation", "player", "fen", "ply", "status", "result", "agents", "plies"]),
    scalars | st.lists(scalars, max_size=2) | st.dictionaries(st.sampled_from(["white", "black"]), scalars, max_size=2),
    max_size=4,
)
kinds = st.sampled_from(["GameStarted", "MoveMade", "MoveMade", "MoveRejected", "GameEnded", "Weather"])


@settings(max_examples=200, deadline=None)
@given(st.lists(st.builds(draft, kinds, payloads), max_size=6), st.booleans())
def test_any_log_can_be_looked_at(drafts: list[Any], begun: bool) -> None:
    """Nothing is raised, whatever the payloads are."""
    log = effects([started(), *drafts] if begun else drafts)
    assert all(isinstance(error, str) for error in validate_game_state(log))
