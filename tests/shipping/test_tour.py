"""What `make run` shows of the example games before it serves, and that it serves whatever comes of that."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from .conftest import TOUR, Toured, command, tour
from .project import ROOT, environment

MARKET = ROOT / "examples" / "market"
RUNS = ROOT / "examples" / "social_rl"
WHAT_IF = ROOT / "examples" / "whatif.py"
#: On one worker, so that they look at one database, on which the docs' pages are tried, too.
once = pytest.mark.group("home")


@once
def test_it_shows_a_state_statistics_and_a_difference(toured: Toured) -> None:
    """It shows a game's board, its players' statistics and a diff, each below its command, as often as it is run."""
    for done in (toured.first, toured.second):
        assert done.returncode == 0, done.stderr
        state, statistics, difference = re.split(
            r"^\$ worldledger (?:state|sql|diff)\b", done.stdout, flags=re.MULTILINE
        )[1:]
        assert re.search(r"^state digest [0-9a-f]{64}, chess 1$", state, re.MULTILINE)
        assert re.search(r"^ +8  ♜ · · ♛ ♚ · · ♜$", state, re.MULTILINE)
        assert re.search(r"^ Hasty Hal +\| +5 \| +1 \| +4 \| +0 \| +76 \| +1 *$", statistics, re.MULTILINE)
        assert "── illegal_moves_attempted 0 → 1" in difference
        assert '{"op": "replace", "path": "/entities/board/result", "value": "black_wins"}' in difference


@once
def test_it_plays_the_market_once(toured: Toured) -> None:
    """Before it shows anything the market is played and the runs come in; later they are there, and nothing is said."""
    assert toured.first.stdout.startswith("World market: 5 traders, 20 turns\n")
    assert "\nimported 6 runs (24 rounds, 475 effects)\n" in toured.first.stdout
    assert toured.second.stdout.startswith("\nTables for queries follow from the logs:")
    arguments = ["view", "market", "Trader_1", "--at", "turn:10", "--truth"]
    assert arguments == shlex.split(_told_by_make())[1:]
    view = command(*arguments, database_url=toured.database_url)
    assert re.search(r"^ *Trader_2\.secret_reserves +- +\d+ +hidden$", view, re.MULTILINE)


@once
def test_it_forks_the_market_once(toured: Toured) -> None:
    """What was recorded brings the parent's end about again, traders who decide anew do not; a page compares them."""
    assert "\nforked market-rich, from seq 237 of market, 1 change, " in toured.first.stdout
    assert "\nalready there: market-rich, from seq 237 of market, 1 change, " in toured.second.stdout
    assert "\nWorld market-rich is there already, in turn 10: it goes on from there.\n" in toured.first.stdout
    assert "180 drafts submitted, 180 accepted, 0 refused" in toured.first.stdout
    assert "  180 drafts submitted in all, 180 accepted, 0 refused" in toured.second.stdout
    assert "market-rich" in (toured.folder / "whatif.html").read_text()

    def end(world: str) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(command("state", world, "--json", database_url=toured.database_url))["state"]
        return told

    market, rich = end("market"), end("market-rich")
    assert end("market-recorded")["entities"] == market["entities"]
    assert rich["entities"]["Trader_1"]["gold"] != market["entities"]["Trader_1"]["gold"]
    assert rich["metadata"]["turn"] == market["metadata"]["turn"] == 20


@once
def test_it_plays_a_game_on_once(toured: Toured) -> None:
    """Stockfish plays on for the one who blundered, in one fork however often; where there is none, that is said."""
    game = runpy.run_path(str(WHAT_IF))["GAME"]
    forks = toured.forks
    for done in (toured.first, toured.second):
        played = re.search(rf"^\$ worldledger compare {game} (\S+)$", done.stdout, re.MULTILINE)
        if _has_stockfish():
            assert played is not None
            assert [fork["world_id"] for fork in forks] == [played[1]]
            assert forks[0]["fork_of"]["world_id"] == game
            assert re.search(r'^  result +"black_wins" +"white_wins"$', done.stdout, re.MULTILINE)
        else:
            assert (played, forks) == (None, [])
            assert "There is no stockfish here" in done.stdout


def _has_stockfish() -> bool:
    return any(shutil.which("stockfish", path=folder) for folder in (None, "/usr/games:/usr/local/games"))


def test_without_stockfish_the_game_is_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where there is no stockfish the example says so, does nothing, and does not fail."""
    whatif = runpy.run_path(str(WHAT_IF))
    monkeypatch.setitem(whatif["better"].__globals__, "has_stockfish", lambda: False)
    assert whatif["better"](lambda *_: pytest.fail("a step was made"))
    assert "There is no stockfish here" in capsys.readouterr().out


def _told_by_make() -> str:
    """Return the command that `make run` tells for the market."""
    (found,) = re.finditer(r"(worldledger view .*)'; \\$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return found.group(1)


def test_the_commands_it_shows_are_those_it_runs() -> None:
    """A command that is copied from its output is, for a shell, the command that was run."""
    names = runpy.run_path(str(TOUR))
    for arguments in names["STEPS"].values():
        assert shlex.split(names["shown"](arguments)) == ["worldledger", *arguments]
        assert not set("$`\\!") & set("".join(arguments))


def test_a_step_that_fails_is_told_and_the_next_one_follows(tmp_path: Path) -> None:
    """Without a database every step says so in a sentence, all are tried, and the exit code is 1."""
    done = tour(tmp_path, "postgresql://nobody@127.0.0.1:1/nothing")
    assert done.returncode == 1
    assert len(re.findall(r"^\$ worldledger ", done.stdout, re.MULTILINE)) == 4
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


@once
def test_a_step_that_takes_too_long_is_stopped(toured: Toured, tmp_path: Path) -> None:
    """What is not done in time is ended, and the next step follows: a long history does not hold up the service."""
    slow = tmp_path / "tour.py"
    text = TOUR.read_text().replace('"project", "--once"', '"log", GAME, "--follow"')
    text = text.replace("signal.alarm(seconds)", 'signal.alarm("--follow" in arguments)')
    slow.write_text(text)
    for beside in (MARKET, RUNS, WHAT_IF):
        (tmp_path / beside.name).symlink_to(beside)
    done = tour(tmp_path, toured.database_url, slow)
    assert done.returncode == 1
    assert done.stderr.startswith("worldledger: stopped\n")
    assert "\nstate digest " in done.stdout
    assert '"black_wins"' in done.stdout


def test_the_service_starts_whatever_comes_of_the_tour(tmp_path: Path) -> None:
    """When the tour fails, `make run` says so and goes on to serve."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    scripts = tmp_path / ".venv" / "bin"
    scripts.mkdir(parents=True)
    for name, script in {
        "python": '[ "$1" = -c ] || { echo "python $*"; exit 1; }',
        "worldledger": '[ "$2" != --check-port ] || exit 0; echo "imported 0 games, or $1"',
    }.items():
        (scripts / name).write_text(f"#!/bin/sh\n{script}\n")
        (scripts / name).chmod(0o755)
    (tmp_path / ".venv" / ".made").write_text(f"{tmp_path}\n")
    built = tmp_path / "service" / "worldledger_service" / "console" / "dist" / "built-from.txt"
    built.parent.mkdir(parents=True)
    for present in (tmp_path / ".venv" / ".run", built):
        present.touch()
    env = {name: value for name, value in environment().items() if not name.startswith("MAKE")}
    make = [shutil.which("make") or "make", "run"]
    done = subprocess.run(make, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "python examples/tour.py"
    assert done.stdout.splitlines()[-1] == "imported 0 games, or serve"
    assert "The service starts all the same" in done.stderr
    # Where a service is there already nothing else is done; where another program has the port, make fails at once.
    for code, result in ((1, 0), (2, 2)):
        (scripts / "worldledger").write_text(f"#!/bin/sh\necho $2\nexit {code}\n")
        done = subprocess.run(make, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (result, "--check-port\n")
