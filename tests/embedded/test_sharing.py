"""Many users, one server: who starts it, who may attach, when it ends."""

from __future__ import annotations

import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import asyncpg
import pytest
from worldledger_service.database.embedded import EmbeddedServer, attach, remove, status, stop
from worldledger_service.database.embedded.home import FileLock

from tests.waiting import block_until
from worldledger.errors import EmbeddedServerError

from .helpers import User, gone, sql, sql_at

pytestmark = pytest.mark.group("embedded")


def test_first_user_makes_the_cluster(home: Path) -> None:
    """The first attach to an absent home sets everything up; rows are there when the server has ended and returned."""
    with attach(home, linger=0) as server:
        assert sql(server, "SELECT current_database()") == "worldledger"
        sql(server, "CREATE TABLE kept AS SELECT 42 AS answer")
        first = server.postmaster_pid
    block_until(lambda: status(home) is None, "the server ends after its last user")
    with attach(home, linger=0) as server:
        assert sql(server, "SELECT answer FROM kept") == 42
        assert server.postmaster_pid != first


def test_second_process_shares_the_server(running: EmbeddedServer) -> None:
    """A second process attaches to the server that runs, and both see the same rows."""
    with User(running.data_dir.parent) as other:
        sql(running, "CREATE TABLE shared AS SELECT 7 AS number")
        other.attached()
        assert other.server["supervisor"] == running.supervisor_pid
        assert other.server["postmaster"] == running.postmaster_pid
        assert other.sql("SELECT number FROM shared") == 7


def test_attach_nests(running: EmbeddedServer) -> None:
    """One process may attach twice; the inner end leaves the server to the outer one."""
    home = running.data_dir.parent
    with attach(home, linger=0) as inner:
        assert inner == running
    assert sql(running, "SELECT 1") == 1
    assert status(home) is not None


def test_server_ends_after_the_last_user(made: Path) -> None:
    """When the last user has let go, the server and its supervisor end, and leave no state and no socket."""
    with attach(made, linger=0) as server:
        pass
    block_until(lambda: gone(server.supervisor_pid), "the supervisor ends")
    assert gone(server.postmaster_pid)
    assert status(made) is None
    assert not (made / "server.json").exists()
    assert not list((made / "run").iterdir())
    assert not (server.data_dir / "postmaster.pid").exists()


def test_server_lingers_for_the_next_user(made: Path) -> None:
    """Within the linger the next user meets the same server."""
    with attach(made, linger=60) as first:
        pass
    with attach(made, linger=60) as second:
        assert second.postmaster_pid == first.postmaster_pid


def test_killed_user_lets_go(made: Path) -> None:
    """A user that is killed cannot keep the server alive."""
    with User(made, linger=0) as user:
        user.attached()
        user.kill()
        block_until(lambda: gone(user.server["supervisor"]), "the supervisor notices")
        assert gone(user.server["postmaster"])


def test_ctrl_c_reaches_only_its_own_terminal(made: Path) -> None:
    """Ctrl-C for the user that started the server takes nothing from the others."""
    with User(made, linger=0) as starter:
        starter.attached()
        with attach(made) as server:
            os.killpg(starter.process.pid, signal.SIGINT)
            starter.process.communicate(timeout=60)
            assert sql(server, "SELECT 1") == 1
            assert server.supervisor_pid == starter.server["supervisor"]
            assert not gone(server.supervisor_pid)


def test_forked_child_lets_go_of_nothing(home: Path) -> None:
    """A child that inherited a lock and closes it does not release its parent's."""
    home.mkdir()
    with FileLock(home / "lock") as lock, FileLock(home / "lock") as other:
        assert lock.try_shared()
        child = os.fork()
        if child == 0:
            lock.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert not other.try_exclusive()
        lock.close()
        assert other.try_exclusive()


@pytest.mark.slow
def test_many_first_users_make_one_cluster(home: Path, thorough: bool) -> None:
    """Processes that all start an empty home get one cluster, one supervisor, and all are attached."""
    with ExitStack() as stack:
        users = [stack.enter_context(User(home, linger=0)) for _ in range(10 if thorough else 4)]
        servers = [user.attached().server for user in users]
        assert len({server["supervisor"] for server in servers}) == 1
        systems = {user.sql("SELECT system_identifier::text FROM pg_control_system()") for user in users}
        assert len(systems) == 1
        assert not list(home.glob("data.new-*"))


@pytest.mark.slow
def test_coming_and_going_never_meets_a_dying_server(made: Path, thorough: bool) -> None:
    """Users that come just as the server stops behind the last one always get a server that answers them."""
    turns = 8 if thorough else 4
    with ExitStack() as stack:
        users = [
            stack.enter_context(User(made, turns=turns, sql="SELECT pg_backend_pid() > 0", linger=0)) for _ in range(3)
        ]
        said = [user.end() for user in users]
        assert [text.count("true") for text in said] == [turns] * 3
        lines = [json.loads(line) for text in said for line in text.splitlines() if line.startswith("{")]
        assert len({line["supervisor"] for line in lines}) > 1


def test_stop_under_users(made: Path) -> None:
    """``stop`` ends the server although it is in use, and the next attach starts it again."""
    with attach(made) as server:
        assert stop(made) is True
        assert gone(server.postmaster_pid)
        assert stop(made) is False
        with attach(made, linger=0) as again:
            assert again.supervisor_pid != server.supervisor_pid
            assert sql(again, "SELECT 1") == 1


def test_impatient_user_gets_an_error(made: Path) -> None:
    """When the start takes longer than allowed the error says where to look, and the server ends by itself."""
    late = pytest.raises(EmbeddedServerError, match=r"did not answer in time.*postgres\.log")
    with late, attach(made, linger=0, start_timeout=0):
        pass
    block_until(lambda: status(made) is None, "the server ends without users")


def test_status_tells_and_starts_nothing(home: Path, made: Path, running: EmbeddedServer) -> None:
    """``status`` is None for an absent and for a resting home, and names the processes of a running one."""
    for resting in (home, made):
        assert status(resting) is None
    assert not home.exists()
    found = status(running.data_dir.parent)
    assert found is not None
    assert (found.state, found.postmaster_pid) == ("ready", running.postmaster_pid)


def test_remove_refuses_while_in_use(made: Path) -> None:
    """``remove`` deletes a resting cluster, and refuses one that is in use."""
    with attach(made, linger=0) as server:
        with pytest.raises(EmbeddedServerError, match="in use"):
            remove(made, timeout=0)
        assert sql(server, "SELECT 1") == 1
    remove(made)
    assert not (made / "data").exists()
    assert not (made / "password").exists()


def test_databases_are_made_when_absent(running: EmbeddedServer) -> None:
    """The database that is asked for is made, whatever its name."""
    name = 'Other "quoted" name/100%'
    with attach(running.data_dir.parent, database=name) as server:
        assert sql(server, "SELECT current_database()") == name


def test_tcp_only_on_demand(made: Path, unused_tcp_port: int) -> None:
    """Without a TCP port the server listens on its socket only; with one also on 127.0.0.1, with a password."""
    with attach(made, linger=0) as server:
        assert sql(server, "SHOW listen_addresses") == ""
        with pytest.raises(EmbeddedServerError, match="without TCP"), attach(made, tcp_port=unused_tcp_port):
            pass
    block_until(lambda: status(made) is None, "the server ends")
    with attach(made, linger=0, tcp_port=unused_tcp_port) as server:
        address = f"postgresql://postgres:{server.password}@127.0.0.1:{unused_tcp_port}/worldledger"
        assert sql_at(address, "SELECT 1") == 1


async def test_attaching_inside_a_running_event_loop(made: Path) -> None:
    """A coroutine, or a notebook, attaches as any program does: the server is started, and attached to again."""
    with attach(made, linger=0) as server, attach(made) as again:
        connection = await asyncpg.connect(server.url())
        try:
            assert await connection.fetchval("SELECT 42") == 42
        finally:
            await connection.close()
        assert again.url() == server.url()
