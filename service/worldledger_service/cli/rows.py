"""Lists as tables: rows of aligned columns, a page at a time, so that no number of rows has to be held."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from worldledger_service.cli.layout import cut, fitted, screen_width, width
from worldledger_service.cli.output import put

#: No column is made wider than this for one long text.
_WIDEST: Final = 64
#: Spaces between two columns.
_GAP: Final = 2


def put_rows(header: Sequence[str] | None, rows: Sequence[Sequence[str]]) -> None:
    """Write a page of rows; the first one has a header. On a terminal each is a line of it, and long texts are cut."""
    rows = rows if header is None else [header, *rows]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    screen = screen_width()
    if screen is not None:
        widths = fitted([max(map(width, column)) for column in zip(*rows, strict=True)], screen, _GAP)
        rows = [[cut(*cell) for cell in zip(row, widths, strict=True)] for row in rows]
    for row in rows:
        _put_row(row, widths)


def _put_row(row: Sequence[str], widths: Sequence[int]) -> None:
    """Write aligned cells; what stands behind one that is too long goes on in the next line."""
    line, start = "", 0
    for text, size in zip(row, widths, strict=True):
        if len(line.rstrip()) > start:
            put(line.rstrip())
            line = ""
        line = line.ljust(start) + text + " " * _GAP
        start += size + _GAP
    put(line.rstrip())
