"""The program in this process, and databases and homes for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import structlog
import typer.main
from worldledger_service.cli import main
from worldledger_service.cli.main import run
from worldledger_service.database.embedded import remove, stop

from tests.conftest import Servers

from .helpers import GAME, Result
from .helpers import call as program

Cli = Callable[..., Result]
#: What fills a database, given its address.
Fill = Callable[[str], None]
_make_app = main.make_app


@cache
def _commands() -> Callable[..., object]:
    """Put the commands together once: that takes longer than most commands themselves."""
    return typer.main.get_command(_make_app())


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Cli]:
    """Return a function that runs one command in this process, as the console script does."""
    for name in list(os.environ):
        if name.startswith("WORLDLEDGER_") and name != "WORLDLEDGER_TEST_DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(main, "app_for", lambda _: _commands())

    def call(*arguments: str) -> Result:
        capfd.readouterr()
        code = run(arguments)
        return Result(code, *capfd.readouterr())

    yield call
    structlog.reset_defaults()  # commands let it write to this test's stderr


@pytest.fixture
def on(cli: Cli, database_url: str) -> Cli:
    """Return a function that runs one command on this test's own database."""
    return lambda *arguments: cli(*arguments, "--database-url", database_url)


@pytest.fixture
def empty_database_url(server_url: str, make_database: Callable[..., str]) -> str:
    """Return the address of an empty database; its server must run before one can be made on it."""
    return make_database(migrated=False)


@pytest.fixture(scope="session")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Result]]:
    """Return a home of an embedded server, set up by a first command, and what that said."""
    home = tmp_path_factory.mktemp("embedded") / "a home"
    games = tmp_path_factory.mktemp("games") / "a.pgn"
    games.write_text(GAME.format(1))
    yield home, program("import", "pgn", str(games), "--home", str(home))
    stop(home)
    remove(home)


@pytest.fixture(scope="session")
def home(set_up: tuple[Path, Result]) -> Path:
    """Return a home of an embedded server, set up, for the tests that need one."""
    assert set_up[1].code == 0
    return set_up[0]


@pytest.fixture(scope="session")
def filled(servers: Servers, server_kind: str) -> Iterator[Callable[[Fill], str]]:
    """Return a function that names a database, by its address, which another function has filled once."""
    made: dict[Fill, str] = {}

    def url(fill: Fill) -> str:
        if fill not in made:
            made[fill] = servers.create(server_kind, servers.template(server_kind))
            fill(made[fill])
            name = urlsplit(made[fill]).path[1:]
            servers.execute(server_kind, f"alter database {name} set default_transaction_read_only = on")
        return made[fill]

    yield url
    for each in made.values():
        servers.drop(server_kind, each)


@pytest.fixture
def database_url(
    request: pytest.FixtureRequest, servers: Servers, server_kind: str, filled: Callable[[Fill], str]
) -> Iterator[str]:
    """Return a superuser's address of a migrated database, filled as the test's mark says.

    Only this test uses it, unless the mark says that the test only reads.
    """
    mark = request.node.get_closest_marker("filled")
    source = filled(mark.kwargs["by"]) if mark else None
    if mark and source and mark.kwargs.get("read"):
        yield source
        return
    if source:
        template = urlsplit(source).path[1:]
    elif "projected" in request.fixturenames:
        template = request.getfixturevalue("built")
    else:
        template = servers.template(server_kind)
    url = servers.create(server_kind, template)
    yield url
    servers.drop(server_kind, url)
