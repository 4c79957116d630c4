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


def say(text: str) -> None:
    """Say something to the user, on stderr."""
    sys.stderr.write("".join(f"worldledger: {plain(line)}\n" for line in text.splitlines()))
    sys.stderr.flush()


def put(line: str) -> None:
    """Write a line of text to stdout."""
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
