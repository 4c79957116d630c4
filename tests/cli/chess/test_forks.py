"""Forks of games of chess: shown, exported and counted as games that go on."""

from __future__ import annotations

import io
import json

import chess.pgn
import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import play, sql

from .games import moved, posted, rejected, started

#: Black loses on move 4; Bo thinks for 2 seconds each time.
_MATE = [
    started(white="Ann A.", tags={"Event": "Cup", "White": "Ann A.", "Black": "Bo", "Result": "1-0"}),
    rejected("e2e5"),
    moved("e2e4"),
    moved("e7e5", thinking_time=2.0),
    moved("f1c4"),
    moved("b8c6", thinking_time=2.0),
    moved("d1h5"),
    moved("g8f6", thinking_time=2.0),
    moved("h5f7"),
    posted("GameEnded", status="checkmate", result="white_wins", reason="checkmate"),
]
#: The fork defends, and White resigns after an attempt.
_BETTER = [
    moved("g7g6", thinking_time=3.0),
    rejected("h5h9"),
    posted("GameEnded", status="resigned", result="black_wins", reason="resignation"),
]


@pytest.fixture
def better(on: Cli, database_url: str) -> None:
    """Have a game, and its fork from before the blunder that lost it."""
    play(database_url, "cup", _MATE, ruleset="chess", experiment="cup")
    assert on("fork", "cup", "--at", "ply:5", "--as", "better").code == 0
    play(database_url, "better", _BETTER)


@pytest.mark.usefixtures("better")
def test_a_fork_shows_the_whole_game(on: Cli) -> None:
    """`chess show` has the parent's moves, marked, before the fork's own; a moment of before lies in the parent."""
    out = on("chess", "show", "better").out
    assert out.startswith("better after all 6 half-moves\n")
    assert "\nmoves, up to ply 5 those of cup\n" in out
    assert ["3.", "Qh5", "(seq", "8)", "g6", "seq", "3", "3.0", "s"] in [line.split() for line in out.splitlines()]
    assert "  h5h9  white  seq 4    after g6, ply 6   illegal move\n" in out
    assert out.endswith("\nresult black wins: resigned, resignation\n")
    told = json.loads(on("chess", "show", "better", "--json").out)
    assert [(move["world_id"], move["global_seq"]) for move in told["moves"][4:]] == [("cup", 8), ("better", 3)]
    assert on("chess", "show", "better", "--ply", "2").out.startswith("cup after 2 of 6 half-moves\n")
    assert on("chess", "show", "better", "--at", "ply:6").out.startswith("better after all 6 half-moves\n")


@pytest.mark.usefixtures("better")
def test_a_fork_is_exported_whole(on: Cli) -> None:
    """`export pgn` of a fork writes the whole game with its own result and name, and the parent's tags."""
    game = chess.pgn.read_game(io.StringIO(on("export", "pgn", "better", "-o", "-").out))
    assert game is not None
    assert [move.uci() for move in game.mainline_moves()] == ["e2e4", "e7e5", "f1c4", "b8c6", "d1h5", "g7g6"]
    tags = game.headers
    assert (tags["Event"], tags["GameId"], tags["Result"], tags["White"]) == ("Cup", "better", "0-1", "Ann A.")


@pytest.mark.usefixtures("better")
def test_nothing_that_a_fork_inherits_counts_twice(on: Cli, database_url: str) -> None:
    """Tables of a fork have its own moves and counts alone; totals leave it out, unless they are with forks."""
    assert on("project", "--once").code == 0

    def rows(query: str) -> list[list[str]]:
        lines = on("sql", query, "--format", "csv").out.splitlines()
        return [line.split(",") for line in lines[1:]]

    assert rows("select world_id, ply, san_notation from moves where world_id = 'better'") == [["better", "6", "g6"]]
    assert rows("select white, status, result, plies, black_agent_id from games where world_id = 'better'") == [
        ["Ann A.", "resigned", "black_wins", "6", "bo"]
    ]
    stats = "agent_id, games_played, games_won, total_moves, timed_moves, illegal_moves_attempted"
    assert rows(f"select {stats} from agent_stats where world_id = 'better' order by 1") == [
        ["ana", "1", "0", "0", "0", "1"],
        ["bo", "1", "1", "1", "1", "0"],
    ]
    totals = f"select {stats} from projections.agent_totals{{}} order by 1"
    assert sql(database_url, totals.format("")) == [("ana", 1, 1, 4, 0, 1), ("bo", 1, 0, 3, 3, 0)]
    assert sql(database_url, totals.format("_with_forks")) == [("ana", 2, 1, 4, 0, 2), ("bo", 2, 1, 4, 4, 0)]
