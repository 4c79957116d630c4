"""The embedded server: every command works without any setting up, and beside a running `serve`."""

from __future__ import annotations

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.database.embedded import status

from tests.waiting import block_until
from worldledger import record

from .helpers import Result, Running, call

#: One worker, for what they share is a home that takes seconds to set up.
pytestmark = [pytest.mark.slow, pytest.mark.group("home of commands")]


def get(address: str) -> Any:
    """Get JSON over HTTP."""
    with urllib.request.urlopen(address, timeout=60) as answer:
        return json.load(answer)


def post(address: str, body: Any) -> Any:
    """Post JSON over HTTP."""
    request = urllib.request.Request(address, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def serving(home: Path, *, feeding: bool = False) -> tuple[Running, str]:
    """Start a service; return it and its address."""
    running = Running("serve", "--port", "0", "--home", str(home), *(() if feeding else ("--no-projections",)))
    try:
        address = running.line().removeprefix("Worldledger serves ").split()[0]
    except BaseException:
        running.__exit__(None, None, None)
        raise
    return running, address


def test_the_first_command_sets_everything_up(set_up: tuple[Path, Result]) -> None:
    """On a new machine a first import works by itself, and what it says of the set-up is not on stdout."""
    home, result = set_up
    assert result == (0, "imported 1 game (7 effects) from 1 file\n", "worldledger: setting up the database\n")
    result = call("verify", "--all", WORLDLEDGER_HOME=str(home))
    assert (result.code, result.err) == (0, "")
    assert call("db", "check", "--home", str(home)).code == 0
    assert call("db", "shell", "--home", str(home), "-Atc", "select count(*) from worlds").out == "1\n"
    # What was set up by hand only half is finished by the next command.
    admin = ("db", "shell", "--admin", "--home", str(home), "-qc")
    assert call(*admin, "drop schema public, analytics cascade; create schema public").code == 0
    assert call("worlds", "--json", "--home", str(home)).out == "[]\n"


def test_views_of_kinds_are_brought_up_to_date(set_up: tuple[Path, Result]) -> None:
    """What an installed kind brings and the database lacks is made by the next command."""
    home = ("--home", str(set_up[0]))
    assert call("kind", "drop", "sandbox", "--force", *home).code == 0
    asked = call("sql", "select count(*) from speak", *home)
    assert (asked.code, asked.err) == (0, "worldledger: bringing the database up to date\n")
    assert call("db", "check", *home).code == 0


def test_commands_beside_a_service(home: Path, tmp_path: Path) -> None:
    """Commands use the server that a service started, see what it wrote, and it sees what they wrote."""
    running, address = serving(home, feeding=True)
    with running:
        assert [running.line().split()[0] for _ in range(3)] == [address, f"{address}/openapi.json", "worldledger"]
        post(f"{address}/v1/worlds", {"world_id": "from-http"})
        listed = json.loads(call("worlds", "--json", "--home", str(home)).out)
        assert "from-http" in [world["world_id"] for world in listed]
        assert call("world", "create", "from-cli", "--home", str(home)).code == 0
        assert get(f"{address}/v1/worlds/from-cli")["head_seq"] == 1
        file = str(tmp_path / "f")
        assert call("export", "from-http", "-o", file, "--home", str(home)).code == 0
        assert call("import", "log", file, "--home", str(home)).out.startswith("already there")
        assert call("verify", "--all", "--home", str(home)).code == 0
        result = running.end(signal.SIGTERM)
    assert (result.code, result.err) == (0, "")


@pytest.mark.parametrize(
    ("service_first", "service_last"),
    [
        pytest.param(True, True, marks=pytest.mark.thorough),
        (True, False),
        (False, True),
        pytest.param(False, False, marks=pytest.mark.thorough),
    ],
)
def test_whoever_starts_and_ends_first(home: Path, service_first: bool, service_last: bool) -> None:
    """Neither a service nor a command is disturbed by the other's beginning or end."""
    world_id = f"shared-{service_first}-{service_last}"
    assert call("world", "create", world_id, "--home", str(home)).code == 0
    draft = {"kind": "Said", "payload": {}, "source_id": "a", "schema_version": "1.0.0"}

    def follow() -> Running:
        running = Running("log", world_id, "--follow", "--home", str(home))
        assert json.loads(running.line())["global_seq"] == 1
        return running

    if service_first:
        service, address = serving(home)
        command = follow()
    else:
        command = follow()
        service, address = serving(home)
    with service, command:
        post(f"{address}/v1/worlds/{world_id}/effects", draft)
        assert json.loads(command.line())["global_seq"] == 2
        if service_last:
            assert command.end(signal.SIGINT).code == 130
            assert post(f"{address}/v1/worlds/{world_id}/effects", draft)["global_seq"] == 3
            assert service.end(signal.SIGINT).code == 0
        else:
            assert service.end(signal.SIGINT).code == 0
            second, address = serving(home)
            with second:
                post(f"{address}/v1/worlds/{world_id}/effects", draft)
                assert json.loads(command.line())["global_seq"] == 3
                assert second.end(signal.SIGTERM).code == 0
            assert command.end(signal.SIGINT).code == 130


def test_two_services_on_one_home(home: Path) -> None:
    """A second service on another port serves the same worlds; without one, or on the same, the address is told."""
    first, one = serving(home)
    with first:
        second, other = serving(home)
        with second:
            post(f"{one}/v1/worlds", {"world_id": "seen-by-both"})
            assert get(f"{other}/v1/worlds/seen-by-both")["head_seq"] == 1
            for port in ([], ["--port", one.rpartition(":")[2]]):
                assert call("serve", *port, "--home", str(home)) == (0, f"already serving {one}\n", "")
            result = call("serve", "--port", other.rpartition(":")[2], "--home", str(home / "another"))
            assert (result.code, result.out) == (2, "")
            assert f"already serving {other}" in result.err
            assert "--port" in result.err
            result = call("serve", "--check-port", "--port", one.rpartition(":")[2], "--home", str(home))
            assert result == (1, f"already serving {one}\n", "")


def test_a_recording_names_the_service_that_there_is(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """At its end it says where the console shows it, if a service serves its database, and else how to start one."""
    for name in ("WORLDLEDGER_URL", "WORLDLEDGER_DATABASE_URL", "WORLDLEDGER_HOME"):
        monkeypatch.delenv(name, raising=False)
    service, address = serving(home)
    with service:
        with record("noted", home=home) as run:
            run.effect("Ate")
        said = capfd.readouterr().err
        assert f"  look at it: {address}/#/w/noted\n" in said
        assert "worldledger serve" not in said
        assert service.end(signal.SIGINT).code == 0
    with record("noted", home=home) as run:
        run.step()
    assert "worldledger serve --home" in capfd.readouterr().err


def test_follow_outlives_a_crash_of_the_server(home: Path) -> None:
    """When PostgreSQL is killed it comes back, and --follow goes on with what is appended then."""
    assert call("world", "create", "survivor", "--home", str(home)).code == 0
    service, address = serving(home)
    with service, Running("log", "survivor", "--follow", "--home", str(home)) as command:
        assert json.loads(command.line())["global_seq"] == 1
        found = status(home)
        assert found is not None
        assert found.postmaster_pid is not None
        os.kill(found.postmaster_pid, signal.SIGKILL)
        block_until(lambda: _revived(home, found.postmaster_pid), "the server is back")
        draft = {"kind": "Said", "payload": {}, "source_id": "a", "schema_version": "1.0.0", "req_id": "1"}
        assert post(f"{address}/v1/worlds/survivor/effects", draft)["global_seq"] == 2
        assert json.loads(command.line())["global_seq"] == 2
        assert command.end(signal.SIGINT).code == 130


def _revived(home: Path, before: int | None) -> bool:
    found = status(home)
    return found is not None and found.state == "ready" and found.postmaster_pid != before


def test_a_host_that_others_can_reach_is_warned_of(home: Path) -> None:
    """Listening on more than this machine is allowed, and said."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    serve = ("serve", "--host", "0.0.0.0", "--no-projections")
    with Running(*serve, "--port", str(port), "--home", str(home)) as running:
        assert running.line().startswith(f"Worldledger serves http://127.0.0.1:{port} ")
        block_until(lambda: "no authentication" in running.err, "the warning")
        assert running.end(signal.SIGTERM).code == 0


def test_a_host_that_cannot_be_had_is_only_refused(home: Path) -> None:
    """Where nothing listens nobody is warned of who could reach it."""
    result = call("serve", "--host", "nosuch.invalid", "--home", str(home))
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("worldledger: cannot listen on nosuch.invalid")
    assert "whoever" not in result.err
