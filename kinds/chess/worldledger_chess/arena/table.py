"""A table: one game that is in memory here, and who is at it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_chess.arena.record import Record


class Table:
    """One game in memory: its record, which goes on as the log does, and who needs it to stay here."""

    def __init__(self, record: Record) -> None:
        self.record = record
        #: when it was last asked for, in epoch seconds
        self.asked_at = 0.0
        #: what has ended the following of the game: its log is damaged, or the arena closes
        self.error: SimulationError | None = None
        #: calls that are under way, and those who watch
        self.users = 0
        self.watchers = 0
        #: whether players of this process are at it
        self.driven = False
        self._writing: Counter[tuple[str, str]] = Counter()
        self._stirred = asyncio.Event()

    @property
    def game_id(self) -> str:
        """The game."""
        return self.record.game_id

    @property
    def needed(self) -> bool:
        """Whether somebody here needs it to stay in memory."""
        return self.driven or self.users > 0 or self.watchers > 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Have it stay until the end of the block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Have it stay until the end of the block, for somebody who watches."""
        self.watchers += 1
        try:
            yield
        finally:
            self.watchers -= 1

    @contextmanager
    def writing(self, request: tuple[str, str]) -> Iterator[None]:
        """Count a request, of a source and by its req_id, as under way until the end of the block."""
        self._writing[request] += 1
        try:
            yield
        finally:
            self._writing -= Counter((request,))  # which keeps what is left above zero

    def is_writing(self, request: tuple[str, str]) -> bool:
        """Tell whether such a request is under way, whether its caller still waits or not."""
        return request in self._writing

    def stir(self) -> None:
        """Wake all who wait for a change."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    def end(self, error: SimulationError) -> None:
        """Take note that it goes on no more; who waits is told."""
        if self.error is None:
            self.error = error
        self.stir()

    def raise_if_ended(self) -> None:
        """Raise what has ended the following."""
        if self.error is not None:
            raise self.error

    async def changed(self) -> None:
        """Wait for the next change. Raises what ends the following."""
        self.raise_if_ended()
        await self._stirred.wait()
        self.raise_if_ended()

    async def reached(self, seq: int) -> None:
        """Wait until the record has an effect. Raises what ends the following."""
        while self.record.seq < seq:
            await self.changed()
