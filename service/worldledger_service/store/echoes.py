"""Echoes: what this process has just written to a world, for those in it that follow the world.

Whoever follows a world needs each effect that is written to it, and where this process has written it, it is here
already: reading it back would cost more than the write. An echo holds rows exactly as they were committed, the last
of a world only, and only while somebody follows the world. What others write, and what is too long ago, is read from
the database as ever. Audits always read the database.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from worldledger.chain import StoredEffect

#: Most bytes of texts that are kept for all worlds together, and how many effects of a world at least.
_MOST_BYTES: Final = 32 * 1024 * 1024
_MOST_ROWS: Final = 256


class Echo:
    """The last effects of one world, one after the other, as far as this process has written them."""

    __slots__ = ("_first", "_rows", "bytes", "followers")

    def __init__(self) -> None:
        #: how many follow the world
        self.followers = 0
        #: how much is here
        self.bytes = 0
        self._rows: list[StoredEffect] = []
        self._first = 0

    def add(self, before: int, rows: Sequence[StoredEffect]) -> None:
        """Take rows that were committed after ``before``."""
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
        """Forget what is here."""
        self._rows = []
        self.bytes = 0

    def after(self, seq: int, until: int) -> list[StoredEffect]:
        """Return the rows with seq < global_seq <= until, as far as they are here; none if the first of them is not."""
        start = seq + 1 - self._first
        return self._rows[start : until + 1 - self._first] if start >= 0 and until > seq else []


class Echoes:
    """The echoes of the worlds that are followed in this process."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self._bytes = 0
        #: the world that was written to last comes last
        self._echoes: OrderedDict[str, Echo] = OrderedDict()

    def follow(self, world_id: str) -> Echo:
        """Have a world's effects kept from now on, until `leave`."""
        echo = self._echoes.setdefault(world_id, Echo())
        echo.followers += 1
        return echo

    def leave(self, world_id: str) -> None:
        """Follow a world no more."""
        echo = self._echoes[world_id]
        echo.followers -= 1
        if not echo.followers:
            self._bytes -= echo.bytes
            del self._echoes[world_id]

    def __contains__(self, world_id: str) -> bool:
        return world_id in self._echoes

    def add(self, world_id: str, before: int, rows: Sequence[StoredEffect]) -> None:
        """Take rows that this process has committed after ``before``."""
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
