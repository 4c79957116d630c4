"""Fake engines, and the sure knowledge that none of them is left."""

from __future__ import annotations

import gc
import logging
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from worldledger_chess.arena.players import EnginePlayer, EngineSettings

ROOT = Path(__file__).parents[3]
FAKE = Path(__file__).with_name("fake_engine.py")
#: Seconds in which what was killed is gone, on a machine that has other things to do.
GONE_S = 20.0

MakeFake = Callable[..., EnginePlayer]


class Engines:
    """What the fake engines of a test left in their folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def pids(self) -> set[int]:
        """Return the ids of all processes that were started."""
        return {int(path.name) for path in self.folder.iterdir() if path.name.isdigit()}

    def alive(self) -> set[int]:
        """Return those that run still."""
        return {pid for pid in self.pids() if _runs(pid)}

    def heard(self) -> list[str]:
        """Return the lines that engines read, all of them in one list."""
        return (self.folder / "heard").read_text().splitlines()

    def wait_until_gone(self) -> set[int]:
        """Wait for the end of all processes; return those that do not end."""
        patience = time.monotonic() + GONE_S
        while self.alive() and time.monotonic() < patience:
            time.sleep(0.01)
        return self.alive()


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Engines that do not hear "quit" are ended soon."""
    monkeypatch.setattr("worldledger_chess.arena.players.engines.PATIENCE_S", 0.1)


@pytest.fixture
def engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engines]:
    """Return what the fake engines leave; afterwards every process of theirs must be gone."""
    folder = tmp_path / "engines"
    folder.mkdir()
    monkeypatch.setenv("FAKE_ENGINE", str(folder))
    found = Engines(folder)
    yield found
    left = found.wait_until_gone()
    for pid in left:
        psutil.Process(pid).kill()
    assert not left


def fake_command(behaviour: str, *moves: str) -> list[str]:
    """Return the command of a fake engine."""
    return [sys.executable, "-I", "-S", str(FAKE), behaviour, *moves]


@pytest.fixture
def fake(engines: Engines) -> MakeFake:
    """Make players of fake engines."""

    def make(behaviour: str, *moves: str, **settings: Any) -> EnginePlayer:
        return EnginePlayer(fake_command(behaviour, *moves), EngineSettings(**settings), name="fake")

    return make


@pytest.fixture(scope="module")
def swept() -> None:
    """What tests of other files have left lying about is told of now, and not in the middle of a test of this file."""
    gc.collect()


@pytest.fixture(autouse=True)
def quiet(swept: None, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged by asyncio or python-chess: whatever an engine does is told by an error."""
    caplog.clear()
    yield
    records = [record for phase in ("setup", "call") for record in caplog.get_records(phase)]
    assert not [record.getMessage() for record in records if record.levelno >= logging.WARNING]
