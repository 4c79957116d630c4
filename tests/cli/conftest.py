"""The program in this process, and databases and homes for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from service.cli.main import run
from service.database.embedded import remove, stop

from .helpers import BAZAAR, GAME, UP_TO_DATE, Result, record
from .helpers import call as program

Cli = Callable[..., Result]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Give a function that runs one command in this process, as the console script does."""
    for name in list(os.environ):
        if name.startswith("WORLDLEDGER_") and name != "WORLDLEDGER_TEST_DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: str) -> Result:
        capfd.readouterr()
        code = run(arguments)
        return Result(code, *capfd.readouterr())

    yield call
    structlog.reset_defaults()  # commands let it write to this test's stderr


@pytest.fixture
def on(cli: Cli, database_url: str) -> Cli:
    """Give a function that runs one command on this test's own database."""
    return lambda *arguments: cli(*arguments, "--database-url", database_url)


@pytest.fixture
def empty_database_url(server_url: str, make_database: Callable[..., str]) -> str:
    """Give the address of an empty database; its server must run before one can be made on it."""
    return make_database(migrated=False)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a home of an embedded server, set up, for the tests that need one."""
    home = tmp_path_factory.mktemp("embedded") / "a home"
    assert program("worlds", "--home", str(home)).code == 0
    yield home
    stop(home)
    remove(home)


@pytest.fixture
def fed_worlds(on: Cli, database_url: str, tmp_path: Path) -> None:
    """Make two little worlds and a game, all of them read by the projections."""
    for name in ("a", "b"):
        record(database_url, name, BAZAAR)
    (tmp_path / "a.pgn").write_text(GAME.format(1))
    assert on("import", "pgn", str(tmp_path)).code == 0
    assert on("project", "--once") == (0, UP_TO_DATE, "")
