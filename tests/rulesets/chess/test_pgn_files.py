"""Whole files: the project's own example games, and real ones where they are at hand."""

from __future__ import annotations

import runpy
from collections import Counter
from pathlib import Path

import chess.pgn
import pytest
from worldledger_chess.rules.pgn import RecordedGame, read_games

from tests.cases import cases
from worldledger.drafts import check_draft

from .recorded import payloads

PROJECT = Path(__file__).parents[3]
EXAMPLES = PROJECT / "examples"
REAL = PROJECT.parent / "shared" / "data" / "pgn"


def games_of(path: Path) -> list[RecordedGame]:
    """Read a file of good games, all of whose drafts the write gate takes."""
    with path.open("rb") as stream:
        games = [game for game in read_games(stream, name=path.name) if isinstance(game, RecordedGame)]
    for game in games:
        for draft in game.drafts:
            check_draft(draft)
    return games


def positions_of(path: Path) -> list[str]:
    """Return the last position of every game as python-chess reads it by itself."""
    found = []
    with path.open(encoding="utf-8") as stream:
        while (game := chess.pgn.read_game(stream)) is not None:
            found.append(game.end().board().fen())
    return found


def test_the_example_games_show_what_they_say() -> None:
    """Eleven short games, all whole and without warnings, of the kinds that the project promises to show."""
    games = [game for path in sorted((EXAMPLES / "games").glob("*.pgn")) for game in games_of(path)]
    assert [warning for game in games for warning in game.warnings] == []
    assert len({game.digest for game in games}) == 11
    assert max(game.moves for game in games) < 120
    assert Counter(game.reason for game in games) == {
        "checkmate": 5,
        "stalemate": 1,
        "threefold_repetition": 1,
        "illegal_move": 1,
        "resignation": 1,
        "timeout": 1,
        None: 1,
    }
    starts = [payloads(game, "GameStarted")[0] for game in games]
    assert [start["variant"] for start in starts].count("chess960") == 2
    assert [start["sim_time_unit"] for start in starts].count("seconds") == 1
    assert sum(start["initial_fen"] != chess.STARTING_FEN for start in starts) == 4
    assert any(move["evaluation"] for game in games for move in payloads(game))
    assert any(move["is_promotion"] for game in games for move in payloads(game))
    assert any(move["variations"] for game in games for move in payloads(game))


def test_the_illegal_example_is_illegal() -> None:
    """The move that the example says was tried is not legal where it was tried."""
    (game,) = [game for game in games_of(EXAMPLES / "games" / "corner_table.pgn") if game.reason == "illegal_move"]
    (rejected,) = payloads(game, "MoveRejected")
    assert chess.Move.from_uci(rejected["attempted"]) not in chess.Board(rejected["fen"]).legal_moves
    assert (rejected["player"], rejected["agent_id"]) == ("white", "Hasty Hal")


def test_the_example_files_are_what_their_script_makes() -> None:
    """examples/make_games.py gives the same games every time."""
    texts = runpy.run_path(str(EXAMPLES / "make_games.py"))["texts"]()
    assert texts == {path.name: path.read_text(encoding="utf-8") for path in (EXAMPLES / "games").glob("*.pgn")}


@cases("path", sorted((EXAMPLES / "games").glob("*.pgn")), ids=lambda path: path.stem)
def test_the_example_games_end_where_python_chess_ends_them(path: Path) -> None:
    """Our reader and python-chess's agree on every last position."""
    assert [game.final_fen for game in games_of(path)] == positions_of(path)


@pytest.mark.skipif(not REAL.is_dir(), reason="the recorded games are not at hand")
def test_real_games_all_go_in_with_the_position_that_python_chess_gives() -> None:
    """Sixty games of language models, each a file; four of them end by an illegal move."""
    paths = sorted(REAL.rglob("*.pgn"))
    games = [game for path in paths for game in games_of(path)]
    assert len(games) == len({game.digest for game in games}) == 60
    assert [game.final_fen for game in games] == [fen for path in paths for fen in positions_of(path)]
    assert [warning for game in games for warning in game.warnings] == []
    assert Counter((game.status, game.result, game.reason) for game in games) == {
        ("checkmate", "black_wins", "checkmate"): 29,
        ("checkmate", "white_wins", "checkmate"): 24,
        ("draw", "draw", "threefold_repetition"): 2,
        ("draw", "draw", "insufficient_material"): 1,
        ("resigned", "white_wins", "illegal_move"): 3,
        ("resigned", "black_wins", "illegal_move"): 1,
    }
    rejected = [move for game in games for move in payloads(game, "MoveRejected")]
    assert Counter(move["attempted"] for move in rejected) == {None: 1, "h2h4": 1, "e1g1": 1, "h6g7": 1}
    assert {move["agent_id"] for move in rejected} == {"GPT-3.5 Turbo Instruct"}
