"""The documentation: its links lead somewhere and its tables are today's."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from worldledger_service.app import create_app
from worldledger_service.cli.main import make_app
from worldledger_service.settings import Settings

from worldledger.client import Client, Frame, Question, RemoteHandle
from worldledger.errors import SimulationError

from .project import ROOT, in_reading_order, pages
from .tables import generated_pages, with_tables

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_KINDS = {"console", "python", "sql", "json", "text", "sh"}

by_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())


@cache
def _anchors(page: Path) -> set[str]:
    """Return the anchors that a renderer makes of a page's headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in plain}


@by_page
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the project, and a heading in it if it has an anchor."""
    for link in _LINK.findall(_FENCE.sub("", page.read_text())):
        target, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", target):
            assert target.startswith("https://"), link
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.exists(), f"{page.relative_to(ROOT)}: {link}"
        assert file.is_relative_to(ROOT)
        if anchor:
            assert anchor in _anchors(file), f"{page.relative_to(ROOT)}: {link}"


@by_page
def test_code_blocks_are_of_a_kind_that_is_tested_or_plain(page: Path) -> None:
    """Every code block says what it is, in one of the words that docs/contributing.md explains."""
    fences = re.findall(r"^```(.*)$", page.read_text(), re.MULTILINE)
    assert len(fences) % 2 == 0
    assert set(fences[::2]) <= _KINDS
    assert not any(fences[1::2])


@by_page
def test_json_examples_are_json(page: Path) -> None:
    """Every example that is called JSON parses."""
    for block in re.findall(r"^```json\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        json.loads(block)


def test_every_page_is_reached_from_the_readme() -> None:
    """Following links from README.md one comes to every page."""
    seen: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in seen or page.suffix != ".md":
            continue
        seen.add(page)
        targets = (link.partition("#")[0] for link in _LINK.findall(_FENCE.sub("", page.read_text())))
        waiting += [(page.parent / target).resolve() for target in targets if target and ":" not in target]
    assert set(pages()) <= seen


def test_git_ignores_what_the_tutorial_writes() -> None:
    """Who follows the tutorial in a checkout has no files there afterwards that git does not know."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    written = set(re.findall(r"^\$ .*(?:-o|>) ([\w-]+\.\w+)$", text, re.MULTILINE))
    assert written == {"game.ndjson", "noted-heads.txt"}
    assert {f"/{name}" for name in written} <= set((ROOT / ".gitignore").read_text().splitlines())


def test_the_reading_order_is_that_of_the_readme() -> None:
    """README comes first, then what its section "Documentation" links: the tutorial, the how-tos, the reference."""
    order = [page.relative_to(ROOT).as_posix() for page in in_reading_order()]
    assert order[:3] == ["README.md", "docs/tutorial.md", "docs/how-to.md"]
    assert set(order) == {page.relative_to(ROOT).as_posix() for page in pages()}
    kinds = [kind for name in order for kind in ("how-to", "reference") if name.startswith(f"docs/{kind}")]
    assert kinds == sorted(kinds)


def test_generated_tables_are_today_s() -> None:
    """The tables made from errors and settings say what the code says; `make docs` writes them."""
    found = generated_pages()
    assert {page.name for page in found} == {
        *("analytics.md", "contracts.md", "errors.md", "intents.md", "settings.md", "social-rl.md")
    }
    for page in found:
        assert page.read_text() == with_tables(page.read_text()), f"{page.relative_to(ROOT)}: run `make docs`"


def _sections(page: Path, heading: str) -> dict[str, str]:
    """Return the sections of a page whose headings look like that, by what stands in their backticks."""
    parts = re.split(rf"^{heading} `(.+)`$", page.read_text(), flags=re.MULTILINE)
    return {
        name: re.split(r"^#", text, flags=re.MULTILINE)[0] for name, text in zip(parts[1::2], parts[2::2], strict=True)
    }


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
    else:
        for name, found in inner.items():
            yield from _commands(found, f"{path} {name}")


def test_every_command_is_described_with_its_options() -> None:
    """cli.md has a section for each command, which names each of its options and no others."""
    page = ROOT / "docs" / "reference" / "cli.md"
    sections = _sections(page, "##")
    commands = dict(_commands(typer.main.get_command(make_app()), "worldledger"))
    assert set(sections) == set(commands)
    for name, command in commands.items():
        options = {opt for found in command.params for opt in found.opts if opt.startswith("--")}
        common = {"--database-url", "--home", "--quiet"}
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", sections[name]))
        assert options - common <= named, name
        assert named <= options, name
        if not name.startswith(
            ("worldledger config ", "worldledger kind new", "worldledger agent ")
        ):  # which need no database
            assert common - {"--quiet"} <= options, name


def test_every_method_of_the_client_is_described() -> None:
    """client.md names each public method of clients, worlds and handles, with those parameters that it has."""
    text = (ROOT / "docs" / "reference" / "client.md").read_text()
    for cls in (Client, RemoteHandle, Frame, Question):
        for name, method in inspect.getmembers(cls, inspect.isroutine):
            if name.startswith("_") or name in {"shut", "forget_handle", "generation", "generation_context"}:
                continue  # the last ones are for other parts of the client
            calls = re.findall(rf"`(?:[^`]*, `)?{name}\(([^)]*)\)", text)
            assert calls, f"{cls.__name__}.{name}"
            known = set(inspect.signature(method).parameters)
            for call in calls:
                assert set(re.findall(r"(\w+)=", call)) <= known, f"{cls.__name__}.{name}({call})"


def test_every_route_is_described() -> None:
    """http.md has a section for each route of the service, and for no other."""
    paths = create_app(Settings(), "postgresql://nobody@localhost/nothing").openapi()["paths"]
    routes = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(_sections(ROOT / "docs" / "reference" / "http.md", "###")) == routes


def test_every_error_is_in_the_table() -> None:
    """Every class of error of the project stands in errors.md, and no two have the same code."""
    waiting = [SimulationError]
    codes: dict[str, str] = {}
    text = (ROOT / "docs" / "reference" / "errors.md").read_text()
    while waiting:
        error = waiting.pop()
        waiting += error.__subclasses__()
        if not error.__module__.startswith(("worldledger", "service")):
            continue  # a test's own
        if error.__name__.startswith("_"):
            continue  # never leaves its module
        assert f"| `{error.code}` | `{error.__name__}` |" in text, f"{error.__name__}: run `make docs`"
        assert codes.setdefault(error.code, error.__name__) == error.__name__
