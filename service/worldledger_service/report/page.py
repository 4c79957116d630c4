"""The page: HTML that stands alone, made by ``templates/page.html``, which escapes what the data say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import count, groupby
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from worldledger_service.report.blocks import NUMERIC, Block, Column, Figure, Note, Table
from worldledger_service.report.charts import Lines
from worldledger_service.report.drawing import draw, require_drawing
from worldledger_service.report.wording import counted, moment, shown, writer

#: From how many characters on a name may be broken, so that its column is given room.
_LONG: Final = 32


def write_page(
    report: object, *, drawn: Callable[[int], object] = lambda number: None, template: str = "page.html"
) -> Iterator[str]:
    """Return a `Report` as HTML, piece by piece. ``drawn`` is told the number of each chart that has been drawn.

    Another ``template`` of this package makes a page of something else that has ``sections``.

    The same report is the same text; but for ``read_at``, which stands in one line, it follows from the log alone.
    Raises ExtraMissingError without matplotlib.
    """
    require_drawing()
    numbers = count(1)

    def drawing(figure: Figure) -> Markup:
        number = next(numbers)
        drawn(number)
        return Markup(draw(figure.chart, id=f"f{number}", title=shown(figure.title)))  # noqa: S704 - matplotlib's

    return _templates().get_template(template).generate(report=report, drawing=drawing)


@cache
def _templates() -> Environment:
    made = Environment(
        autoescape=True,
        keep_trailing_newline=True,
        loader=PackageLoader("worldledger_service.report"),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    made.filters |= {"cells": _cells, "counted": counted, "groups": _groups, "moment": moment, "shown": shown}
    made.filters["whole"] = "{:,}".format
    made.tests |= {"numeric": lambda column: column.kind in NUMERIC, "note": lambda block: isinstance(block, Note)}
    return made


def _groups(blocks: Sequence[Block]) -> Iterator[tuple[str | None, list[Block]]]:
    """Return blocks by how they stand beside their neighbours: figures in rows, those of one height evenly."""

    def group(block: Block) -> str | None:
        if not isinstance(block, Figure):
            return None
        return "figures even" if isinstance(block.chart, Lines) else "figures"

    return ((name, list(some)) for name, some in groupby(blocks, group))


def _cells(table: Table) -> Iterator[tuple[tuple[str, str], ...]]:
    """Return the rows of a table, each cell with its class and its text."""
    columns = []
    for column, values in zip(table.columns, zip(*table.rows, strict=True), strict=False):
        texts = [*map(writer(column.kind, values), values)]
        name = _class(column, texts)
        columns.append([(name, text) for text in texts])
    return zip(*columns, strict=True)


def _class(column: Column, texts: Sequence[str]) -> str:
    if column.kind == "code":
        return "code long" if max(map(len, texts)) > _LONG else "code"
    return "right" if column.kind in NUMERIC else {"hash": "hash", "time": "whole"}.get(column.kind, "")
