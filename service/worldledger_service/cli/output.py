"""What a command says: data on stdout, words on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from worldledger.errors import SimulationError


class ReaderGoneError(Exception):
    """Whoever read our stdout has closed it; there is nothing more to do."""


def plain(text: str) -> str:
    """Return a text that may be shown on a terminal: characters that would steer it are written as escapes."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()


#: Prints a line above what moves on the terminal, while something does.
_above: list[Callable[[str], object]] = []


@contextmanager
def above(printer: Callable[[str], object]) -> Iterator[None]:
    """Have lines that go to a terminal printed by ``printer``, so that they do not run into a progress bar."""
    _above.append(printer)
    try:
        yield
    finally:
        _above.remove(printer)


def say(text: str) -> None:
    """Say something to the user, on stderr."""
    try:
        for line in text.splitlines():
            if _above:
                _above[-1](f"worldledger: {plain(line)}")
            else:
                sys.stderr.write(f"worldledger: {plain(line)}\n")
        sys.stderr.flush()
    except OSError:  # words that nobody can hear must not end the work
        _give_up(sys.stderr)


class Above:
    """A stream for what is logged: stderr, but above what moves on the terminal."""

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
    """Write what others (`--help`, say) have left in stdout's buffer, so that nothing is left to fail at the exit."""
    with _stdout():
        sys.stdout.flush()


@contextmanager
def _stdout() -> Iterator[None]:
    """Raise ReaderGoneError where stdout is closed by its reader, SimulationError where it cannot be written."""
    try:
        yield
    except OSError as error:
        _give_up(sys.stdout)
        if isinstance(error, BrokenPipeError):
            raise ReaderGoneError from None
        raise SimulationError(f"stdout cannot be written ({error.strerror or error})") from None


def _give_up(stream: TextIO) -> None:
    """Let what is in a stream's buffer go nowhere: at the exit it would be written again, and fail again."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


@contextmanager
def json_list() -> Iterator[Callable[[Any], None]]:
    """Lend a function that writes items to a JSON list on stdout, one a line, at once."""
    items = 0

    def item(value: Any) -> None:
        nonlocal items
        put_bytes((",\n" if items else "[\n").encode() + json.dumps(value, ensure_ascii=False).encode())
        items += 1

    yield item
    put_bytes(b"\n]\n" if items else b"[]\n")
