"""Looks into a report as a reader's tools do: its tables, its plots, and what it refers to."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

import asyncpg
from worldledger_service.report.blocks import Report
from worldledger_service.report.experiment import make_report
from worldledger_service.report.page import write_page


class Page(NamedTuple):
    """A page: its text, and its tree."""

    text: str
    root: ET.Element

    def all(self, path: str) -> list[ET.Element]:
        """Find elements."""
        return self.root.findall(f".//{path}")

    def table(self, caption: str) -> list[list[str]]:
        """Return the cells of the table of that caption, row by row, without its headings."""
        (table,) = (one for one in self.all("table") if text_of(one.find("caption")) == caption)
        return [[text_of(cell) for cell in row] for row in table.findall("tbody/tr")]

    def figure(self, title: str) -> ET.Element:
        """Return the figure of that title."""
        (figure,) = (one for one in self.all("figure") if text_of(one.find("figcaption")) == title)
        return figure


def text_of(element: ET.Element | None) -> str:
    """Return the text of an element and of all in it."""
    assert element is not None
    return "".join(element.itertext())


def page_of(report: Report) -> Page:
    """Write a report."""
    text = "".join(write_page(report))
    return Page(text, ET.fromstring(text))


def read(url: str, experiment: str) -> Report:
    """Make a report."""
    return asyncio.run(make_report(url, experiment))


def rows(url: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Ask the database."""

    async def ask() -> list[tuple[Any, ...]]:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(query, *values)]
        finally:
            await connection.close()

    return asyncio.run(ask())


def numbers(report: Report) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every table and figure, by its id."""
    return {
        block["id"]: block["rows"]
        for section in report.document()["sections"]
        for block in (*section["tables"], *section["figures"])
    }


def references(page: Page) -> Iterator[str]:
    """Return whatever a browser might load or follow from a page."""
    for element in page.root.iter():
        for name, value in element.attrib.items():
            if name in {"src", "href", "data", "action", "poster", "srcset"} or name.endswith("}href"):
                yield value
