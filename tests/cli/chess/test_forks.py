"""Forks of games of chess: shown, exported and counted as games that go on."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import chess.pgn
import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import call, play, sql

from .games import moved, posted, rejected, started

#: Black loses on move 4; Bo thinks for 2 seconds each time.
_MATE = [
    started(white="Ann A.", tags={"Event": "Cup", "White": "Ann A.", "Black": "Bo", "Result": "1-0"}),
    rejected("e2e5"),
    moved("e2e4"),
    moved("e7e5", thinking_time=2.0, evaluation={"cp": 30, "depth": 1}),
    moved("f1c4"),
    moved("b8c6", thinking_time=2.0),
    moved("d1h5"),
    moved("g8f6", thinking_time=2.0),
    moved("h5f7", evaluation={"cp": 900, "depth": 1}),
    posted("GameEnded", status="checkmate", result="white_wins", reason="checkmate"),
]
_MARKERS = {"white_wins": "1-0", "black_wins": "0-1", "draw": "1/2-1/2"}
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
def test_units_of_a_fork_begin_where_its_history_has_them(on: Cli) -> None:
    """What lies before the first half-move is the parent's; a move that began before the fork point begins there."""
    at = json.loads(on("state", "better", "--at", "ply:0", "--json").out)
    assert (at["world_id"], at["global_seq"]) == ("cup", 3)
    for begin, expected in {
        "ply:0": ("cup", 1),
        "step:4": ("cup", 7),
        "ply:5": ("cup", 8),
        "move:3": ("cup", 8),
        "ply:6": ("better", 3),
    }.items():
        out = on("replay", "better", "--from", begin, "--speed", "max", "--json").out
        first = json.loads(out.splitlines()[0])
        assert (first["world_id"], first["global_seq"]) == expected, begin
    assert on("fork", "better", "--at", "head", "--as", "deeper").code == 0
    out = on("replay", "deeper", "--from", "move:3", "--speed", "max", "--json").out
    assert json.loads(out.splitlines()[0])["global_seq"] == 8


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
def test_an_evaluation_that_a_fork_inherits_is_not_its_last(on: Cli) -> None:
    """`compare` has measures at the end of each run: none for a fork whose own moves have no evaluation."""
    out = on("compare", "cup", "better").out
    assert re.search(r"^ +evaluation +- +- +9 +- *$", out, re.MULTILINE), out


@pytest.mark.usefixtures("better")
def test_a_half_move_that_a_fork_does_not_have(on: Cli) -> None:
    """The error names the fork that was asked, and the last half-move of its history, in whichever log that is."""
    assert on("fork", "better", "--at", "head", "--as", "idle").code == 0
    for fork in ("better", "idle"):
        result = on("state", fork, "--at", "ply:99")
        assert (result.code, result.err) == (2, f"worldledger: world '{fork}' has no ply 99; its last is 6\n")
    assert on("state", "idle", "--at", "plys:9").err == (
        "worldledger: world 'idle' has no plys 9; worlds of chess have no such unit; did you mean ply:9?\n"
    )


@pytest.mark.usefixtures("better")
def test_a_fork_is_exported_whole(on: Cli) -> None:
    """`export pgn` of a fork writes the whole game with its own result and name, and the parent's tags."""
    game = chess.pgn.read_game(io.StringIO(on("export", "pgn", "better", "-o", "-").out))
    assert game is not None
    assert [move.uci() for move in game.mainline_moves()] == ["e2e4", "e7e5", "f1c4", "b8c6", "d1h5", "g7g6"]
    tags = game.headers
    assert (tags["Event"], tags["GameId"], tags["Result"], tags["White"]) == ("Cup", "better", "0-1", "Ann A.")


@pytest.mark.usefixtures("better")
@pytest.mark.usefixtures("projected")
def test_nothing_that_a_fork_inherits_counts_twice(on: Cli, database_url: str) -> None:
    """Tables of a fork have its own moves and counts alone; totals leave it out, unless they are with forks."""
    assert on("project", "--once").code == 0

    def rows(query: str) -> list[list[str]]:
        lines = on("sql", query, "--format", "csv").out.splitlines()
        return [line.split(",") for line in lines[1:]]

    moves = "select ply, san_notation, inherited_from from moves_with_forks where world_id = 'better' order by ply"
    inherited = [[str(ply), san, "cup"] for ply, san in enumerate(("e4", "e5", "Bc4", "Nc6", "Qh5"), 1)]
    assert rows(moves) == [*inherited, ["6", "g6", ""]]
    assert rows("select world_id from moves where world_id = 'better'") == []
    game = "select white, status, result, plies, black_agent_id from games_with_forks where world_id = 'better'"
    assert rows(game) == [["Ann A.", "resigned", "black_wins", "6", "bo"]]
    stats = "agent_id, games_played, games_won, total_moves, timed_moves, illegal_moves_attempted"
    assert rows(f"select {stats} from agent_stats_with_forks where world_id = 'better' order by 1") == [
        ["ana", "1", "0", "0", "0", "1"],
        ["bo", "1", "1", "1", "1", "0"],
    ]
    totals = f"select {stats} from projections.agent_totals{{}} order by 1"
    assert sql(database_url, totals.format("")) == [("ana", 1, 1, 4, 0, 1), ("bo", 1, 0, 3, 3, 0)]
    assert sql(database_url, totals.format("_with_forks")) == [("ana", 2, 1, 4, 0, 2), ("bo", 2, 1, 4, 4, 0)]


def _play_on(on: Cli, *more: str) -> dict[str, Any]:
    """Let random players go on with the game `cup` from ply 5; return the report's game."""
    players = ("--white", "random", "--black", '{"name": "random"}', "--seed", "3")
    result = on("chess", "play", "--from", "cup@ply:5", *players, "--json", *more)
    assert (result.code, result.err) == (0, "")
    (game,) = json.loads(result.out)["games"]
    assert isinstance(game, dict)
    return game


@pytest.mark.usefixtures("better")
@pytest.mark.usefixtures("projected")
def test_a_game_is_played_on_by_others(on: Cli, database_url: str) -> None:
    """`chess play --from` forks a game by the name of `--as`, and others play on; all tables say whose each move is."""
    played = _play_on(on, "--as", "cup-again")
    world = played["world_id"]
    assert world == "cup-again"
    assert "\n  inherited from cup: verified 8 effects, up to 8:" in on("verify", world).out
    shown = json.loads(on("chess", "show", world, "--json").out)
    assert [move["uci_notation"] for move in shown["moves"][:5]] == ["e2e4", "e7e5", "f1c4", "b8c6", "d1h5"]
    assert [move["agent_id"] for move in shown["moves"][3:7]] == ["bo", "ana", "random-2", "random-1"]
    assert shown["plies"] == played["plies"] > 6
    own = shown["plies"] - 5
    page = on("chess", "show", world).out
    assert f"  white  random-1  {own // 2} of {3 + own // 2} moves" in page
    game = chess.pgn.read_game(io.StringIO(on("export", "pgn", world, "-o", "-").out))
    assert game is not None
    tags = game.headers
    assert (tags["Event"], tags["White"], tags["Black"], tags["GameId"]) == ("Cup", "random-1", "random-2", world)
    assert (tags["Result"], "WhiteElo" in tags) == (_MARKERS[played["result"]], False)
    assert len(list(game.mainline_moves())) == shown["plies"]
    assert on("project", "--once").code == 0
    what = "white_agent_id, plies, result, started_seq, experiment"
    assert sql(database_url, f"select {what} from projections.games where world_id = '{world}'") == [
        ("random-1", shown["plies"], played["result"], None, "cup")
    ]
    of_world = f"where world_id = '{world}'"
    counted = f"select agent_id, count(*), min(ply) from projections.moves {of_world} group by 1 order by 1"
    assert sql(database_url, counted) == [("random-1", own // 2, 7), ("random-2", own - own // 2, 6)]
    stats = f"select agent_id, total_moves, games_played, is_fork from projections.agent_stats {of_world}"
    assert sql(database_url, f"{stats} order by 1") == [
        ("random-1", own // 2, 1, True),
        ("random-2", own - own // 2, 1, True),
    ]
    roles = f"select agent_id, role from projections.agents {of_world} and role is not null order by 1"
    assert sql(database_url, roles) == [("random-1", "white"), ("random-2", "black")]


def test_time_goes_on_in_a_recorded_game_that_is_played_on(on: Cli, database_url: str, tmp_path: Path) -> None:
    """The clock sets the sim_time of a game that goes on from a recorded one, from where that one stood."""
    (tmp_path / "one.pgn").write_text("1. e4 {[%clk 0:09:57]} e5 {[%clk 0:09:50]} 2. Nf3 *\n")
    assert on("import", "pgn", str(tmp_path / "one.pgn")).code == 0
    ((recorded,),) = sql(database_url, "select world_id from worlds")
    players = ("--white", "random", "--black", "random", "--seed", "3")
    result = on("chess", "play", "--from", f"{recorded}@ply:2", *players, "--json")
    assert (result.code, result.err) == (0, "")
    world = json.loads(result.out)["games"][0]["world_id"]
    inherited, *_, last = (
        time
        for (time,) in sql(database_url, f"select sim_time from effects where world_id = '{world}' order by global_seq")
    )
    point = "(effect #>> '{payload,fork_of,global_seq}')::bigint"
    there = f"(select {point} from effects where world_id = '{world}' and global_seq = 1)"
    stood = f"select sim_time from effects where world_id = '{recorded}' and global_seq = {there}"
    assert sql(database_url, stood) == [(inherited,)]
    assert last > inherited


@pytest.mark.usefixtures("better")
def test_a_game_that_is_over_is_not_played_on(on: Cli, database_url: str) -> None:
    """`chess play --from` refuses a moment at which the game was over, and a name it cannot give; it makes nothing."""
    before = sql(database_url, "select count(*) from worlds")
    result = on("chess", "play", "--from", "cup", "--white", "random", "--black", "random")
    assert result.code == 2
    assert "cup@seq:11 cannot be played on: the game is over there (white wins, checkmate)" in result.err
    for place, more, why in (
        ("cup", ("--fen", "x"), "neither --fen nor --chess960"),
        ("cup@ply:x", (), "ply:x"),
        ("cups", (), "no world named 'cups'"),
        ("cup@ply:4", ("--as", "better"), "a world named 'better' is already there"),
        ("cup@ply:4", ("--as", "no/name"), "--as: "),
        ("cup@ply:4", ("--as", "more", "--games", "2"), "--as names one game"),
    ):
        result = on("chess", "play", "--from", place, "--white", "random", "--black", "random", *more)
        assert result.code == 2, place
        assert why in " ".join(result.err.split()), place
    assert sql(database_url, "select count(*) from worlds") == before


@pytest.mark.usefixtures("better")
def test_a_person_plays_on(database_url: str) -> None:
    """`me` is who types moves: what is no move is asked again, and `resign` gives up."""
    arguments = ("chess", "play", "--from", "cup@ply:5", "--white", "random", "--black", "me", "--seed", "1")
    result = call(*arguments, "--database-url", database_url, stdin=b"e2e4\nNf6\nresign\n")
    assert result.code == 0
    assert "ply 6: your move, black (resign gives up)? e2e4: " in result.err
    line = result.out.splitlines()[1].split()
    assert line[:7] == ["1", "random", "me", "1-0", "resignation", "7", line[6]]
    world = line[-1]
    log = f"select kind, source_id from effects where world_id = '{world}' and kind in ('MoveMade', 'MoveRejected')"
    assert sql(database_url, f"{log} order by global_seq") == [("MoveMade", "me"), ("MoveMade", "random")]


@pytest.mark.usefixtures("better")
def test_a_person_who_leaves(database_url: str) -> None:
    """A game whose person types nothing more is named, and waits in the log."""
    arguments = ("chess", "play", "--from", "cup@ply:5", "--white", "random", "--black", "me")
    result = call(*arguments, "--database-url", database_url, stdin=b"g6\n")
    assert result.code == 2
    assert "nothing more is typed" in result.err
    assert "unfinished: game 1" in result.err


@pytest.mark.usefixtures("better")
def test_a_game_is_run_on_without_a_move(on: Cli) -> None:
    """A rerun without a move refuses the rest of the game: the first refusal is named, the others are counted."""
    assert on("fork", "cup", "--at", "ply:1", "--as", "skipped").code == 0
    result = on("rerun", "skipped", "--skip", "5")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "ran on in skipped: seq 5 to 11 of cup, head 2\n"
        "  6 drafts submitted, 0 accepted, 6 refused\n"
        "  not submitted: 1 MoveMade\n"
        "  the states first differ after seq 5, at $.entities.black.moves\n"
        "  refused: seq 6 MoveMade of arena: $.payload.player: it is the turn of black\n"
        "  and 5 more after it (--json)\n"
    )
    kinds = [json.loads(line)["kind"] for line in on("log", "skipped", "--own").out.splitlines()]
    assert kinds == ["WorldCreated", "StateDigest"]


@pytest.mark.usefixtures("better")
def test_a_rerun_with_another_move_goes_on(on: Cli, tmp_path: Path) -> None:
    """The same move again in place of one goes on where it was stopped, though what was written says more; no other."""
    assert on("fork", "cup", "--at", "ply:4", "--as", "other").code == 0
    for name, uci in (("quiet", "g1f3"), ("loud", "d1g4")):
        (tmp_path / name).write_text(json.dumps({"payload": {"uci_notation": uci}}))
    same = ["rerun", "other", "--replace", f"8={tmp_path / 'quiet'}", "--json"]
    assert json.loads(on(*same, "--until", "8").out)["accepted"] == 1
    report = json.loads(on(*same).out)
    assert (report["resumed_after"], report["accepted"], report["refused"]) == (8, 1, 3)
    refused = on("rerun", "other", "--replace", f"8={tmp_path / 'loud'}")
    assert (refused.code, refused.out) == (2, "")
    assert "seq 8 was issued in 'other' by an earlier rerun; make another fork to replace it" in refused.err
