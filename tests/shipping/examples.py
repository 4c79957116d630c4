"""Running the documentation: the examples of a page, in order, as docs/contributing.md explains."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import asyncpg

from service.database.guards import READER_ROLE

#: As `worldledger db shell` works.
_READER: Final = {"role": READER_ROLE, "search_path": "analytics", "default_transaction_read_only": "on"}
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
    """Give the examples of a page that are run."""
    text = page.read_text()
    return [Example(found[1], found[2], text.count("\n", 0, found.start()) + 2) for found in _BLOCK.finditer(text)]


class Runner:
    """Runs one page's examples in one folder, against one database and one service."""

    def __init__(self, folder: Path, env: Mapping[str, str], database_url: str, address: str | None) -> None:
        self._folder = folder
        self._env = dict(env)
        self._database_url = database_url
        self._address = address
        self._variables: list[str] = []

    def run(self, example: Example) -> None:
        """Run an example; fail when it fails, or does not print what the page shows."""
        text = example.text if self._address is None else example.text.replace(ADDRESS, self._address)
        if example.kind == "sql":
            asyncio.run(self._query(text))
        elif example.kind == "python":
            self._call([sys.executable, "-W", "error", "-"], text, example.line)
        else:
            script, shown = commands(text)
            printed = self._call(["sh", "-eu"], "\n".join([*self._variables, script]), example.line)
            self._variables += _ASSIGNMENT.findall(script)
            check_output(shown, printed, example.line)

    def _call(self, command: list[str], text: str, line: int) -> str:
        done = subprocess.run(
            command,
            input=text,
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"the example at line {line} exited with {done.returncode}:\n{text}\n{done.stdout}"
        return done.stdout

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


def check_output(shown: list[str], printed: str, line: int) -> None:
    """Find every line that the page shows among those that were printed, in order.

    In a line ``…`` stands for anything, and as a line for any number of lines.
    """
    left = iter(printed.splitlines())
    for wanted in shown:
        if wanted.strip() in {"", "…"}:
            continue
        pattern = re.compile(".*".join(re.escape(part) for part in wanted.strip().split("…")))
        assert any(pattern.fullmatch(found.strip()) for found in left), (
            f"the example at line {line} shows\n{wanted}\nand printed\n{printed}"
        )
