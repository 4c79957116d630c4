"""What the pages show works: every command, program and query in them runs, page after page, on one home."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from worldledger_service.console.assets import BUILT
from worldledger_service.database import embedded

from .conftest import Toured
from .examples import Runner, Terminal, check_output, commands, examples
from .project import ROOT, environment, in_reading_order, serving

#: Pages that are tried where what they are about is installed: tests/thirdparty.
_ELSEWHERE: Final = frozenset({"how-to-kinds.md"})
_PAGES = [page for page in in_reading_order() if examples(page) and page.name not in _ELSEWHERE]
#: Pages whose commands are many, and all of them those of other tests (tests/cli, tests/report, tests/client, …).
_LONG: Final = frozenset(
    {
        "how-to.md",
        "how-to-agents.md",
        "how-to-chess.md",
        "how-to-compare.md",
        "how-to-dataframes.md",
        "how-to-forks.md",
        "how-to-report.md",
        "how-to-simulations.md",
        "how-to-social-rl.md",
        "how-to-sql.md",
        "how-to-states.md",
        "how-to-your-simulation.md",
    }
)
#: Pages for newcomers, who compare: what is printed is on the page, or has an ellipsis there.
_WHOLE: Final = frozenset({"README.md", "how-to-import.md", "how-to-record.md", "tutorial.md"})
#: What needs the console, which is not built where the npm registry is out of reach.
_OF_THE_CONSOLE: Final = "export html"


class Home(NamedTuple):
    """Where a reader tries the examples: a terminal in a checkout, a database, and a service at an address."""

    terminal: Terminal
    database_url: str
    address: str


@pytest.fixture(scope="module")
def home(toured: Toured, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """The home of a reader who has typed `make run`, whose service runs until the last page was tried."""
    folder, database_url = toured.folder, toured.database_url
    env = environment(
        WORLDLEDGER_DATABASE_URL=database_url,
        WORLDLEDGER_HOME=str(folder / "home"),
        HOME=str(folder),
        COLUMNS="160",
        NO_COLOR="1",
        TERM="dumb",
    )
    try:
        terminal = Terminal(folder, env, tmp_path_factory.mktemp("programs"))
        with serving(folder, env) as address:
            yield Home(terminal, database_url, address)
    finally:
        embedded.stop(folder / "home")
        embedded.remove(folder / "home")


@pytest.mark.slow
@pytest.mark.group("home")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=pytest.mark.thorough) if page.name in _LONG else page for page in _PAGES],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_the_examples_of_a_page_work(page: Path, home: Home) -> None:
    """Run one after the other, on a home on which the pages before it were tried, they print what the page shows."""
    runner = Runner(*home, whole=page.name in _WHOLE)
    is_built = (BUILT / "index.html").exists()
    for example in examples(page):
        if is_built or _OF_THE_CONSOLE not in example.text:
            runner.run(example)


def test_console_blocks_are_parted_into_commands_and_output() -> None:
    """Lines after a prompt, and what a backslash continues, are commands; the rest is output."""
    script, shown = commands("$ echo a \\\n    b\na b\n$ for x in y; do\n>   echo $x\n> done\ny\n> z\n")
    assert script == "echo a \\\n    b\nfor x in y; do\n  echo $x\ndone\n"
    assert shown == ["a b", "y", "> z"]


def test_shown_output_must_be_printed() -> None:
    """A line that was not printed, or not in this order, is found; an ellipsis stands for anything.

    So is a line that was printed and is not shown, where the whole output is to be.
    """
    check_output(["…", "one", "t…o", ""], "one\ntwo\n", 1)
    check_output(["two"], "one\ntwo\nthree\n", 1)
    check_output(["…", "two", "", "…"], "one\ntwo\n\nthree\n", 1, whole=True)
    for shown in (["two", "…"], ["…", "two"], []):
        with pytest.raises(AssertionError, match="line 7"):
            check_output(shown, "one\ntwo\nthree\n", 7, whole=True)
    for shown in (["three"], ["two", "one"]):
        with pytest.raises(AssertionError, match="line 7"):
            check_output(shown, "one\ntwo\n", 7)
