"""Recorded games read by several processes: reading a game takes several times as long as writing it.

Each process goes through all files, which is little work, and reads every n-th game of them. So the games come back in
their order without further coordination.
"""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from worldledger_service.cli.workers import processors, received, started

if TYPE_CHECKING:
    from worldledger_chess.store.reading import Item
    from worldledger_chess.store.recordings import FileEnd, Read, Reading

#: Bytes of all files from which on it pays to start further processes.
MANY_FROM: Final = 512 * 1024
#: Games of one message, and effects after which it is full. A pipe takes so much at once: the reader of a larger one
#: waits for the writer.
_GAMES: Final = 16
_EFFECTS: Final = 250
#: Messages that a process reads ahead of the writer.
_AHEAD: Final = 40


@contextmanager
def readers(paths: Iterable[Path], count: int | None = None, *, strict: bool = False) -> Iterator[Reading | None]:
    """Yield a reader of many games in ``count`` processes (default: the processors); None if the games are few.

    ``strict`` is as for `worldledger_chess.rules.pgn.read_games`. The processes are started at once: loading what
    they need takes about as long as opening a database.
    """
    if not _are_many(paths):
        yield None
        return
    with started(_read, (), count or processors()) as workers:
        yield partial(_reading, workers, strict)


def _are_many(paths: Iterable[Path]) -> bool:
    size = 0
    for file in _files(paths):
        with suppress(OSError):  # it will be told when it is read
            size += os.stat(file).st_size  # noqa: PTH116
        if size >= MANY_FROM:
            return True
    return False


def _files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield str(path)
        for folder, _, names in os.walk(path):
            yield from (f"{folder}/{name}" for name in names if name.lower().endswith(".pgn"))


@asynccontextmanager
async def _reading(
    workers: Sequence[tuple[BaseProcess, Connection]], strict: bool, files: Sequence[Path]
) -> AsyncIterator[AsyncIterator[Read | FileEnd]]:
    """Yield the games of files, in order."""
    for place, (_, connection) in enumerate(workers):
        connection.send((place, len(workers), list(map(str, files)), strict))
    yield _in_order([_items(*worker) for worker in workers], len(files))


async def _items(process: BaseProcess, connection: Connection) -> AsyncIterator[Read | FileEnd]:
    from worldledger_chess.store.recordings import FileEnd, Read  # noqa: PLC0415

    while True:
        for is_end, fields in await received(process, connection):
            if is_end:
                yield FileEnd(*fields)
            else:
                yield Read(*fields)


async def _in_order(streams: list[AsyncIterator[Read | FileEnd]], files: int) -> AsyncIterator[Read | FileEnd]:
    """Return the processes' results in the order that `_is_mine` defines."""
    from worldledger_chess.store.recordings import FileEnd  # noqa: PLC0415

    count = len(streams)
    for file in range(files):
        turn = file + 1
        while not isinstance(item := await anext(streams[turn % count]), FileEnd):
            yield item
            turn += 1
        for other in range(turn + 1, turn + count):
            # There is nothing before the end, unless the file was changed meanwhile.
            while not isinstance(more := await anext(streams[other % count]), FileEnd):
                yield more
        yield item


def _is_mine(place: int, count: int, file: int, game: int) -> bool:
    """Return True if the process at ``place`` reads a game; files of single games are shared out, too."""
    return (file + game) % count == place


# -- in a worker ---------------------------------------------------------------------------------------------


def _read(connection: Connection) -> None:
    from worldledger_chess.store.reading import games_of  # noqa: PLC0415 - for the processes alone

    messages: queue.Queue[list[Item] | None] = queue.Queue(_AHEAD)
    # A pipe has room for two or three games: without the thread reading would have to wait for writing.
    sender = threading.Thread(target=_send, args=(connection, messages), daemon=True)
    try:
        place, count, files, strict = connection.recv()
    except (EOFError, OSError):
        os._exit(1)
    sender.start()
    message: list[Item] = []
    effects = 0
    for number, file in enumerate(files):
        for item in games_of(number, file, partial(_is_mine, place, count, number), strict=strict):
            message.append(item)
            effects += 0 if item[0] else item[1][1].effects
            if len(message) >= _GAMES or effects >= _EFFECTS:
                messages.put(message)
                message, effects = [], 0
    messages.put(message)
    messages.put(None)
    sender.join()


def _send(connection: Connection, messages: queue.Queue[list[Item] | None]) -> None:
    try:
        while (message := messages.get()) is not None:
            connection.send(message)
    except OSError:  # the process that wanted the games is gone
        os._exit(1)
