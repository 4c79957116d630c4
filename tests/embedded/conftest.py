"""Homes for the tests: a fresh one, and one with a cluster that was made once and is copied."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.database.embedded import EmbeddedServer, attach, place, remove, status, stop
from service.database.embedded.home import open_home

from .helpers import servers_of

# Where files are made and copied quickly; kills of processes are no harder to survive on a real disk.
_MEMORY = Path("/dev/shm")
_NEEDED = 1 << 30


def _new_folder() -> Path:
    """Make a folder that every user may pass through, in memory if there is room and programs may run there."""
    in_memory = False
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK):
        disk = os.statvfs(_MEMORY)
        in_memory = disk.f_bavail * disk.f_frsize > _NEEDED and not disk.f_flag & os.ST_NOEXEC
    base = Path(tempfile.mkdtemp(prefix="wl-test-", dir=_MEMORY if in_memory else None)).resolve()
    base.chmod(0o755)
    return base


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user may pass through; the homes in it are stopped and removed at the end."""
    base = _new_folder()
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
    base = _new_folder()
    with attach(base / "home", linger=0):
        pass
    stop(base / "home")
    yield base / "home"
    shutil.rmtree(base)


@pytest.fixture
def made(_seed: Path, folder: Path) -> Path:
    """A home whose cluster exists, with a database and a server that is not running."""
    # cp keeps owners, which shutil does not.
    subprocess.run(["cp", "-a", str(_seed), str(folder / "made home")], check=True)
    assert status(folder / "made home") is None
    return folder / "made home"


@pytest.fixture(scope="session")
def running(_seed: Path) -> Iterator[EmbeddedServer]:
    """A server of this process, which no test may stop."""
    base = _new_folder()
    subprocess.run(["cp", "-a", str(_seed), str(base / "running home")], check=True)
    with attach(base / "running home", linger=0) as server:
        yield server
    stop(base / "running home")
    shutil.rmtree(base)
