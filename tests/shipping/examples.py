"""Running the documentation: the examples of a page, in order, as docs/contributing.md explains."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg
from worldledger_service.database.guards import READER_ROLE

from tests.warm import SCRIPT, forker

#: As `worldledger db shell` works.
_READER: Final = {"role": READER_ROLE, "search_path": "analytics", "default_transaction_read_only": "on"}
_STRICTLY: Final = 'import warnings; warnings.simplefilter("error")\n'
_ASK: Final = Path(__file__).with_name("asking.py")
#: The address of the service in the pages; a test puts that of its own service in its place.
ADDRESS: Final = "127.0.0.1:8000"
#: A variable that is given a plain word holds for the rest of the page, as it does in a terminal.
_ASSIGNMENT: Final = re.compile(r"^[A-Z]+=[\w.-]+$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(console|python|sql)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Example(NamedTuple):
    """A code block that is run: its kind, its text and the line at which it begins."""

    kind: str
    text: str
    line: int


def examples(page: Path) -> list[Example]:
    """Return the examples of a page that are run."""
    text = page.read_text()
    return [Example(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _BLOCK.finditer(text)]


class Terminal:
    """A shell in a folder; its ``worldledger`` and ``python FILE`` are forks of a process that has loaded the program.

    To start Python and load what a command needs takes a second of the processor, and the pages have two hundred of
    them. That the real commands start is for other tests: tests/cli, test_tour.py, test_wheel.py.
    """

    def __init__(
        self,
        folder: Path,
        env: Mapping[str, str],
        programs: Path,
        *,
        program: Path = SCRIPT,
        interpreter: str = sys.executable,
    ) -> None:
        self.folder = folder
        self._forker = forker(interpreter).fileno()
        self._env = {**env, "PATH": f"{programs}{os.pathsep}{env['PATH']}"}
        ask = shlex.join([sys.executable, "-IS", str(_ASK), str(self._forker)])
        python = f'case $1 in -*) exec {shlex.quote(interpreter)} "$@" ;; esac\nexec {ask} "$@"'
        for name, script in {"worldledger": f'exec {ask} {shlex.quote(str(program))} "$@"', "python": python}.items():
            (programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (programs / name).chmod(0o755)

    def run(self, script: str) -> tuple[int, str]:
        """Run a script; return its exit code and what it printed."""
        done = subprocess.run(
            ["sh", "-eu"],
            input=script,
            cwd=self.folder,
            env=self._env,
            pass_fds=[self._forker],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stdout


class Runner:
    """Runs one page's examples in a terminal, against one database and one service."""

    def __init__(self, terminal: Terminal, database_url: str, address: str, *, whole: bool = False) -> None:
        self._terminal = terminal
        self._whole = whole
        self._database_url = database_url
        self._address = address
        self._variables: list[str] = []

    def run(self, example: Example) -> None:
        """Run an example; fail when it fails, or does not print what the page shows."""
        text = example.text.replace(ADDRESS, self._address)
        if example.kind == "sql":
            asyncio.run(self._query(text))
        elif example.kind == "python":
            (self._terminal.folder / "example.py").write_text(_STRICTLY + text)
            self._call("python example.py", text, example.line)
        else:
            script, shown = commands(text)
            printed = self._call("\n".join([*self._variables, script]), text, example.line)
            self._variables += _ASSIGNMENT.findall(script)
            check_output(shown, printed, example.line, whole=self._whole)

    def _call(self, script: str, text: str, line: int) -> str:
        code, printed = self._terminal.run(script)
        assert code == 0, f"the example at line {line} exited with {code}:\n{text}\n{printed}"
        return printed

    async def _query(self, statement: str) -> None:
        connection = await asyncpg.connect(self._database_url, server_settings=_READER)
        try:
            await connection.fetch(statement)
        finally:
            await connection.close()


def commands(text: str) -> tuple[str, list[str]]:
    """Part a console block into its commands and what they print.

    A command begins after ``$ ``; lines after ``> ``, and what a backslash continues, belong to it.
    """
    script: list[str] = []
    shown: list[str] = []
    within = False
    for line in text.splitlines():
        within = line.startswith("$ ") or (within and (line.startswith("> ") or script[-1].endswith("\\")))
        if within:
            script.append(line[2:] if line.startswith(("$ ", "> ")) else line)
        else:
            shown.append(line)
    return "\n".join(script) + "\n", shown


def check_output(shown: list[str], printed: str, line: int, *, whole: bool = False) -> None:
    """Find every line that the page shows among those that were printed, in order; blank ones do not count.

    In a line ``…`` stands for anything, and as a line for any number of lines. With ``whole`` nothing else was printed.
    """
    left = iter([found for found in printed.splitlines() if found.strip()])
    is_open = not whole
    for wanted in shown:
        if wanted.strip() in {"", "…"}:
            is_open |= wanted.strip() == "…"
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.strip().split("…")))
        passed = []
        for found in left:
            if pattern.fullmatch(found.strip()):
                break
            passed.append(found)
        else:
            raise AssertionError(f"the example at line {line} shows\n{wanted}\nand printed\n{printed}")
        assert is_open or not passed, f"the example at line {line} also printed, before\n{wanted}\nthis:\n{passed}"
        is_open = not whole
    rest = [*left]
    assert is_open or not rest, f"the example at line {line} also printed\n{rest}"
