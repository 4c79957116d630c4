"""Commands that are stopped in the middle: nothing is half-written, and the same command finishes the work."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from worldledger_chess.rules.pgn import RecordedGame, read_games
from worldledger_chess.store.recordings import world_of_game

from tests.cli.conftest import Cli
from tests.cli.helpers import GAME, Lock, Running, seed, sql
from tests.waiting import block_until

#: As long as somebody holds this, whoever wants to read or write effects waits.
_EFFECTS = "lock table effects in access exclusive mode"

SIGNALS = pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.thorough)],
    ids=["Ctrl-C", "SIGTERM"],
)


@pytest.fixture
def empty(make_database: Callable[..., str]) -> str:
    """Return the address of a second database."""
    return make_database()


@SIGNALS
def test_verify_is_stopped(database_url: str, number: int, code: int) -> None:
    """A verification that is stopped says so in one word, and no verdict."""
    seed(database_url, "w")
    with (
        Lock(database_url, _EFFECTS) as lock,
        Running("verify", "w", "--database-url", database_url) as running,
    ):
        lock.wait_for_waiter()
        assert running.end(number) == (code, "", "worldledger: stopped\n")


@SIGNALS
def test_export_is_stopped(database_url: str, tmp_path: Path, number: int, code: int) -> None:
    """An export that is stopped leaves no file."""
    seed(database_url, "w")
    with (
        Lock(database_url, _EFFECTS) as lock,
        Running("export", "w", "-o", str(tmp_path / "f"), "--database-url", database_url) as running,
    ):
        lock.wait_for_waiter()
        assert running.end(number) == (code, "", "worldledger: stopped\n")
    assert list(tmp_path.iterdir()) == []


def test_export_is_killed(cli: Cli, database_url: str, tmp_path: Path) -> None:
    """What a killed export left is replaced by the next one to the same file; other exports' files are left alone."""
    seed(database_url, "w")
    command = ("export", "w", "-o", str(tmp_path / "f"), "--database-url", database_url)
    other = tmp_path / ".g.part"
    other.touch()
    with Lock(database_url, _EFFECTS) as lock, Running(*command) as running:
        lock.wait_for_waiter()
        assert running.end(signal.SIGKILL).code == -9
    assert sorted(path.name for path in tmp_path.iterdir()) == [".f.part", ".g.part"]
    assert cli(*command).code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".g.part", "f"]


def test_two_exports_to_one_file(cli: Cli, database_url: str, tmp_path: Path) -> None:
    """While one export writes a file, a second to the same one is refused, and the first is not disturbed."""
    seed(database_url, "w")
    command = ("export", "w", "-o", str(tmp_path / "f"), "--database-url", database_url)
    with Running(*command) as running:
        with Lock(database_url, _EFFECTS) as lock:
            lock.wait_for_waiter()
            result = cli(*command)
            assert (result.code, result.err) == (
                2,
                f"worldledger: {tmp_path / 'f'}: another export is just writing this file\n",
            )
        assert running.end().code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


@SIGNALS
def test_import_of_a_log_is_stopped(
    cli: Cli, database_url: str, empty: str, tmp_path: Path, number: int, code: int
) -> None:
    """An import that is stopped leaves no trace of the world; the same command brings it in."""
    seed(database_url, "w", 100)
    file = str(tmp_path / "w.ndjson")
    assert cli("export", "w", "-o", file, "--database-url", database_url).code == 0
    with Lock(empty, _EFFECTS) as lock, Running("import", "log", file, "--database-url", empty) as running:
        lock.wait_for_waiter()
        assert running.end(number) == (code, "", "worldledger: stopped\n")
    assert cli("worlds", "--json", "--database-url", empty).out == "[]\n"
    assert cli("import", "log", file, "--database-url", empty).out.startswith("imported w, 101 effects")


@pytest.fixture
def games(tmp_path: Path) -> list[str]:
    """Write five games, one a file; return the names of their worlds in the experiment cup, in the order of files."""
    names = []
    for number in range(1, 6):
        file = tmp_path / f"{number}.pgn"
        file.write_text(GAME.format(number))
        with file.open("rb") as stream:
            (game,) = read_games(stream, name="f")
        assert isinstance(game, RecordedGame)
        names.append(world_of_game(game, experiment="cup", file=file.name).world_id)
    return names


def making(world_id: str) -> str:
    """Return the statement of somebody who is just making a world, so that whoever makes the same has to wait."""
    return (
        "insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)"
        f" values ('{world_id}', gen_random_uuid(), 'chess', 1, '{{}}', 'client')"
    )


@pytest.mark.parametrize(
    ("number", "code"),
    [pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough), (signal.SIGTERM, 143), (signal.SIGKILL, -9)],
    ids=["Ctrl-C", "SIGTERM", "kill -9"],
)
def test_import_of_games_is_resumed(
    cli: Cli, database_url: str, games: list[str], tmp_path: Path, number: int, code: int
) -> None:
    """What was in when an import was stopped stays, whole; the same command brings the rest, and nothing twice."""
    command = ("import", "pgn", str(tmp_path), "--experiment", "cup", "--database-url", database_url)
    with Lock(database_url, making(games[2])) as lock, Running(*command) as running:
        lock.wait_for_waiter()
        ended = running.end(number)
        assert ended.code == code
    if number != signal.SIGKILL:
        again = "run the same command again for the rest"
        assert ended.err == (
            f"worldledger: imported 2 games (14 effects) before it was stopped; {again}\nworldledger: stopped\n"
        )
    heads = "select world_id, head_seq from heads order by world_id"
    assert sql(database_url, heads) == sorted((name, 7) for name in games[:2])
    result = cli(*command)
    assert (result.code, result.out) == (0, "imported 3 games (21 effects) from 5 files, 2 already there\n")
    assert sql(database_url, heads) == sorted((name, 7) for name in games)
    assert cli("verify", "--all", "--database-url", database_url).code == 0


def test_import_of_a_log_is_killed(cli: Cli, database_url: str, empty: str, tmp_path: Path, thorough: bool) -> None:
    """An import that is killed leaves no trace once the database has noticed; the same command brings it in."""
    count = 20_000 if thorough else 5_000
    seed(database_url, "w", count)
    file = str(tmp_path / "w.ndjson")
    assert cli("export", "w", "-o", file, "--database-url", database_url).code == 0
    with Lock(empty, _EFFECTS) as lock, Running("import", "log", file, "--database-url", empty) as running:
        lock.wait_for_waiter()
        assert running.end(signal.SIGKILL).code == -9
    left = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
    block_until(lambda: sql(empty, left) == [(0,)], "the database notices")
    assert sql(empty, "select count(*) from worlds") == [(0,)]
    assert cli("import", "log", file, "--database-url", empty).out.startswith(f"imported w, {count + 1} effects")
    assert cli("verify", "--all", "--database-url", empty).code == 0
