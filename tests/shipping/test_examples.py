"""What the pages show works: every command, program and query in them runs, in order."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.database import embedded

from .examples import ADDRESS, Runner, check_output, commands, examples
from .project import ROOT, environment, pages, stop, wait_until_fed, wait_until_live

_PAGES = [page for page in pages() if examples(page)]


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the project's examples in it, as in a checkout; an embedded server in it is removed."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    yield tmp_path
    embedded.stop(tmp_path / "home")
    embedded.remove(tmp_path / "home")


@pytest.fixture
def env(folder: Path, database_url: str) -> dict[str, str]:
    """The environment of the examples: a database of their own, and a terminal that is wide and plain."""
    return environment(
        WORLDLEDGER_DATABASE_URL=database_url,
        WORLDLEDGER_HOME=str(folder / "home"),
        HOME=str(folder),
        COLUMNS="160",
        NO_COLOR="1",
        TERM="dumb",
    )


@pytest.fixture
def address(env: dict[str, str], folder: Path) -> Iterator[str]:
    """A service on the examples' database, with its projections made; gives its host and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = int(listener.getsockname()[1])
    with (folder / "service.log").open("wb") as log:
        process = subprocess.Popen(
            ["worldledger", "serve", "--port", str(port)],
            cwd=folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_until_live(f"http://127.0.0.1:{port}", process)
            wait_until_fed(f"http://127.0.0.1:{port}")
            yield f"127.0.0.1:{port}"
            stop(process)
        finally:
            process.kill()
            process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("page", _PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_examples_of_a_page_work(
    page: Path, folder: Path, env: dict[str, str], database_url: str, request: pytest.FixtureRequest
) -> None:
    """Run one after the other, a page's examples succeed and print what the page shows."""
    found = examples(page)
    # Projections are there once a service has made them.
    served = any(ADDRESS in each.text or (each.kind == "sql" and "analytics." in each.text) for each in found)
    runner = Runner(folder, env, database_url, request.getfixturevalue("address") if served else None)
    for example in found:
        runner.run(example)


def test_console_blocks_are_parted_into_commands_and_output() -> None:
    """Lines after a prompt, and what a backslash continues, are commands; the rest is output."""
    script, shown = commands("$ echo a \\\n    b\na b\n$ for x in y; do\n>   echo $x\n> done\ny\n> z\n")
    assert script == "echo a \\\n    b\nfor x in y; do\n  echo $x\ndone\n"
    assert shown == ["a b", "y", "> z"]


def test_shown_output_must_be_printed() -> None:
    """A line that was not printed, or not in this order, is found; an ellipsis stands for anything."""
    check_output(["…", "one", "t…o", ""], "one\ntwo\n", 1)
    for shown in (["three"], ["two", "one"]):
        with pytest.raises(AssertionError, match="line 7"):
            check_output(shown, "one\ntwo\n", 7)
