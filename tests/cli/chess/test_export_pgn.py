"""`export pgn`: games as a file that brings the same effects in again."""

from __future__ import annotations

import io
import json
import logging
import signal
from pathlib import Path

import chess.pgn
import pytest

from tests.cli.conftest import Cli
from tests.cli.helpers import BAZAAR, GAME, SHARED, UNGUARDED, Lock, Running, done, forgery, play, record, sql

from .games import moved, rejected, started

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "games"
_EFFECTS = """
    select kind, source_id, sim_time, effect::jsonb -> 'payload' from effects join worlds using (world_id)
    where experiment = '{}' and kind <> 'WorldCreated'
    order by world_id, global_seq
"""


def games(url: str) -> None:
    """Have the example games as an experiment."""
    done("import", "pgn", str(EXAMPLES), "--experiment", "house", "--database-url", url)


def no_games(url: str) -> None:
    """Have a world of another kind, and a game that has not begun."""
    record(url, "bazaar", BAZAAR)
    play(url, "empty", [], ruleset="chess")


def headers(text: str) -> list[dict[str, str]]:
    """Return the tags of each game as python-chess reads them."""
    logging.getLogger("chess.pgn").setLevel(logging.CRITICAL)
    stream = io.StringIO(text)
    found = []
    while (tags := chess.pgn.read_headers(stream)) is not None:
        found.append(dict(tags))
    return found


@pytest.mark.filled(by=games)
def test_an_experiment_comes_back(on: Cli, tmp_path: Path) -> None:
    """Its games stand in one file, by name; brought in again, all are known but the one whose sidelines are lost."""
    file = tmp_path / "house.pgn"
    assert on("export", "pgn", "--experiment", "house", "-o", str(file)) == (
        0,
        "",
        f"worldledger: exported 11 games (265 moves), 1 unfinished to {file}\n",
    )
    found = headers(file.read_text())
    assert len(found) == 11
    assert sorted(tags["Round"] for tags in found) == [*"12345678", "?", "?", "?"]
    assert "Illegal move (h1e1) by Hasty Hal" in {tags["Result"] for tags in found}
    again = on("import", "pgn", str(file), "--experiment", "house")
    assert again.out == "imported 1 game (33 effects) from 1 file, 10 already there\n"


@pytest.mark.filled(by=games, read=True)
def test_games_by_name(on: Cli, tmp_path: Path) -> None:
    """They stand in the order in which they are named, each once; --json tells what was done."""
    names = [world["world_id"] for world in json.loads(on("worlds", "--json").out)][:2]
    file = tmp_path / "two.pgn"
    result = on("export", "pgn", names[1], names[0], names[1], "--output", str(file), "--json")
    assert (result.code, result.err) == (0, "")
    assert json.loads(result.out) == {"file": str(file), "games": 2, "moves": 64, "unfinished": 0, "left_out": []}
    (one,) = headers(on("export", "pgn", names[0], "-o", "-", "-q").out)
    assert [tags["Round"] for tags in headers(file.read_text())][1] == one["Round"]


def test_to_stdout(on: Cli, tmp_path: Path) -> None:
    """-o - writes the games to stdout, as they stood in the file, and words to stderr."""
    (tmp_path / "a.pgn").write_text(GAME.format(1) + GAME.format(2))
    assert on("import", "pgn", str(tmp_path), "--experiment", "cup").code == 0
    result = on("export", "pgn", "--experiment", "cup", "-o", "-")
    assert (result.code, result.err) == (0, "worldledger: exported 2 games (8 moves)\n")
    assert [tags["Round"] for tags in headers(result.out)] in (["1", "2"], ["2", "1"])
    assert result.out.count("\n\n1. f3 e5 2. g4 Qh4# 0-1\n") == 2


def test_live_games_and_other_worlds(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Attempts of a game that was played here stand in comments; an experiment's other worlds are passed over."""
    log = [started(), rejected("e2e5"), moved("e2e4", thinking_time=1.5)]
    play(database_url, "live", log, ruleset="chess", experiment="mixed")
    play(database_url, "not-begun", [], ruleset="chess", experiment="mixed")
    record(database_url, "bazaar", BAZAAR, experiment="mixed")
    file = tmp_path / "a.pgn"
    result = on("export", "pgn", "--experiment", "mixed", "-o", str(file))
    assert (result.code, result.err) == (
        0,
        "".join(
            f"worldledger: {said}\n"
            for said in (
                "left out: not-begun: no game was started",
                f"exported 1 game (1 move), 1 unfinished, 1 left out to {file}",
            )
        ),
    )
    text = file.read_text()
    assert '[Event "mixed"]' in text
    assert '[GameId "live"]' in text
    assert text.endswith("\n{ white tried e2e5: illegal move } 1. e4 { [%emt 0:00:01.5] } *\n")
    assert on("export", "pgn", "--experiment", "mixed", "-o", str(file), "-q").code == 2
    assert on("export", "pgn", "--experiment", "mixed", "-o", str(file), "-q", "--force").err == ""


def test_a_world_named_pgn(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Behind the options it is a world's name; as the first word it is the command, which says so."""
    play(database_url, "pgn", [started(), moved("e2e4")], ruleset="chess")
    log, games = tmp_path / "pgn.ndjson", tmp_path / "pgn.pgn"
    assert on("export", "-o", str(log), "pgn").code == 0
    assert on("verify", "--file", str(log)).code == 0
    assert on("export", "pgn", "pgn", "-o", str(games)).code == 0
    assert games.read_text().endswith("\n1. e4 *\n")
    refused = on("export", "pgn", "-o", str(tmp_path / "x"))
    assert refused.code == 2
    assert "export -o FILE pgn" in " ".join(refused.err.replace("│", " ").split())


@pytest.mark.filled(by=no_games, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "which games"),
        (("a", "--experiment", "b"), "which games"),
        (("nowhere",), "no world named 'nowhere'"),
        (("bazaar",), "no game of chess; its ruleset is sandbox"),
        (("--experiment", "none"), "no worlds in the experiment 'none'"),
        (("empty",), "empty: no game was started"),
    ],
)
def test_games_that_there_are_not(on: Cli, tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    """They are exit code 2, and there is no file."""
    file = tmp_path / "a.pgn"
    result = on("export", "pgn", *arguments, "-o", str(file))
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []
    assert on("export", "pgn", "empty", "-o", "-", "--json").code == 2


def test_a_log_that_does_not_verify_makes_no_file(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Exit code 1; the file that was there before stays as it was."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    assert on("import", "pgn", str(tmp_path / "a.pgn"), "--experiment", "cup").code == 0
    sql(
        database_url,
        UNGUARDED,
        "update effects set effect = replace(effect::text, 'Qh4#', 'Qh5#')::json where global_seq = 6",
    )
    result = on("export", "pgn", "--experiment", "cup", "-o", str(tmp_path / "a.pgn"), "--force")
    assert (result.code, result.out) == (1, "")
    assert "a log that does not verify makes no export" in result.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.pgn"]
    assert (tmp_path / "a.pgn").read_text() == GAME.format(1)


def test_a_log_that_breaks_the_rules_makes_no_file(on: Cli, database_url: str, tmp_path: Path) -> None:
    """A forged effect whose chain holds, but which no log may have, is told like one whose chain does not hold."""
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    assert on("import", "pgn", str(tmp_path / "a.pgn"), "--experiment", "cup").code == 0
    ((world,),) = sql(database_url, "select world_id from worlds")
    sql(database_url, *forgery(world, "WorldCreated"))
    result = on("export", "pgn", "--experiment", "cup", "-o", str(tmp_path / "b.pgn"))
    assert (result.code, result.out) == (1, "")
    assert "WorldCreated stands at seq 1 alone; a log that does not verify makes no export" in result.err
    assert not (tmp_path / "b.pgn").exists()


def test_a_move_that_cannot_be_played_leaves_the_game_out(on: Cli, database_url: str, tmp_path: Path) -> None:
    """The others are written, and the exit code is 1."""
    stated = {"san_notation": "Ke9", "fen": "8/8/8/8/8/8/8/K6k b - - 0 1"}
    record(database_url, "bad", [started(), moved("e1e8", **stated)], ruleset="chess")
    record(database_url, "good", [started(), moved("e2e4")], ruleset="chess")
    result = on("export", "pgn", "bad", "good", "-o", str(tmp_path / "a.pgn"), "-q")
    assert result.code == 1
    assert result.err.startswith("worldledger: left out: bad: world bad, seq 3: e1e8 cannot be played in ")
    assert len(headers((tmp_path / "a.pgn").read_text())) == 1


def test_stopped_in_the_middle_there_is_no_file(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Ctrl-C while it waits for the database leaves nothing behind."""
    play(database_url, "live", [started(), moved("e2e4")], ruleset="chess")
    file = tmp_path / "a.pgn"
    with (
        Lock(database_url, "lock table effects") as lock,
        Running("export", "pgn", "live", "-o", str(file), "--database-url", database_url) as running,
    ):
        lock.wait_for_waiter()
        assert running.end(signal.SIGINT).code == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the recorded games are not here")
def test_recorded_games_come_back(on: Cli, database_url: str, tmp_path: Path, thorough: bool) -> None:
    """Sixty, or every fifth of them, are known again, and in another experiment every effect is the same."""
    paths = sorted(map(str, SHARED.rglob("*.pgn")))[:: 1 if thorough else 5]
    assert on("import", "pgn", *paths, "--experiment", "real").code == 0
    file = tmp_path / "real.pgn"
    result = on("export", "pgn", "--experiment", "real", "-o", str(file))
    assert result.code == 0
    assert result.err.startswith(f"worldledger: exported {len(paths)} games ({'4774 ' if thorough else ''}")
    assert f" {len(paths)} already there" in on("import", "pgn", str(file), "--experiment", "real").out
    assert on("import", "pgn", str(file), "--experiment", "again").code == 0
    assert sql(database_url, _EFFECTS.format("again")) == sql(database_url, _EFFECTS.format("real"))


def test_what_may_have_been_meant(on: Cli) -> None:
    """Of an unknown experiment, those that are like it are named."""
    assert on("world", "create", "w", "--experiment", "first").code == 0
    assert "did you mean 'first'?" in on("export", "pgn", "--experiment", "frist", "-o", "-").err
