"""Output of commands: data on stdout, messages and progress on stderr."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from worldledger.errors import SimulationError


class ReaderGoneError(Exception):
    """The reader of stdout has closed it, so the command ends."""


def plain(text: str) -> str:
    """Return a text that is safe on a terminal: control characters are written as escapes."""
    return text if text.isprintable() else "".join(map(_shown, text))


def counted(number: int, what: str) -> str:
    """Return a number of things in words: ``1 world``, ``2 worlds``."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


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
    try:
        for line in text.splitlines():
            if _above:
                _above[-1](f"worldledger: {plain(line)}")
            else:
                sys.stderr.write(f"worldledger: {plain(line)}\n")
        sys.stderr.flush()
    except OSError:  # a message that cannot be written must not end the work
        _give_up(sys.stderr)


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
