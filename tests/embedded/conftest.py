"""Homes for the tests: a fresh one, and one with a cluster that was made once and is copied."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from worldledger_service.database.embedded import EmbeddedServer, attach, place, remove, status, stop
from worldledger_service.database.embedded.home import open_home

from .helpers import copied, new_folder, servers_of


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass through; the homes in it are stopped and removed at the end."""
    base = new_folder()
    yield base
    left: list[int] = []
    for home in base.rglob("users.lock"):
        stop(home.parent)
        left += servers_of(place.located(open_home(home.parent)) / "data")
        remove(home.parent)
    shutil.rmtree(base)
    assert not left, "a server outlived its supervisor"


@pytest.fixture
def home(folder: Path) -> Path:
    """The path of a home that does not exist yet."""
    return folder / "home"


@pytest.fixture(scope="session")
def _seed() -> Iterator[Path]:
    base = new_folder()
    with attach(base / "home", linger=0):
        pass
    stop(base / "home")
    yield base / "home"
    shutil.rmtree(base)


@pytest.fixture
def made(_seed: Path, folder: Path) -> Path:
    """A home whose cluster exists, with a database and a server that is not running."""
    made = copied(_seed, folder / "made home")
    assert status(made) is None
    return made


@pytest.fixture(scope="session")
def running(_seed: Path) -> Iterator[EmbeddedServer]:
    """A server of this process, which no test may stop."""
    base = new_folder()
    with attach(copied(_seed, base / "running home"), linger=0) as server:
        yield server
    stop(base / "running home")
    shutil.rmtree(base)
