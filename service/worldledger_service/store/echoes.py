"""Echoes: what this process has just written to a world, for its followers in this process.

A follower of a world needs each effect that is written to it, and if this process has written it, it is in memory
already: reading it back would cost more than the write. An echo holds rows exactly as they were committed, only the
last of a world, and only while the world is followed. Effects of other processes, and older ones, are read from the
database. Audits always read the database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from worldledger.chain import StoredEffect

#: Most bytes of texts that are kept for all worlds together, and the least number of effects of a world that are kept.
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_ROWS: Final = 256


class Echo:
    """The last effects of one world, consecutive, as far as this process has written them."""

    __slots__ = ("_first", "_rows", "bytes", "followers")

    def __init__(self) -> None:
        #: the number of followers of the world
        self.followers = 0
        #: the bytes in this echo
        self.bytes = 0
        self._rows: list[StoredEffect] = []
        self._first = 0

    def add(self, before: int, rows: Sequence[StoredEffect]) -> None:
        """Add rows that were committed after ``before``."""
        if before != self._first + len(self._rows) - 1:
            self.clear()
            self._first = before + 1
        self._rows += rows
        self.bytes += _size(rows)
        if len(self._rows) > 2 * _MOST_ROWS:
            self.bytes -= _size(self._rows[:-_MOST_ROWS])
            self._first += len(self._rows) - _MOST_ROWS
            del self._rows[:-_MOST_ROWS]

    def clear(self) -> None:
        """Drop all rows."""
        self._rows = []
        self.bytes = 0

    def after(self, seq: int, until: int) -> list[StoredEffect]:
        """Return the rows with seq < global_seq <= until, as far as they are here; none if the first is missing."""
        start = seq + 1 - self._first
        return self._rows[start : until + 1 - self._first] if start >= 0 and until > seq else []


class Echoes:
    """The echoes of the worlds that are followed in this process."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        #: the most recently written world comes last
        self._echoes: OrderedDict[str, Echo] = OrderedDict()

    def follow(self, world_id: str) -> Echo:
        """Keep a world's effects from now on, until `leave`."""
        echo = self._echoes.setdefault(world_id, Echo())
        echo.followers += 1
        return echo

    def leave(self, world_id: str) -> None:
        """End one `follow` of a world."""
        echo = self._echoes[world_id]
        echo.followers -= 1
        if not echo.followers:
            self._bytes -= echo.bytes
            del self._echoes[world_id]

    def __contains__(self, world_id: str) -> bool:
        return world_id in self._echoes

    def add(self, world_id: str, before: int, rows: Sequence[StoredEffect]) -> None:
        """Add rows that this process has committed after ``before``."""
        echo = self._echoes[world_id]
        self._bytes -= echo.bytes
        echo.add(before, rows)
        self._bytes += echo.bytes
        self._echoes.move_to_end(world_id)
        if self._bytes > self._most_bytes:
            self._make_room()

    def _make_room(self) -> None:
        for echo in self._echoes.values():
            self._bytes -= echo.bytes
            echo.clear()
            if self._bytes <= self._most_bytes:
                return


def _size(rows: Sequence[StoredEffect]) -> int:
    return sum(len(row.text) for row in rows)
