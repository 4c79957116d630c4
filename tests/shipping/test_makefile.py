"""The commands for people: what they say and do before anything is installed."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
from pathlib import Path

import pytest

from .project import ROOT, environment


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with spaces in its path that holds the Makefile and what it looks at."""
    folder = tmp_path / "a folder of mine"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    return folder


def _make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in environment().items() if not name.startswith("MAKE")}
    if path is not None:
        env["PATH"] = path
    return subprocess.run(
        [shutil.which("make") or "make", *arguments],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def _tools(folder: Path, python: str | None) -> str:
    """Make a folder for PATH with the shell's tools, and a python3 that is this script if one is given."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("sh", "sed", "expand", "cat", "pwd", "rm", "touch", "echo"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    if python is not None:
        script = tools / "python3"
        script.write_text(f"#!/bin/sh\n{python}\n")
        script.chmod(0o755)
    return str(tools)


def test_make_alone_lists_the_commands(checkout: Path) -> None:
    """`make` names every command with a word on what it does, and touches nothing."""
    done = _make(checkout)
    assert done.returncode == 0, done.stderr
    listed = re.findall(r"^  make ([\w-]+) +\S", done.stdout, re.MULTILINE)
    assert listed == re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert {"run", "test", "test-all", "check", "lint", "bench", "lock", "clean", "help"} <= set(listed)
    assert not (checkout / ".venv").exists()


def test_a_machine_without_a_new_enough_python_is_told_so(checkout: Path) -> None:
    """With no Python, or only an old one, `make run` says which version is needed."""
    for number, python in enumerate((None, "exit 1")):
        (checkout / str(number)).mkdir()
        done = _make(checkout, "run", path=_tools(checkout / str(number), python))
        assert done.returncode != 0
        assert "Python 3.11 or newer" in done.stderr
        assert not (checkout / ".venv").exists()


def test_a_python_without_venv_is_told_which_package_is_missing(checkout: Path) -> None:
    """Debian ships Python without its venv module; `make run` names the package that brings it."""
    python = 'case "$*" in *ensurepip*) exit 1;; *) exit 0;; esac'
    done = _make(checkout, "run", path=_tools(checkout, python))
    assert done.returncode != 0
    assert "python3-venv" in done.stderr


def test_an_environment_that_was_moved_is_made_anew(checkout: Path) -> None:
    """A .venv that was made in another folder is removed, for its scripts name that folder."""
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to("/bin/true")
    made = checkout / ".venv" / ".made"
    made.write_text(f"{checkout}\n")
    _make(checkout, "help")
    assert made.exists()
    made.write_text("/somewhere else\n")
    _make(checkout, "help")
    assert not (checkout / ".venv").exists()


def test_the_recipes_are_plain_shell() -> None:
    """Nothing asks for another shell than sh, and sh accepts the scripts beside it."""
    assert "SHELL" not in (ROOT / "Makefile").read_text()
    subprocess.run(["sh", "-n", ".ci/lock"], cwd=ROOT, check=True)


def test_what_pip_says_becomes_progress() -> None:
    """Each stage is told once, to and fro as pip goes; its own words come only where it fails, with its exit code."""
    found = "".join(f"Collecting {name}\n  Downloading {name}.whl (1 kB)\n" for name in "abc")
    said = found + "Installing collected packages: a, b\nERROR: no\nexit {}\n"
    progress = ["awk", "-f", str(ROOT / ".ci" / "progress.awk")]
    stages = "  looking for packages …\n  fetching packages …\n  installing packages …\n"
    for code, out in ((0, stages), (3, stages + said.rpartition("exit")[0])):
        done = subprocess.run(progress, input=said.format(code), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (code, out)
    progress[1:1] = ["-v", "terminal=1"]
    done = subprocess.run(progress, input=said.format(0), capture_output=True, text=True, check=True)
    assert "fetching packages: 3" in done.stdout
    assert "installing 2 packages" in done.stdout


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_an_installation_shows_its_progress(checkout: Path, is_terminal: bool) -> None:
    """On a terminal what is being installed is one line that moves; into a pipe each stage is a line."""
    (checkout / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "progress.awk", checkout / ".ci")
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    python = scripts / "python"
    said = r"Collecting a\n  Downloading a.whl (1 kB)\nInstalling collected packages: a, b\n"
    python.write_text(f"#!/bin/sh\ncase \"$*\" in *'pip install'*) printf '{said}';; esac\n")
    python.chmod(0o755)
    (checkout / ".venv" / ".made").write_text(f"{checkout}\n")
    reading, writing = pty.openpty() if is_terminal else os.pipe()
    call = [shutil.which("make") or "make", ".venv/.run"]
    env = {name: value for name, value in environment().items() if not name.startswith("MAKE")}
    subprocess.run(call, cwd=checkout, env=env, stdin=subprocess.DEVNULL, stdout=writing, timeout=60, check=True)
    shown = ""
    while select.select([reading], [], [], 0)[0]:
        shown += os.read(reading, 4096).decode()
    os.close(reading)
    os.close(writing)
    stages = ["looking for packages", "fetching packages", "installing packages"]
    if is_terminal:
        assert "\r\033[K  looking for packages: 1\r\033[K  fetching packages: 1" in shown
        assert shown.endswith("\r\033[K  installing 2 packages\r\033[K")
    else:
        assert shown.splitlines()[1:] == [f"  {stage} …" for stage in stages]


def test_a_console_that_was_not_built_is_tried_again(checkout: Path) -> None:
    """After an installation without the console, `make run` tries to build it each time, and goes on without it."""
    (checkout / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "progress.awk", checkout / ".ci")
    scripts = checkout / ".venv" / "bin"
    scripts.mkdir(parents=True)
    built = checkout / "service" / "worldledger_service" / "console" / "dist" / "built-from.txt"
    python = scripts / "python"
    python.write_text(f"#!/bin/sh\ncase \"$*\" in *'pip install'*) [ ! -e reachable ] || touch '{built}';; esac\n")
    python.chmod(0o755)
    (checkout / ".venv" / ".made").write_text(f"{checkout}\n")
    built.parent.mkdir(parents=True)
    assert re.search(r"^run: console\b", (checkout / "Makefile").read_text(), re.MULTILINE)
    for _ in range(2):
        done = _make(checkout, "console")
        assert done.returncode == 0, done.stderr
        assert "trying again" in done.stdout
        assert "without the console" in done.stderr
    (checkout / "reachable").touch()
    done = _make(checkout, "console")
    assert "trying again" in done.stdout
    assert not done.stderr
    done = _make(checkout, "console")
    assert not done.stdout.replace("make: Nothing to be done for 'console'.\n", "")
    assert not done.stderr


def test_what_is_said_before_serving_fits_a_terminal() -> None:
    """No line that `make run` writes itself is wider than 80 columns."""
    recipe = re.search(r"^run:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert recipe is not None
    said = re.findall(r"echo '([^']*)'", recipe[1].replace("$(BIN)", ".venv/bin"))
    assert "  worldledger view market Trader_1 --at turn:10 --truth" in said
    assert max(map(len, said)) <= 80


def test_ci_runs_the_suite() -> None:
    """.ci/run is an executable bash script that calls `make test`."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/usr/bin/env bash\n")
    assert re.search(r"^make test\b", script.read_text(), re.MULTILINE)
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    subprocess.run([bash, "-n", script], check=True)
