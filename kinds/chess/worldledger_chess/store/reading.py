"""Reading the games of one file, whatever becomes of it. Without the store, which takes a while to load."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from worldledger.errors import FileRefusedError
from worldledger_chess.rules.pgn import read_games

#: The fields of a `worldledger_chess.store.recordings.Read` or `FileEnd`, and whether they are those of an end.
Item: TypeAlias = tuple[bool, tuple[Any, ...]]


def games_of(
    number: int, file: str, wanted: Callable[[int], bool] | None = None, *, strict: bool = False
) -> Iterator[Item]:
    """Yield the games of a file, those whose numbers are wanted (by default all), and its end."""
    size, read = 0, False
    refused: tuple[str, int | None] | None = None
    try:
        if not stat.S_ISREG(os.stat(file).st_mode):  # noqa: PTH116 - the very path that is named in what is told
            refused = "not a regular file: give files and folders", None
        else:
            with open(file, "rb") as stream:  # noqa: PTH123
                size, read = os.fstat(stream.fileno()).st_size, True
                for game in read_games(stream, name=file, wanted=wanted, checked=True, strict=strict):
                    yield False, (number, game, stream.tell())
    except FileRefusedError as error:
        refused = error.reason, error.details.get("line")
    except OSError as error:
        refused = f"the file cannot be read ({error.strerror or error})", None
    yield True, (number, size, read, refused)
