"""The page: it stands alone, a reader's tools find their way in it, and nothing in the data is taken for markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from .conftest import ODD
from .helpers import Page, page_of, read, references, text_of

pytestmark = pytest.mark.group("report")

#: With everything; with sums over many worlds; with nothing; with odd names.
EXPERIMENTS = {"examples": "examples", "many": "many", "empty": "empty", "odd": ODD}


@pytest.fixture(scope="module", params=[*EXPERIMENTS.values()], ids=[*EXPERIMENTS])
def page(request: pytest.FixtureRequest, page_for: Callable[[str], Page]) -> Page:
    """Return the page of an experiment."""
    return page_for(request.param)


def test_it_refers_to_nothing_outside(page: Page) -> None:
    """No script, no handler, no address: only places in the page itself; and a policy forbids the rest."""
    assert {value for value in references(page) if not value.startswith("#")} == set()
    assert not re.search(r"url\((?!#)|@import|https?:|<script|javascript:", page.text)
    tags = {element.tag for element in page.root.iter()}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "form", "base", "image"}
    assert not [name for element in page.root.iter() for name in element.attrib if name.startswith("on")]
    (policy,) = (one for one in page.all("meta") if one.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in str(policy.get("content"))
    assert "script-src" not in str(policy.get("content"))


def test_what_is_referred_to_is_there_once(page: Page) -> None:
    """Ids are unique, also those of plots, and everything that is referred to is there."""
    ids = [element.attrib["id"] for element in page.root.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids))
    named = {value.removeprefix("#") for value in references(page)}
    for element in page.root.iter():
        named.update(re.findall(r"url\(#([^)]+)\)", " ".join(element.attrib.values())))
        named.update(element.get("aria-labelledby", "").split())
    assert named <= set(ids)


def test_it_can_be_read_without_seeing_it(page: Page) -> None:
    """A language, headings, captions and scopes in every table; every plot is an image with title and description."""
    assert page.root.get("lang") == "en"
    assert len(page.all("h1")) == len(page.all("main")) == 1
    for table in page.all("table"):
        assert text_of(table.find("caption"))
        assert {cell.get("scope") for cell in table.findall("thead/tr/th")} == {"col"}
        for row in table.findall("tbody/tr"):
            assert [cell.get("scope") for cell in row][:1] == ["row"]
            assert len(row) == len(table.findall("thead/tr/th"))
    for plot in page.all("svg"):
        assert plot.get("role") == "img"
        title, said = (text_of(plot.find(name)) for name in ("title", "desc"))
        assert title
        assert len(said) > 20


def test_plots_are_small_and_their_text_is_text(page: Page) -> None:
    """Text is selectable, of 11 px and more at the width of a telephone; the file has a bounded size."""
    assert len(page.text.encode()) < 400_000
    for plot in page.all("svg"):
        assert float(str(plot.get("width"))) <= 340
        sizes = [float(size) for one in plot.iter("text") for size in re.findall(r"([\d.]+)px", str(one.attrib))]
        assert sizes
        assert min(sizes) >= 12
        assert "DejaVuSans-" not in str([one.get("id") for one in plot.iter()])


class _Tags(HTMLParser):
    """What a parser of HTML, not XML, makes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        """Take an element without content."""


def test_it_is_html(page: Page) -> None:
    """A parser of HTML closes every element where it was opened."""
    parser = _Tags()
    parser.feed(page.text)
    parser.close()
    assert parser.open == []
    assert page.text.startswith("<!DOCTYPE html>")


def test_names_are_shown_and_never_obeyed(page_for: Callable[[str], Page]) -> None:
    """Names that look like markup, mathematics or control characters stand as they are, or as escapes."""
    page = page_for(ODD)
    assert text_of(page.all("h1")[0]) == f"Experiment {ODD}"
    assert {row[1] for row in page.table("Runs")} == {ODD, "_b$b$"}
    drawn = {text_of(one) for one in page.all("svg//text")}
    for name in (ODD, "_b$b$", f"Role+{ODD}", "Role+$x^2$ \\frac", "_Hid+_den", "Ctl+a\\x01\\x1bb\\u202e", "$b$"):
        assert name in drawn
    assert any(name.startswith("LLLLLL") and name.endswith("…") for name in drawn)
    agents = [row[0] for row in page.table("Who was referred to and answered")]
    assert "Ctl+a\\x01\\x1bb\\u202e" in agents


def test_the_same_log_is_the_same_page(ledger: str, page_for: Callable[[str], Page]) -> None:
    """Two reports of one log differ in the line that says when it was read, and in nothing else."""
    again = read(ledger, ODD)
    again = replace(again, read_at=again.read_at + timedelta(days=1))
    lines = zip(page_for(ODD).text.split("\n"), page_of(again).text.split("\n"), strict=True)
    assert [first.partition("Read")[0] for first, second in lines if first != second] == ['<p class="made">']


def test_what_is_behind_is_said(ledger: str) -> None:
    """A report that lacks something says what, above everything else, and what to do about it."""
    report = read(ledger, "games")
    assert "were up to date" in page_of(report).text
    todo = ["worldledger projections resume games", "worldledger project --once"]
    page = page_of(replace(report, behind=["games: 3 effects behind in 1 world"], todo=todo))
    (warning,) = (one for one in page.all("header/div") if one.get("class") == "warning")
    assert "games: 3 effects behind in 1 world" in text_of(warning)
    assert "Run worldledger projections resume games and worldledger project --once, and make it" in text_of(warning)
