"""The database that `make run` makes: the example games, and what the tour of them adds and shows."""

from __future__ import annotations

import io
import json
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import structlog
from worldledger_service.cli.main import run as cli

from tests import warm
from tests.conftest import Servers

from .project import ROOT, environment

TOUR = ROOT / "examples" / "tour.py"


class Toured(NamedTuple):
    """A database that the example games were imported into, and what the tour told of it, twice, in a folder.

    ``forks`` are the worlds that go on from a game, as they were listed then.
    """

    folder: Path
    database_url: str
    first: subprocess.CompletedProcess[str]
    second: subprocess.CompletedProcess[str]
    forks: list[dict[str, Any]]


@pytest.fixture(scope="session")
def toured(servers: Servers, server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Toured]:
    """The example games, imported as `make run` does it, and two tours; tests that use it are in the group "home"."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "examples").symlink_to(ROOT / "examples")
    url = servers.create(server_kind, servers.template(server_kind))
    command("db", "upgrade", database_url=url)  # a copy lacks what is set for a database: who may make temporary tables
    command("import", "pgn", str(ROOT / "examples" / "games"), "--experiment", "examples", database_url=url)
    first, second = tour(folder, url), tour(folder, url)
    forks = json.loads(command("worlds", "--experiment", "what-if", "--json", database_url=url))
    yield Toured(folder, url, first, second, forks)
    servers.drop(server_kind, url)


def tour(folder: Path, database_url: str, program: Path = TOUR) -> subprocess.CompletedProcess[str]:
    """Run the tour in a folder."""
    return warm.run([], environment(WORLDLEDGER_DATABASE_URL=database_url), program=program, cwd=folder)


def command(*arguments: str, database_url: str) -> str:
    """Run a command in this process; return what it printed."""
    printed = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(printed, encoding="utf-8")) as text:
        assert cli([*arguments, "--database-url", database_url]) == 0
        text.flush()
    structlog.reset_defaults()  # commands let it write to stderr
    return printed.getvalue().decode()
