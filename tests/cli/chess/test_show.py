"""`chess show`: a game for people, as JSON and as a drawing."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import BAZAAR, GAME, play, record

from .games import moved, rejected, started

LIVE = [
    started(white="Ann A."),
    rejected("e2e5"),
    moved("e2e4", thinking_time=1.25, clock=58.75),
    moved("e7e5", thinking_time=75),
    rejected(None, "no_answer"),
    moved("f1c4"),
]


def live(url: str) -> None:
    """Have a game that is played here."""
    play(url, "live", LIVE, ruleset="chess")


@pytest.mark.filled(by=live, read=True)
def test_a_live_game_for_people(on: Cli) -> None:
    """Board, players, moves with times and clocks, attempts, and who is to move."""
    result = on("chess", "show", "live")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "live after all 3 half-moves\n"
        "\n"
        "  8  ♜ ♞ ♝ ♛ ♚ ♝ ♞ ♜\n"
        "  7  ♟ ♟ ♟ ♟ · ♟ ♟ ♟\n"
        "  6  · · · · · · · ·\n"
        "  5  · · · · ♟ · · ·\n"
        "  4  · · ♗ · ♙ · · ·\n"
        "  3  · · · · · · · ·\n"
        "  2  ♙ ♙ ♙ ♙ · ♙ ♙ ♙\n"
        "  1  ♖ ♘ ♗ ♕ ♔ · ♘ ♖\n"
        "     a b c d e f g h\n"
        "  Ann A. against bo, Bc4 at ply 3, black to move\n"
        "\n"
        "  white  Ann A. (ana)  2 moves, thought 1.2 s, clock 0:00:58.7, 1 illegal\n"
        "  black  bo            1 move, thought 0:01:15\n"
        "\n"
        "moves\n"
        "  1.  e4   seq 4  1.2 s  0:00:58.7  e5  seq 5  0:01:15\n"
        "  2.  Bc4  seq 7\n"
        "\n"
        "2 rejected attempts\n"
        "  e2e5  white  seq 3  at the beginning  illegal move\n"
        "  ?     white  seq 6  after e5, ply 2   no answer\n"
        "\n"
        "result in progress, black to move\n"
    )


@pytest.mark.filled(by=live, read=True)
def test_after_some_moves(on: Cli) -> None:
    """--ply shows the position after so many, with what was attempted there; the beginning is 0, the end the last."""
    out = on("chess", "show", "live", "--ply", "0").out
    assert out.startswith("live after 0 of 3 half-moves\n")
    assert "1 rejected attempt\n  e2e5  white  seq 3  at the beginning" in out
    assert "\nmoves\n" not in out
    out = on("chess", "show", "live", "--ply", "2").out
    assert "after e5, ply 2" in out
    assert "2." not in out
    assert on("chess", "show", "live", "--ply", "3").out == on("chess", "show", "live").out
    for ply in ("4", "-1"):
        refused = on("chess", "show", "live", "--ply", ply)
        assert (refused.code, refused.out) == (2, "")
        assert refused.err == f"worldledger: the game 'live' has no ply {ply}; its last is 3\n"


@pytest.mark.filled(by=live, read=True)
def test_a_moment_in_one_spelling(on: Cli) -> None:
    """A half-move, a move of both sides, a step and a seq name the same positions, with --at or own options."""
    for moments, shown in {
        (("--at", "ply:2"), ("--at", "move:1"), ("--move", "1"), ("--at", "step:2"), ("--at", "6")): ("--ply", "2"),
        (("--at", "ply:0"), ("--at", "move:0"), ("--at", "seq:3")): ("--ply", "0"),
        (("--at", "move:2"), ("--at", "head"), ("--move", "2")): ("--ply", "3"),
    }.items():
        for moment in moments:
            assert on("chess", "show", "live", *moment) == on("chess", "show", "live", *shown)
    for name, why in {
        "move:3": "worldledger: world 'live' has no move 3; its last is 2\n",
        "turn:1": "worldledger: world 'live' has no turn 1; worlds of chess have no such unit, only move, ply, step\n",
        "pli:1": "worldledger: world 'live' has no pli 1; worlds of chess have no such unit; did you mean ply:1?\n",
        "1": "worldledger: the game 'live' was not started yet at seq 1\n",
    }.items():
        assert on("chess", "show", "live", "--at", name) == (2, "", why)
    assert "one moment" in on("chess", "show", "live", "--ply", "1", "--move", "1").err


def test_comments_and_evaluations(on: Cli, tmp_path: Path) -> None:
    """What a record says about moves is shown with them: evaluations from White's side, comments below their line."""
    text = "1. e4 { [%eval 0.31] best\nby test } e5 { [%eval #-4] } 2. Nf3 { why? } *"
    (tmp_path / "a.pgn").write_text(f'[White "A"]\n[Black "B"]\n\n{text}')
    assert on("import", "pgn", str(tmp_path)).code == 0
    (world,) = json.loads(on("worlds", "--json").out)
    assert on("chess", "show", world["world_id"]).out.partition("\nmoves\n")[2].partition("\n\n")[0] == (
        "  1.  e4   seq 3  +0.31  e5  seq 4  #-4\n      e4: best by test\n  2.  Nf3  seq 5\n      Nf3: why?"
    )


def test_a_recorded_game(on: Cli, tmp_path: Path) -> None:
    """Its end is told in words and as it was recorded; a game that begins with Black's move says so."""
    fen = (
        '[FEN "4k3/8/8/8/8/8/4q3/K7 b - - 3 40"]\n[Result "Illegal move (a1b1) by white"]\n\n40... Qd2 {[%clk 0:01:00]}'
    )
    (tmp_path / "a.pgn").write_text(GAME.format(1) + fen)
    assert on("import", "pgn", str(tmp_path)).code == 0
    mate, other = (world["world_id"] for world in json.loads(on("worlds", "--json").out))
    assert "\nresult black wins: checkmate (recorded as 0-1)\n" in on("chess", "show", mate).out
    out = on("chess", "show", other).out
    assert "moves\n  40.  …      Qd2  seq 3  0:01:00\n" in out
    assert "  a1b1  white  seq 4  after Qd2, ply 1  illegal move\n" in out
    assert out.endswith("result black wins: resigned, illegal move (recorded as Illegal move (a1b1) by white)\n")


@pytest.mark.filled(by=live, read=True)
def test_as_json(on: Cli) -> None:
    """One object with everything, in the words of the effects."""
    found = json.loads(on("chess", "show", "live", "--ply", "2", "--json").out)
    assert (found["world_id"], found["ply"], found["plies"], found["turn"]) == ("live", 2, 3, "white")
    assert found["fen"] == "rnbqkbnr/pppp1ppp/8/4p3/4P3/8/PPPP1PPP/RNBQKBNR w KQkq - 0 2"
    assert (found["status"], found["result"], found["raw_result"]) == ("in_progress", None, None)
    assert found["players"]["white"]["clock"] == 58.75
    assert [(move["ply"], move["uci_notation"], move["san_notation"]) for move in found["moves"]] == [
        (1, "e2e4", "e4"),
        (2, "e7e5", "e5"),
    ]
    assert [move["thinking_time"] for move in found["moves"]] == [1.25, 75]
    assert [(attempt["after_ply"], attempt["attempted"]) for attempt in found["attempts"]] == [(0, "e2e5"), (2, None)]
    seq = found["moves"][1]["global_seq"]
    assert (
        json.loads(on("state", "live", "--at-seq", str(seq), "--json").out)["state"]["entities"]["board"]["fen"]
        == found["fen"]
    )


@pytest.mark.filled(by=live, read=True)
def test_a_drawing(on: Cli, tmp_path: Path) -> None:
    """--svg writes the board as SVG with the last move marked; - is stdout, and then nothing else is there."""
    file = tmp_path / "board.svg"
    shown = on("chess", "show", "live", "--ply", "1", "--svg", str(file))
    assert shown == on("chess", "show", "live", "--ply", "1")
    text = file.read_text()
    classes = [node.get("class") or "" for node in ET.fromstring(text).iter()]
    marked = [name for name in classes if "lastmove" in name]
    assert sorted(marked) == ["square light lastmove e2", "square light lastmove e4"]
    assert on("chess", "show", "live", "--ply", "1", "--svg", "-").out == text
    assert "lastmove" not in on("chess", "show", "live", "--ply", "0", "--svg", "-").out
    assert on("chess", "show", "live", "--svg", "-", "--json").code == 2
    refused = on("chess", "show", "live", "--svg", str(tmp_path / "no" / "a.svg"))
    assert (refused.code, refused.out) == (2, "")
    assert "cannot be written" in refused.err


def test_a_check_is_drawn(on: Cli, database_url: str) -> None:
    """The king that is in check is marked."""
    play(database_url, "w", [started(), *map(moved, ("f2f3", "e7e5", "g2g4", "d8h4"))], ruleset="chess")
    assert "url(#check_gradient)" in on("chess", "show", "w", "--svg", "-").out
    assert "url(#check_gradient)" not in on("chess", "show", "w", "--ply", "3", "--svg", "-").out


def test_worlds_that_are_no_games(on: Cli, database_url: str) -> None:
    """Another ruleset's, one in which no game was started, and none at all are exit code 2."""
    record(database_url, "bazaar", BAZAAR)
    play(database_url, "empty", [], ruleset="chess")
    for name, why in {
        "bazaar": "world 'bazaar' is no game of chess; its ruleset is sandbox",
        "empty": "no game was started in the world 'empty'",
        "nowhere": "no world named 'nowhere'; `worldledger worlds` lists all",
    }.items():
        assert on("chess", "show", name) == (2, "", f"worldledger: {why}\n")
