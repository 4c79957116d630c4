"""What a command says: data on stdout, words on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class ReaderGoneError(Exception):
    """Whoever read our stdout has closed it; there is nothing more to do."""


def plain(text: str) -> str:
    """Give a text that may be shown on a terminal: characters that would steer it are written as escapes."""
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
    for line in text.splitlines():
        if _above:
            _above[-1](f"worldledger: {plain(line)}")
        else:
            sys.stderr.write(f"worldledger: {plain(line)}\n")
    sys.stderr.flush()


def put(line: str) -> None:
    """Write a line of text to stdout."""
    if _above and sys.stdout.isatty():
        _above[-1](plain(line))
        return
    try:
        sys.stdout.write(plain(line) + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


def put_bytes(data: bytes) -> None:
    """Write bytes to stdout as they are."""
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise ReaderGoneError from None


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
