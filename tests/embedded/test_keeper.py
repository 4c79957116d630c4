"""The keeper of a long-lived user: it has a killed supervisor back, and leaves a stopped one alone."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest
from worldledger_service.database.embedded import attach, client, status, stop

from tests.waiting import block_until

from .helpers import gone, sql

pytestmark = [pytest.mark.slow, pytest.mark.group("embedded")]


def _kill_supervisor(made: Path) -> None:
    """Kill the supervisor, and wait until another one has the server ready."""
    state = status(made)
    assert state is not None
    os.kill(state.supervisor_pid, signal.SIGKILL)

    def back() -> bool:
        now = status(made)
        return now is not None and now.state == "ready" and now.supervisor_pid != state.supervisor_pid

    block_until(back, "another supervisor has the server back")


def test_a_killed_supervisor_comes_back(made: Path) -> None:
    """With a keeper a killed supervisor is replaced, again and again, at the same address, with every row."""
    with attach(made, linger=0, keep=True) as server:
        sql(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        for _ in range(2):
            _kill_supervisor(made)
            assert sql(server, "SELECT answer FROM kept") == 42
    block_until(lambda: status(made) is None, "it stops after its last user")


def test_two_keepers(made: Path) -> None:
    """Keepers of several users start one supervisor between them, and the rest goes on when one leaves."""
    with attach(made, linger=0, keep=True) as server:
        with attach(made, linger=0, keep=True):
            _kill_supervisor(made)
            assert sql(server, "SELECT 1") == 1
        _kill_supervisor(made)
        assert sql(server, "SELECT 1") == 1


class _Looks:
    """Counts the looks of keepers, which look all the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        look = client.Keeper._was_killed

        def counted(watching: client.Keeper) -> bool:
            found = look(watching)
            self.count += 1
            return found

        monkeypatch.setattr(client, "_WATCH_SECONDS", 0.005)
        monkeypatch.setattr(client.Keeper, "_was_killed", counted)

    def wait_for_more(self) -> None:
        """Wait until the keeper has looked some more times."""
        enough = self.count + 5
        block_until(lambda: self.count > enough, "the keeper looks")


def test_an_ordered_stop_stays_one(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that was stopped in order under a keeper's user is not started again by the keeper."""
    looks = _Looks(monkeypatch)
    with attach(made, linger=0, keep=True) as server:
        assert stop(made)
        looks.wait_for_more()
        assert status(made) is None
        assert gone(server.postmaster_pid)


def test_a_keeper_of_a_deleted_home(made: Path) -> None:
    """When the home is deleted the keeper makes no new one."""
    with attach(made, linger=0, keep=True) as server:
        watch = [thread for thread in threading.enumerate() if thread.name == "worldledger-keeper"]
        shutil.rmtree(made, ignore_errors=True)
        block_until(lambda: gone(server.supervisor_pid), "the supervisor notices")
        block_until(lambda: not any(thread.is_alive() for thread in watch), "the keeper ends")
    assert not made.exists() or not list(made.glob("*.lock"))


def test_a_supervisor_that_cannot_be_started(
    made: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A keeper that cannot start the server says so once and goes on trying until it can."""
    looks = _Looks(monkeypatch)
    with attach(made, linger=0, keep=True) as server:
        data = server.data_dir
        (data / "postgresql.conf").rename(data / "aside.conf")
        looks.wait_for_more()
        state = status(made)
        assert state is not None
        os.kill(state.supervisor_pid, signal.SIGKILL)
        said: list[str] = []

        def complained() -> bool:
            said.append("".join(capfd.readouterr()))
            return "cannot be started; going on trying" in "".join(said)

        block_until(complained, "the keeper complains")
        (data / "aside.conf").rename(data / "postgresql.conf")
        block_until(lambda: (now := status(made)) is not None and now.state == "ready", "the server is back")
        assert sql(server, "SELECT 1") == 1
        said.append("".join(capfd.readouterr()))
        assert "".join(said).count("cannot be started") == 1
