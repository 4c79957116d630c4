"""A table: one game in memory, and its users in this process."""

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
    """One game in memory: its record, which follows the log, and the reasons to keep it in memory."""

    def __init__(self, record: Record) -> None:
        self.record = record
        #: when it was last requested, in epoch seconds
        self.asked_at = 0.0
        #: the error that has ended the following of the game: its log is damaged, or the arena closes
        self.error: SimulationError | None = None
        #: calls that are under way, and watchers
        self.users = 0
        self.watchers = 0
        #: whether players of this process play it
        self.driven = False
        self._writing: Counter[tuple[str, str]] = Counter()
        self._stirred = asyncio.Event()

    @property
    def game_id(self) -> str:
        """The game's id."""
        return self.record.game_id

    @property
    def needed(self) -> bool:
        """True if it is needed in memory here."""
        return self.driven or self.users > 0 or self.watchers > 0

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep it in memory until the end of the block."""
        self.users += 1
        try:
            yield
        finally:
            self.users -= 1

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Keep it in memory until the end of the block, for a watcher."""
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
            self._writing -= Counter((request,))  # this keeps what is left above zero

    def is_writing(self, request: tuple[str, str]) -> bool:
        """Return whether such a request is under way, even if its caller no longer waits."""
        return request in self._writing

    def stir(self) -> None:
        """Wake all calls that wait for a change."""
        self._stirred.set()
        self._stirred = asyncio.Event()

    def end(self, error: SimulationError) -> None:
        """End the following of the game; waiting calls are told."""
        if self.error is None:
            self.error = error
        self.stir()

    def raise_if_ended(self) -> None:
        """Raise the error that has ended the following."""
        if self.error is not None:
            raise self.error

    async def changed(self) -> None:
        """Wait for the next change. Raises the error that ends the following."""
        self.raise_if_ended()
        await self._stirred.wait()
        self.raise_if_ended()

    async def reached(self, seq: int) -> None:
        """Wait until the record has an effect. Raises the error that ends the following."""
        while self.record.seq < seq:
            await self.changed()
