"""The documentation: its links lead somewhere and its tables are today's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from .project import ROOT, pages
from .tables import generated_pages, with_tables

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_KINDS = {"console", "python", "sql", "json", "text", "sh", "sse"}

by_page = pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())


def _anchors(page: Path) -> set[str]:
    """Give the anchors that a renderer makes of a page's headings."""
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


def test_generated_tables_are_today_s() -> None:
    """The tables made from errors and settings say what the code says; `make docs` writes them."""
    found = generated_pages()
    assert {page.name for page in found} == {"errors.md", "settings.md"}
    for page in found:
        assert page.read_text() == with_tables(page.read_text()), f"{page.relative_to(ROOT)}: run `make docs`"
