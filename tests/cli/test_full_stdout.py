"""What happens when stdout cannot be written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

import pytest

from tests.conftest import Servers
from tests.warm import SCRIPT, Process

from .helpers import Result, environment, seed

FULL = Path("/dev/full")


@pytest.fixture(scope="module")
def there(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return the address of a database with a world, for all the commands."""
    url = servers.create(server_kind, servers.template(server_kind))
    seed(url, "w", 3000)
    yield url
    servers.drop(server_kind, url)


#: Commands that write in ways of their own; and others that write as those do.
_COMMANDS = (
    ("worlds",),
    ("log", "w"),
    ("export", "w", "-o", "-"),
    ("state", "w", "--json"),
    ("verify", "--all"),
    ("replay", "--check", "--all"),
    ("projections", "rebuild", "entities"),
    ("project", "--once"),
    ("world", "create", "other"),
)
_MORE = (
    ("verify", "--all", "--json"),
    ("worlds", "--json"),
    ("state", "w"),
    ("diff", "w", "1", "head"),
    ("replay", "w", "--speed", "max"),
    ("replay", "--check", "--all", "--json"),
    ("snapshots", "w", "--json"),
    ("snapshot", "w"),
    ("projections", "status"),
    ("projections", "status", "--json"),
    ("projections", "rebuild", "entities", "--cancel"),
    ("projections", "pause", "turns"),
    ("db", "check"),
)


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize(
    "command", [*_COMMANDS, *(pytest.param(more, marks=pytest.mark.thorough) for more in _MORE)], ids=" ".join
)
def test_a_full_stdout(there: str, command: tuple[str, ...]) -> None:
    """A stdout that is full is exit code 2 and one sentence, whatever the command."""
    with FULL.open("wb") as full:
        result = run(*command, "--database-url", there, stdout=full)
    assert (result.code, result.out) == (2, "")
    # A slow machine may have been told on stderr what is going on before.
    assert result.err.splitlines()[-1] == "worldledger: stdout cannot be written (No space left on device)"


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("option", ["--help", pytest.param("--version", marks=pytest.mark.thorough)])
def test_help_into_a_full_stdout(option: str) -> None:
    """That holds for what the program says about itself, too, begun from nothing."""
    with FULL.open("wb") as full:
        done = subprocess.run([SCRIPT, option], stdout=full, stderr=subprocess.PIPE, env=environment(), check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"worldledger: ")
    # Buffered or not, depending on the environment, it is noticed by one or the other.
    assert done.stderr.endswith((b"No space left on device\n", b"No space left on device)\n"))
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(("closed", "said"), [(">&-", b"not writable"), ("2>&-", b"")], ids=["stdout", "stderr"])
def test_a_closed_stream(closed: str, said: bytes) -> None:
    """A stdout that is closed is exit code 2 and one sentence; a closed stderr disturbs nothing."""
    done = subprocess.run(
        ["sh", "-c", f'"$0" --version {closed}', SCRIPT], capture_output=True, env=environment(), check=False
    )
    assert done.returncode == (2 if said else 0)
    assert said in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
def test_a_full_stderr(there: str) -> None:
    """Words that cannot be written do not change how a command ends."""
    with FULL.open("wb") as full:
        assert run("log", "nowhere", "--database-url", there, stderr=full).code == 2
        assert run("worlds", "--database-url", there, stderr=full).code == 0


def run(*arguments: str, stdout: BinaryIO | None = None, stderr: BinaryIO | None = None) -> Result:
    """Run the program with one of its streams replaced; return what came of it."""
    with Path(os.devnull).open("rb") as nothing, TemporaryFile() as out, TemporaryFile() as err:
        streams = (nothing.fileno(), (stdout or out).fileno(), (stderr or err).fileno())
        process = Process(arguments, streams, environment())
        try:
            code = process.wait(120)
        finally:
            process.end()
        for said in (out, err):
            said.seek(0)
        return Result(code, out.read().decode(), err.read().decode())
