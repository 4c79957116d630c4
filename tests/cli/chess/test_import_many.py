"""`import pgn` of many games: read by several processes, of which none is left, with the same outcome as by one."""

from __future__ import annotations

import signal
from pathlib import Path

import psutil
import pytest
from worldledger_chess.cli import reading as reading_games
from worldledger_chess.rules.pgn import RecordedGame, read_games
from worldledger_chess.store.recordings import world_of_game

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME, Lock, Running, sql
from tests.cli.test_replay_check import gone, offspring
from tests.waiting import block_until

from .test_stopping import making

#: What a game's effects say, whatever the experiment.
_SAID = """
    select global_seq, kind, source_id, sim_time, effect ->> 'payload' from effects join worlds using (world_id)
    where experiment = '{}' and global_seq > 1 order by right(world_id, 12), global_seq
"""


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch, thorough: bool) -> None:
    """Have several processes read, however few games there are."""
    monkeypatch.setattr(reading_games, "MANY_FROM", 0)
    monkeypatch.setattr(reading_games, "processors", lambda: 3 if thorough else 2)
    monkeypatch.setattr(reading_games, "_GAMES", 2)


@pytest.fixture
def games(tmp_path: Path) -> list[str]:
    """Write files with games, one twice, and with whatever cannot be taken; return their names and those of no file."""
    files = {
        "a.pgn": "Words before.\n\n" + "".join(map(GAME.format, range(1, 8))) + GAME.format(3),
        "b.pgn": GAME.format(8).replace("[Event", '[FEN "none"]\n[Event') + GAME.format(9) + GAME.format(1),
        "c.pgn": "This is not a game.\n",
        "d.pgn": "",
        "e.pgn": GAME.format(10).replace("Ann", "worldledger"),
        **{f"f{number}.pgn": GAME.format(number) for number in range(20, 25)},
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "folder").mkdir()
    return [str(tmp_path), str(tmp_path / "absent.pgn"), str(tmp_path / "folder"), "/dev/zero"]


def test_the_outcome_is_the_same(on: Cli, database_url: str, games: list[str], request: pytest.FixtureRequest) -> None:
    """Every word that is said, the exit code and every effect are those of reading one after another."""
    alone = on("import", "pgn", *games, "--experiment", "alone")
    request.getfixturevalue("many")
    many = on("import", "pgn", *games, "--experiment", "many")
    assert alone == many
    assert many.out == "imported 13 games (91 effects) from 12 files, 2 already there, 7 refused\n"
    assert sql(database_url, _SAID.format("alone")) == sql(database_url, _SAID.format("many"))
    again = on("import", "pgn", *games, "--experiment", "many")
    assert again.out == "imported 0 games (0 effects) from 12 files, 15 already there, 7 refused\n"
    assert on("verify", "--all").code == 0
    assert not offspring(psutil.Process())


@pytest.mark.usefixtures("many")
def test_a_name_that_is_taken(on: Cli, tmp_path: Path) -> None:
    """Where another world has a game's name, that game is refused, and the others go in."""
    file = tmp_path / "a.pgn"
    file.write_text("".join(map(GAME.format, range(3))))
    (name,) = _worlds(file, "cup")[1:2]
    assert on("world", "create", name).code == 0
    result = on("import", "pgn", str(file), "--experiment", "cup")
    assert (result.code, result.out) == (1, "imported 2 games (14 effects) from 1 file, 1 refused\n")
    assert result.err.endswith(f"game 2: its world would be {name}, and another world has that name\n")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGKILL, -9, marks=pytest.mark.thorough)]
)
def test_a_stopped_import_leaves_no_process(database_url: str, tmp_path: Path, number: int, code: int) -> None:
    """However it is stopped while there is more to read, no process is left, and no part of a world."""
    file = tmp_path / "a.pgn"
    file.write_text(GAME.format(0))
    (taken,) = _worlds(file, "cup")
    file.write_text("".join(map(GAME.format, range(6000))))
    command = ("import", "pgn", str(file), "--experiment", "cup", "--database-url", database_url, "--quiet")
    with Lock(database_url, making(taken)) as lock, Running(*command) as running:
        lock.wait_for_waiter()
        workers = offspring(psutil.Process(running.process.pid))
        assert workers
        if number == signal.SIGINT and Path("/proc/self/status").exists():
            # A Ctrl-C that is typed reaches them, too: they leave it to the one that was started by hand.
            readers = [worker.pid for worker in workers if "spawn_main" in str(worker.cmdline())]
            assert readers
            assert all(_blocks(pid, signal.SIGINT) for pid in readers)
        assert running.end(number).code == code
        block_until(gone(workers), "the processes end")
    assert sql(database_url, "select count(*) from worlds") == [(0,)]


def _blocks(pid: int, number: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    (masked,) = (line.split()[1] for line in status.splitlines() if line.startswith("SigBlk:"))
    return bool(int(masked, 16) >> (number - 1) & 1)


def _worlds(file: Path, experiment: str) -> list[str]:
    with file.open("rb") as stream:
        games = [game for game in read_games(stream, name="f") if isinstance(game, RecordedGame)]
    return [world_of_game(game, experiment=experiment, file=file.name).world_id for game in games]
