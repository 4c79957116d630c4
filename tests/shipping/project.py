"""Where the project's files are, and the few things that several of these tests read from them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import urlopen

from tests.warm import SCRIPT, Process

ROOT: Final = Path(__file__).resolve().parents[2]
#: The folder of the console scripts of the environment that runs the tests.
SCRIPTS: Final = SCRIPT.parent

_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "build", "dist"})


def pyproject() -> dict[str, Any]:
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def project_files() -> list[Path]:
    """Return the project's own files: what git tracks or would track; in an unpacked archive, what is there."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        ).stdout.decode()
        found = [ROOT / name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        found = [
            path
            for path in ROOT.rglob("*")
            if not any(part in _SKIPPED or part.startswith(".") for part in path.relative_to(ROOT).parts[:-1])
        ]
    return sorted(path for path in found if path.is_file())


def pages() -> list[Path]:
    """Return the pages that users read."""
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def in_reading_order() -> list[Path]:
    """Return the pages as somebody reads them: README, those that its section "Documentation" links, and the rest."""
    readme, *others = pages()
    linked = re.findall(r"\]\(([^)#]+\.md)", readme.read_text().partition("\n## Documentation\n")[2])
    order = {ROOT / link: number for number, link in reversed(list(enumerate(linked)))}
    return [readme, *sorted(others, key=lambda page: order.get(page, len(order)))]


def environment(**variables: str) -> dict[str, str]:
    """Return this process's environment without its own settings of the product, with the test's scripts on PATH."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("WORLDLEDGER_")}
    path = f"{SCRIPTS}{os.pathsep}{inherited.get('PATH', '')}"
    return {**inherited, "PATH": path, "PYTHONUNBUFFERED": "1", **variables}


def wait_until_live(
    url: str, process: subprocess.Popen[Any] | Process, *, seconds: float = 120.0, path: str = "/livez"
) -> None:
    """Poll a service until the path answers 200; fail when the process ends or the time is over."""
    deadline = time.monotonic() + seconds
    while True:
        assert process.poll() is None, f"the service ended with {process.returncode} before it answered"
        try:
            with urlopen(f"{url}{path}", timeout=2) as answer:
                assert answer.status == 200
                return
        except OSError:
            assert time.monotonic() < deadline, f"{url}{path} did not answer within {seconds:g} s"
            time.sleep(0.02)


def _wait_until_started(url: str, *, feeding: bool, seconds: float = 120.0) -> None:
    """Poll a live service until it has started, and fed every projection: on a new database that takes a moment."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urlopen(f"{url}/v1/projections", timeout=10) as answer:
                if not feeding or all(projection["live"] for projection in json.load(answer)["projections"]):
                    return
        except HTTPError as error:
            if error.code != 503:
                raise
        assert time.monotonic() < deadline, f"{url} has projections that are not live within {seconds:g} s"
        time.sleep(0.05)


@contextmanager
def serving(
    folder: Path, env: Mapping[str, str], *, program: Path = SCRIPT, python: str = sys.executable, feeding: bool = True
) -> Iterator[str]:
    """Serve from a folder, feeding the projections or not, and lend host and port once all of that works."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    arguments = ["serve", "--port", address.rpartition(":")[2]]
    env = {**env, "WORLDLEDGER_PROJECTIONS": str(feeding)}
    with Path(os.devnull).open("rb") as nothing, (folder / "service.log").open("wb") as log:
        streams = (nothing.fileno(), log.fileno(), log.fileno())
        process = Process(arguments, streams, env, program=program, python=python, cwd=folder)
    try:
        wait_until_live(f"http://{address}", process)
        _wait_until_started(f"http://{address}", feeding=feeding)
        yield address
        assert stop(process) == 0, (folder / "service.log").read_text()
    finally:
        process.kill()
        process.wait()


def stop(process: subprocess.Popen[Any] | Process) -> int:
    """End a process with SIGTERM and give its exit code; fail when it does not end."""
    process.terminate()
    return process.wait(120)


def run(command: list[str], *, cwd: Path, env: Mapping[str, str], seconds: float = 120.0) -> str:
    """Run a command to its end and give what it printed on stdout; fail with all of it when it does not succeed."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == 0, f"{command} exited with {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
