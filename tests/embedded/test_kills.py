"""What is killed, what dies with it, and what is there afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from worldledger_service.database.embedded import EmbeddedServer, attach, status
from worldledger_service.database.embedded.accounts import choose
from worldledger_service.database.embedded.binaries import find

from tests.waiting import block_until
from worldledger.errors import EmbeddedServerError

from .helpers import ROOT, gone, sql

pytestmark = [pytest.mark.slow, pytest.mark.group("embedded")]


def _acknowledge_rows(server: EmbeddedServer) -> None:
    sql(server, "CREATE TABLE acknowledged (number int)")
    for number in range(20):
        sql(server, f"INSERT INTO acknowledged VALUES ({number})")


def _rows(server: EmbeddedServer) -> int:
    return int(sql(server, "SELECT count(*) FROM acknowledged"))


def test_killed_postmaster_comes_back(made: Path) -> None:
    """A server that is killed is started again under its users, with every acknowledged row."""
    with attach(made, linger=0) as server:
        _acknowledge_rows(server)
        assert server.postmaster_pid is not None
        os.kill(server.postmaster_pid, signal.SIGKILL)
        block_until(lambda: gone(server.postmaster_pid), "the server dies")
        with attach(made) as again:
            assert again.supervisor_pid == server.supervisor_pid
            assert again.postmaster_pid != server.postmaster_pid
            assert again.url() == server.url()
            assert _rows(server) == 20


def test_killed_supervisor_takes_its_server_along(made: Path) -> None:
    """When the supervisor is killed its server ends too; the next attach has every acknowledged row."""
    with attach(made, linger=0) as server:
        _acknowledge_rows(server)
        os.kill(server.supervisor_pid, signal.SIGKILL)
        block_until(lambda: gone(server.postmaster_pid), "the server ends with its supervisor")
        with attach(made, linger=0) as again:
            assert again.supervisor_pid != server.supervisor_pid
            assert _rows(again) == 20


def test_attach_while_an_orphaned_server_shuts_down(made: Path) -> None:
    """Who attaches right after the supervisor was killed does not meet the server that is ending."""
    with attach(made, linger=0) as server:
        _acknowledge_rows(server)
        os.kill(server.supervisor_pid, signal.SIGKILL)
        block_until(lambda: gone(server.supervisor_pid), "the supervisor dies")
        with attach(made, linger=0) as again:
            assert again.postmaster_pid != server.postmaster_pid
            assert _rows(again) == 20


def test_killed_supervisor_and_postmaster(made: Path) -> None:
    """When both are killed at once the next attach recovers all the same."""
    with attach(made, linger=0) as server:
        _acknowledge_rows(server)
        assert server.postmaster_pid is not None
        os.kill(server.supervisor_pid, signal.SIGKILL)
        os.kill(server.postmaster_pid, signal.SIGKILL)
        with attach(made, linger=0) as again:
            assert _rows(again) == 20


def test_watcher_ends_the_server_where_no_signal_can(made: Path) -> None:
    """With the watcher of other systems, too, a killed supervisor takes its server along."""
    command = [sys.executable, "-m", "worldledger_service.database.embedded.supervisor"]
    options = ["--home", str(made), "--guard", "pipe", "--linger", "60"]
    with subprocess.Popen([*command, *options], cwd=ROOT, stderr=subprocess.DEVNULL) as supervisor:
        block_until(lambda: status(made) is not None, "the supervisor starts")
        with attach(made) as server:
            assert server.supervisor_pid == supervisor.pid
            assert server.postmaster_pid is not None
            os.kill(server.postmaster_pid, signal.SIGKILL)  # the revived server needs a watcher, too
            block_until(lambda: gone(server.postmaster_pid), "the server dies")
            with attach(made) as again:
                assert sql(again, "SELECT 1") == 1
                supervisor.kill()
                block_until(lambda: gone(again.postmaster_pid), "the watcher ends the server")


def test_second_supervisor_is_refused(running: EmbeddedServer) -> None:
    """A supervisor started by hand for a home that has one ends at once and disturbs nothing."""
    home = str(running.data_dir.parent)
    command = [sys.executable, "-m", "worldledger_service.database.embedded.supervisor", "--home", home]
    second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert second.returncode == 3
    assert "has a supervisor already" in second.stderr
    assert sql(running, "SELECT 1") == 1


def test_recycled_pid_is_left_alone(made: Path) -> None:
    """A stale postmaster.pid whose pid is now another process's hinders no start, and that process survives."""
    account = choose([(made / "data").stat().st_uid])
    # Under the server's own user: to any other user's process PostgreSQL pays no attention.
    with subprocess.Popen(["sleep", "600"], cwd="/", **account.popen()) as unrelated:
        try:
            lines = [str(unrelated.pid), str(made / "data"), "1", "5432", str(made / "run"), "", "", "ready"]
            pid_file = made / "data" / "postmaster.pid"
            pid_file.write_text("\n".join(lines) + "\n")
            (made / "run" / ".s.PGSQL.5432.lock").write_text("\n".join(lines[:5]) + "\n")
            if account.switch:
                os.chown(pid_file, account.uid, account.gid)
            with attach(made, linger=0) as server:
                assert sql(server, "SELECT 1") == 1
            block_until(lambda: status(made) is None, "the server ends")
            assert unrelated.poll() is None
        finally:
            unrelated.kill()


def test_server_started_by_hand_is_refused_and_spared(made: Path) -> None:
    """A server that somebody runs on the data folder by hand is named in the error, and lives on."""
    account = choose([(made / "data").stat().st_uid])
    binaries = find(account, made)
    command = [binaries.postgres, "-D", str(made / "data"), "-k", str(made / "run"), "-c", "listen_addresses="]
    with subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **account.popen()) as by_hand:
        try:
            pid_file = made / "data" / "postmaster.pid"
            block_until(lambda: pid_file.exists() and "ready" in pid_file.read_text(), "the server is ready")
            with pytest.raises(EmbeddedServerError, match=f"by hand .pid {by_hand.pid}"), attach(made, linger=0):
                pass
            assert by_hand.poll() is None
        finally:
            by_hand.send_signal(signal.SIGINT)


def test_deleted_home_ends_its_server(made: Path) -> None:
    """A server whose home is deleted under it ends, though somebody still holds it."""
    with attach(made, linger=0) as server:
        shutil.rmtree(made, ignore_errors=True)
        block_until(lambda: gone(server.supervisor_pid), "the supervisor notices")
        assert gone(server.postmaster_pid)
