"""Room for large bodies: an allocation of orjson that fails ends the process, so there must be room before."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Callable
from functools import partial
from typing import Any, Final

#: Bytes of address space that orjson asks for at most, reading or writing: for each byte of a text, and when it writes,
#: for each character and for each value in it.
_PER_BYTE: Final = 140
_PER_CHARACTER: Final = 18
_PER_VALUE: Final = 300


class Room:
    """Shares the process's address space among requests with large bodies."""

    def __init__(self) -> None:
        self._taken = 0
        self._alone = asyncio.Lock()
        self._nobody = asyncio.Event()
        self._nobody.set()

    async def take(self, size: int) -> tuple[bool, Callable[[], None]]:
        """Wait for room for a body of ``size`` bytes; return whether it is plenty, and what gives it back.

        Who finds too little waits until the others have given theirs back, and is then alone.
        """
        needed = _PER_BYTE * size
        if not self._alone.locked() and _has_room(self._taken + needed):
            self._taken += needed
            self._nobody.clear()
            return True, partial(self._give_back, needed)
        await self._alone.acquire()
        try:
            await self._nobody.wait()
            return _has_room(needed), self._alone.release
        except BaseException:
            self._alone.release()
            raise

    def _give_back(self, needed: int) -> None:
        self._taken -= needed
        if not self._taken:
            self._nobody.set()


def check_room(value: Any) -> None:
    """Raise MemoryError where orjson may find no room for writing a value, or each element where it is a list."""
    needed = max(map(_needed, value), default=0) if type(value) is list else _needed(value)
    if not _has_room(needed):
        raise MemoryError


def _needed(value: Any) -> int:
    """Return how many bytes of address space orjson asks for at most when it writes a value."""
    values = characters = 0
    parts = [[value]]
    while parts:
        part = parts.pop()
        values += len(part)
        for item in part:
            kind = type(item)
            if kind is str:
                characters += len(item) if item.isascii() else 4 * len(item)
            elif kind is list:
                parts.append(item)
            elif kind is dict:
                parts += [list(item), list(item.values())]
    return _PER_VALUE * values + _PER_CHARACTER * characters


def _has_room(size: int) -> bool:
    """Tell whether the process could have so much more address space."""
    try:
        mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except (OSError, OverflowError):
        return False
    return True
