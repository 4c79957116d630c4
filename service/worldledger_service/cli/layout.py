"""Text for people: values on one line, aligned columns, and colours on a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from worldledger_service.cli.output import plain, put, put_bytes

#: A piece of a line: the text, and the name of a style ("" for none).
Piece = tuple[str, str]

#: Longest value that is shown whole.
_MOST: Final = 160
#: No column is made narrower than this so that others fit.
_NARROWEST: Final = 8
#: Columns of a tree that is not shown on a terminal.
COLUMNS: Final = 80
#: Most columns of the lines that lead to a node of a tree: the rest is for the node.
_MOST_INDENT: Final = 40
#: Lines that are written at once.
_AT_ONCE: Final = 500
_STYLES: Final = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


def put_lines(lines: Iterable[Sequence[Piece]]) -> None:
    """Write lines to stdout. Control characters are shown as escapes; a terminal that has colours shows styles."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") not in {None, "dumb"}
    waiting: list[str] = []
    for line in lines:
        waiting.append("".join(_painted(piece, coloured=coloured) for piece in line).rstrip() + "\n")
        if len(waiting) == _AT_ONCE:
            _write(waiting)
            waiting = []
    _write(waiting)


def _painted(piece: Piece, *, coloured: bool) -> str:
    text = plain(piece[0])
    return f"\x1b[{_STYLES[piece[1]]}m{text}\x1b[0m" if coloured and piece[1] and text else text


def _write(lines: list[str]) -> None:
    put_bytes("".join(lines).encode(sys.stdout.encoding or "utf-8", "backslashreplace"))


def guide(text: str) -> Piece:
    """Return the lines that lead to a node of a tree, cut at their beginning if it lies very deep."""
    return (text if len(text) <= _MOST_INDENT else "…" + text[1 - _MOST_INDENT :], "dim")


def cut_line(line: list[Piece], most: int) -> list[Piece]:
    """Return a line, cut after so many columns."""
    line = [(plain(text), style) for text, style in line]
    if sum(width(text) for text, _ in line) <= most:
        return line
    kept: list[Piece] = []
    left = most - 1
    for text, style in line:
        shown = text
        while width(shown) > left:
            shown = shown[:-1]
        kept.append((shown, style))
        left -= width(shown)
        if shown != text:
            break
    return [*kept, ("…", "")]


def screen_width() -> int | None:
    """Return the width of the terminal; None if stdout is none, so that a line stays a line for grep."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def shown(value: Any, most: int = _MOST) -> str:
    """Return a JSON value as one line, cut after ``most`` characters."""
    if isinstance(value, str) and len(value) > most:
        value = value[: most + 1]
    text = plain(json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True))
    return cut(text, most)


def cut(text: str, most: int) -> str:
    """Return a text, cut after ``most`` characters."""
    return text if len(text) <= most else text[: max(most - 1, 0)] + "…"


def fitted(widths: Sequence[int], screen: int, gap: int) -> list[int]:
    """Return the widths of columns, the widest ones made narrower, so that they and the gaps between fit a screen."""
    widths = list(widths)
    over = sum(widths) + gap * (len(widths) - 1) - screen
    while over > 0 and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
        over -= 1
    return widths


def width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 - loaded where it is needed

    return cell_len(text)


def fields(values: Mapping[str, Any], *, but: frozenset[str] = frozenset()) -> list[str]:
    """Return an object's members as pieces ``name value``, by name."""
    return [f"{plain(name)} {shown(value)}" for name, value in sorted(values.items()) if name not in but]


def table(rows: Sequence[Sequence[str | Sequence[str]]], *, style: str = "", indent: int = 2) -> Iterator[list[Piece]]:
    """Lay out rows in aligned columns; the last cell of a row is a list of pieces, which may take several lines.

    The first column is shown in ``style``.
    """
    count = len(rows[0]) - 1 if rows else 0
    widths = [max(width(str(row[column])) for row in rows) for column in range(count)]
    for row in rows:
        line: list[Piece] = [(" " * indent, "")]
        for column, size in enumerate(widths):
            text = str(row[column])
            line.append((text + " " * (size - width(text) + 2), "" if column else style))
        used = indent + sum(widths) + 2 * len(widths)
        for number, text in enumerate(_filled(row[-1], used)):
            yield [*line, (text, "")] if number == 0 else [(" " * used + text, "")]


def _filled(pieces: str | Sequence[str], used: int) -> Iterator[str]:
    """Join pieces to lines that fit beside the ``used`` columns, without breaking a piece."""
    pieces = [pieces] if isinstance(pieces, str) else pieces
    screen = screen_width()
    room = None if screen is None else max(screen - used, 20)
    line = ""
    for number, piece in enumerate(pieces):
        text = piece if number == len(pieces) - 1 else f"{piece}, "
        if room is not None and line and width(line) + width(text.rstrip()) > room:
            yield line
            line = ""
        line += text
    yield line


# -- lists, a page at a time ---------------------------------------------------------------------------------

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
    """Write aligned cells; after a cell that is too long, the rest continues on the next line."""
    line, start = "", 0
    for text, size in zip(row, widths, strict=True):
        if len(line.rstrip()) > start:
            put(line.rstrip())
            line = ""
        line = line.ljust(start) + text + " " * _GAP
        start += size + _GAP
    put(line.rstrip())
