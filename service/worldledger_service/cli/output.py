"""Output of commands: data on stdout, messages and progress on stderr; values, tables and colours for people."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TextIO

from worldledger.errors import SimulationError, on_one_line


class ReaderGoneError(Exception):
    """The reader of stdout has closed it, so the command ends."""


def plain(text: str) -> str:
    """Return a text that is safe on a terminal: control characters are written as escapes."""
    return on_one_line(text)


def counted(number: int, what: str) -> str:
    """Return a number of things in words: ``1 world``, ``2 worlds``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


#: While a progress bar is shown: functions that print a line above it.
_above: list[Callable[[str], object]] = []


@contextmanager
def above(printer: Callable[[str], object]) -> Iterator[None]:
    """Print lines for a terminal by ``printer``, so that they do not run into a progress bar."""
    _above.append(printer)
    try:
        yield
    finally:
        _above.remove(printer)


def say(text: str) -> None:
    """Write a message to the user, on stderr."""
    for line in text.splitlines():
        say_line(line)


def say_line(text: str) -> None:
    """Write a message of one line, on stderr: a line break in it, from a name in the database say, is an escape."""
    try:
        if _above:
            _above[-1](f"worldledger: {plain(text)}")
        else:
            sys.stderr.write(f"worldledger: {plain(text)}\n")
        sys.stderr.flush()
    except OSError:  # a message that cannot be written must not end the work
        _give_up(sys.stderr)


def failed_check(world_id: str, error: Exception) -> str:
    """Return the message about a world whose check ended with an error that nobody expects."""
    *_, frame = traceback.extract_tb(error.__traceback__)
    what = on_one_line(f"{world_id}: {type(error).__name__}: {error}")
    return f"not checked: {what} ({Path(frame.filename).name}, line {frame.lineno})"


class Above:
    """A stream for log lines: stderr, above a progress bar."""

    def write(self, text: str) -> None:
        """Write whole lines."""
        if _above:
            _above[-1](text.removesuffix("\n"))
            return
        try:
            sys.stderr.write(text)
        except OSError:
            _give_up(sys.stderr)

    def flush(self) -> None:
        """Write what is left."""
        try:
            sys.stderr.flush()
        except OSError:
            _give_up(sys.stderr)


def put(line: str) -> None:
    """Write a line of text to stdout."""
    if _above and sys.stdout.isatty():
        _above[-1](plain(line))
        return
    with _stdout():
        sys.stdout.write(plain(line) + "\n")
        sys.stdout.flush()


def put_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    with _stdout():
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def flush() -> None:
    """Flush stdout after writers that do not (`--help`, say), so that nothing fails at the exit."""
    with _stdout():
        sys.stdout.flush()


@contextmanager
def _stdout() -> Iterator[None]:
    """Raise ReaderGoneError if stdout was closed by its reader, SimulationError if it cannot be written."""
    try:
        yield
    except OSError as error:
        _give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        raise SimulationError(f"stdout cannot be written ({error.strerror or error})") from None


def _give_up(stream: TextIO) -> None:
    """Discard a stream's buffer: at the exit it would be written again, and fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def json_list() -> Iterator[Callable[[Any], None]]:
    """Yield a function that writes items to a JSON list on stdout at once, one a line."""
    items = 0

    def item(value: Any) -> None:
        nonlocal items
        put_bytes((",\n" if items else "[\n").encode() + json.dumps(value, ensure_ascii=False).encode())
        items += 1

    yield item
    put_bytes(b"\n]\n" if items else b"[]\n")


# -- progress ------------------------------------------------------------------------------------------------

#: Reports progress: how much is done, how much there is in all (None: not known), and a remark to show.
Tell = Callable[[float, float | None, str], None]

#: Seconds until a bar is shown: shorter work needs none. The variable is for tests.
_SHOWN_AFTER = float(os.environ.get("WORLDLEDGER_BAR_AFTER", "0.3"))


def effects(tell: Tell) -> Callable[[int, int], None]:
    """Return a function that reports how many effects are done, and of how many."""
    return lambda done, total: tell(done, total, f"{done} effects")


@contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Tell]:
    """Yield a function that moves the bar; without a terminal it does nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, remark: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and only people look at it
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[remark]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    # The rest is for the bar and for what stands behind it.
    label = cut_inside(label, console.width // 2)

    def print_above(line: str) -> None:  # as it is: neither wrapped nor coloured, so that it can be copied
        console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)

    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task(label, total=None, remark="")
    show_at = time.monotonic() + _SHOWN_AFTER

    def tell(done: float, total: float | None, remark: str) -> None:
        bar.update(task, completed=done, total=total, remark=remark)
        if not bar.live.is_started and time.monotonic() >= show_at:
            bar.start()

    with above(print_above):
        try:
            yield tell
        finally:
            bar.stop()


# -- text for people: values on one line, aligned columns, and colours on a terminal ----------------------


#: A piece of a line: the text, and the name of a style ("" for none).
Piece = tuple[str, str]

#: Longest value that is shown whole.
_MOST: Final = 160
#: No column is made narrower than this so that others fit.
_NARROWEST: Final = 8
#: A name of fewer columns does not tell which of an experiment's worlds, or of an agent's variables, it is.
_TELLING: Final = 28
#: Columns of a tree that is not shown on a terminal.
COLUMNS: Final = 80
#: Most columns of the lines that lead to a node of a tree: the rest is for the node.
_MOST_INDENT: Final = 40
#: A word with the blanks behind it, or blanks.
_WORD: Final = re.compile(r"\S+\s*|\s+")
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


def put_fitted(lines: Iterable[list[Piece]], otherwise: int | None = None) -> None:
    """Write lines that fit the terminal: those of text are broken between words, rows and branches are cut.

    Where stdout is none, they fit ``otherwise`` so many columns (None: any).
    """
    most = screen_width() or otherwise
    put_lines(lines if most is None else (fit for line in lines for fit in fitting(line, most)))


def put_text(line: str) -> None:
    """Write a line of text; on a terminal it is broken between words."""
    most = screen_width()
    put_lines([[(line, "")]] if most is None else broken([(line, "")], most))


def fitting(line: list[Piece], most: int) -> Iterator[list[Piece]]:
    """Return a line as lines of so many columns; a longer word stays whole."""
    if sum(width(plain(text)) for text, _ in line) <= most:
        yield line
    elif line[0][1] == "dim" or line[0][0].startswith(" "):
        yield cut_line(line, most)
    else:
        yield from broken(line, most)


def broken(line: list[Piece], most: int) -> Iterator[list[Piece]]:
    """Return a line as lines of so many columns, broken between words; a longer word stays whole."""
    begun: list[Piece] = []
    used = 0
    indent = " " * (len(line[0][0]) - len(line[0][0].lstrip()) + 2)
    for text, style in line:
        for word in _WORD.findall(plain(text)):
            if begun and used + width(word.rstrip()) > most:
                yield begun
                begun, used = [(indent, "")], len(indent)
            begun.append((word, style))
            used += width(word)
    yield begun


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


def cut_inside(name: str, most: int) -> str:
    """Return a name, cut in the middle, so that both of its ends are seen."""
    behind = max(most - 1, 0) // 2
    return name if len(name) <= most or behind == 0 else f"{name[: most - 1 - behind]}…{name[-behind:]}"


def fitted(widths: Sequence[int], screen: int, gap: int, name: int = _NARROWEST) -> list[int]:
    """Return the widths of columns, the widest ones made narrower, so that they and the gaps between fit a screen.

    The first one keeps ``name`` columns, as long as the others can be made narrower.
    """
    widths = list(widths)
    over = sum(widths) + gap * (len(widths) - 1) - screen
    for least in (name, _NARROWEST):
        while over > 0:
            wide = [at for at, each in enumerate(widths) if each > (_NARROWEST if at else least)]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
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


def table(
    rows: Sequence[Sequence[str | Sequence[str]]], *, style: str = "", indent: int = 2, otherwise: int | None = None
) -> Iterator[list[Piece]]:
    """Lay out rows in aligned columns; the last cell of a row is a list of pieces, which may take several lines.

    The first column is shown in ``style``. On a terminal, and elsewhere in ``otherwise`` columns, long texts are cut,
    those of the first column last: they are names.
    """
    count = len(rows[0]) - 1 if rows else 0
    widths = [max(width(str(row[column])) for row in rows) for column in range(count)]
    screen = screen_width() or otherwise
    if screen is not None and rows:
        widest = max(width(piece) for row in rows for piece in _pieces(row[-1]))
        widths = fitted([*widths, widest], screen - indent, 2, _TELLING)[:-1]
    for row in rows:
        line: list[Piece] = [(" " * indent, "")]
        for column, size in enumerate(widths):
            text = _within(str(row[column]), size)
            line.append((text + " " * (size - width(text) + 2), "" if column else style))
        used = indent + sum(widths) + 2 * len(widths)
        for number, text in enumerate(_filled(row[-1], used, screen)):
            yield [*line, (text, "")] if number == 0 else [(" " * used + text, "")]


def _pieces(cell: str | Sequence[str]) -> Sequence[str]:
    return [cell] if isinstance(cell, str) else cell


def _within(text: str, most: int) -> str:
    """Return a text, cut after so many columns."""
    return text if width(text) <= most else "".join(piece for piece, _ in cut_line([(text, "")], most))


def _filled(pieces: str | Sequence[str], used: int, screen: int | None) -> Iterator[str]:
    """Join pieces to lines that fit beside the ``used`` columns, without breaking a piece."""
    pieces = _pieces(pieces)
    room = None if screen is None else max(screen - used, 20)
    line = ""
    for number, piece in enumerate(pieces):
        text = piece if number == len(pieces) - 1 else f"{piece}, "
        if room is not None:
            text = _within(piece, room - len(text[len(piece) :].rstrip())) + text[len(piece) :]
            if line and width(line) + width(text.rstrip()) > room:
                yield line.rstrip()
                line = ""
        line += text
    yield line.rstrip()


# -- lists, a page at a time ---------------------------------------------------------------------------------

#: No column is made wider than this for one long text.
_WIDEST: Final = 64
#: Of the last column less says too little: another column goes before.
_SAYING: Final = 16
#: Spaces between two columns.
_GAP: Final = 2


def put_rows(header: Sequence[str] | None, rows: Sequence[Sequence[str]], spare: Sequence[int] = ()) -> None:
    """Write a page of rows; the first one has a header. On a terminal each is a line of it, and long texts are cut.

    Names, in the first column, are cut in the middle: those of games differ at their ends. The columns ``spare`` are
    left out, one after the other, on a terminal that is too narrow for them beside whole names; before that the last
    column is cut.
    """
    rows = rows if header is None else [header, *rows]
    widths = [min(_WIDEST, max(map(len, column))) for column in zip(*rows, strict=True)]
    screen = screen_width()
    if screen is not None:
        kept, widths = _laid_out([list(map(width, column)) for column in zip(*rows, strict=True)], screen, spare)
        cells = [[row[column] for column in kept] for row in rows]
        rows = [[cut_inside(row[0], widths[0]), *map(cut, row[1:], widths[1:])] for row in cells]
    for row in rows:
        _put_row(row, widths)


def _laid_out(columns: Sequence[Sequence[int]], screen: int, spare: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return which columns fit a screen, given the widths of their cells, and how wide they are.

    With ``spare`` columns the first one is as wide as the widest of its cells that fits the screen by itself, if not
    wider.
    """
    whole = [max(column) for column in columns]
    kept = [*range(len(whole))]
    if spare:
        whole[0] = max([min(whole[0], _TELLING), *(cell for cell in columns[0] if cell <= screen)])
    for column in spare:
        *others, last = [whole[each] for each in kept]
        least = _NARROWEST if column == kept[-1] else _SAYING
        if sum(others) + _GAP * len(others) + min(last, least) <= screen:
            break
        kept.remove(column)
    widths = [whole[column] for column in kept]
    over = sum(widths) + _GAP * (len(widths) - 1) - screen
    if spare and over > 0:
        widths[-1] = max(widths[-1] - over, min(widths[-1], _NARROWEST))
    elif spare:
        widths[0] = min(widths[0] - over, max(columns[0]))
    return kept, fitted(widths, screen, _GAP)


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
