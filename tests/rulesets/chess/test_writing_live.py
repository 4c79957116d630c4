"""Games that were played here, as PGN."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_chess.rules.gamelog import GameLog
from worldledger_chess.rules.writing import write_game

from tests.cases import cases
from tests.rulesets.chess.recorded import one, payloads
from tests.rulesets.chess.worlds import draft, effects, moved, pgn_of, started
from worldledger.errors import SimulationError


def attempt(attempted: Any, player: str = "white", reason: str = "illegal_move") -> dict[str, Any]:
    """Return a MoveRejected."""
    return draft("MoveRejected", {"player": player, "attempted": attempted, "reason": reason})


def ended(status: str, result: str, reason: str) -> dict[str, Any]:
    """Return a GameEnded as a service writes it."""
    return draft("GameEnded", {"status": status, "result": result, "reason": reason})


def test_a_game_that_was_played_here() -> None:
    """It has the roster, the world, the time, and its attempts in comments; moves need say no more than their UCI."""
    log = [
        started(),
        attempt("e2e5"),
        moved("e2e4", thinking_time=2.34, clock=58.5),
        attempt("{Ke}9\n[%clk 0:00:01]", "black", "malformed"),
        moved("e7e5", comment="quite so"),
        moved("d1h5", thinking_time=0.5),
        ended("resigned", "white_wins", "resignation"),
    ]
    game = write_game(GameLog.of(effects(log)), event="house")
    assert game.text == (
        '[Event "house"]\n[Site "?"]\n[Date "1970.01.01"]\n[Round "?"]\n[White "ana"]\n[Black "bo"]\n[Result "1-0"]\n'
        '[GameId "w"]\n[UTCDate "1970.01.01"]\n[UTCTime "00:16:41"]\n[Termination "normal"]\n'
        "\n"
        "{ white tried e2e5: illegal move } 1. e4 { [%clk 0:00:58.5] [%emt 0:00:02.34] }\n"
        "{ black tried {Ke)9 [ %clk 0:00:01]: malformed } 1... e5 { quite so } 2. Qh5\n"
        "{ [%emt 0:00:00.5] } 1-0\n"
    )
    assert game[1:] == (3, "1-0", None)
    back = one(game.text)
    assert (back.status, back.result, back.reason) == ("resigned", "white_wins", "resignation")
    assert [move["thinking_time"] for move in payloads(back)] == [2.34, None, 0.5]


@cases(
    "status, result, reason",
    [
        ("draw", "draw", "agreement"),
        ("draw", "draw", "threefold_repetition"),
        ("draw", "draw", "timeout"),
        ("draw", "draw", "adjudication"),
        ("resigned", "black_wins", "resignation"),
        ("resigned", "black_wins", "abandoned"),
        ("resigned", "black_wins", "rules_infraction"),
        ("resigned", "black_wins", "illegal_move"),
        ("resigned", "black_wins", "unknown"),
        ("timeout", "black_wins", "timeout"),
    ],
)
def test_an_end_that_was_made_here_is_read_back(status: str, result: str, reason: str) -> None:
    """Result and Termination say it."""
    log = [started(white="A. Na"), moved("e2e4"), moved("e7e5"), attempt("e4e6"), ended(status, result, reason)]
    back = one(pgn_of(log))
    assert (back.status, back.result, back.reason) == (status, result, reason)
    assert [move["attempted"] for move in payloads(back, "MoveRejected")] == ["e4e6"] * (reason == "illegal_move")
    assert payloads(back, "GameStarted")[0]["white"] == "A. Na"


@cases(
    "start",
    [
        {},
        {"initial_fen": "8/P2k4/8/2pP4/8/8/4p1PP/R3K2R b KQ - 3 40"},
        {"variant": "chess960"},
        {"variant": "chess960", "initial_fen": "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"},
        {"variant": "atomic"},
        {"variant": "crazyhouse", "initial_fen": "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR[Qp] w KQkq - 0 1"},
        {"variant": "3check"},
        {"tags": {"Event": "Cup", "FEN": "8/8/8/8/8/8/8/8 w - - 0 1", "no name": "x", "Round": 3}},
    ],
)
def test_any_beginning_is_read_back(start: dict[str, Any]) -> None:
    """FEN, SetUp and Variant are written where they are needed, and tags that say otherwise are put right."""
    log = GameLog.of(effects([started(**start)]))
    log = GameLog.of(effects([started(**start), moved(next(iter(log.board.legal_moves)).uci())]))
    back = one(write_game(log).text)
    found = payloads(back, "GameStarted")[0]
    assert (found["variant"], found["initial_fen"]) == (start.get("variant", "standard"), log.initial.fen())
    assert back.final_fen == log.board.fen()
    assert found["agents"] == (
        {"white": "white", "black": "black"} if "tags" in start else {"white": "ana", "black": "bo"}
    )


def test_a_recorded_game_that_went_on_here() -> None:
    """Its tags stay, but the Result is that of its end."""
    game = one('[White "Ana"]\n[Annotator "x"]\n[Result "*"]\n\n1. f3 e5 2. g4 *')
    log = [*game.drafts, moved("d8h4"), ended("checkmate", "black_wins", "checkmate")]
    back = one(pgn_of(log))
    assert payloads(back, "GameStarted")[0]["tags"] == {
        "White": "Ana",
        "Annotator": "x",
        "Result": "0-1",
        "Termination": "normal",
    }
    assert (back.status, back.moves) == ("checkmate", 4)


def test_effects_that_do_not_count_are_not_written() -> None:
    """A second start, a move of nobody's turn, one after the end: what the fold leaves out."""
    log = [
        moved("e2e4"),
        started(),
        started(white="other"),
        moved("e2e4"),
        moved("d2d4"),
        moved("e7e5"),
        draft("Sneezed", {}),
        ended("draw", "draw", "agreement"),
        moved("g1f3"),
    ]
    back = one(pgn_of(log))
    assert [move["uci_notation"] for move in payloads(back)] == ["e2e4", "e7e5"]


def test_a_world_without_a_game_cannot_be_written() -> None:
    """Nor one whose log states a move that cannot be played."""
    with pytest.raises(SimulationError, match="no game was started"):
        pgn_of([moved("e2e4")])
    stated = {"san_notation": "Ke9", "fen": "8/8/8/8/8/8/8/K6k b - - 0 1"}
    with pytest.raises(SimulationError, match="seq 2: e1e8 cannot be played"):
        pgn_of([started(), moved("e1e8", **stated)])
