"""A table: one game in memory, which follows its log, and its users in this process."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import TYPE_CHECKING, Final, Self

from worldledger_service.runtime.following import Follower, Read
from worldledger_service.runtime.guarding import guarded

from worldledger.rulesets import load_ruleset
from worldledger_chess.arena.record import Record

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.watch import HeadWatcher

    from worldledger.chain import StoredEffect

#: Effects of a game that is loaded that are taken before the event loop runs other tasks.
_ROWS_AT_ONCE: Final = 50


async def read_history(store: Store, record: Record, line: Sequence[WorldRecord]) -> None:
    """Feed a record the logs of a world and its ancestors, the oldest first, each up to the head of its record.

    Raises as reads, TamperedError, FoldError.
    """
    for world in line:
        record.enter(world.world_id)
        async with aclosing(store.reader.batches(world.world_id, until_seq=world.head_seq)) as batches:
            async for batch in batches:
                for count, row in enumerate(batch, 1):
                    record.apply(row)
                    if count % _ROWS_AT_ONCE == 0:
                        await asyncio.sleep(0)


class Table(Follower):
    """One game in memory: its record, which follows the log, and the reasons to keep it in memory.

    ``on_change`` is called with it whenever the record has changed.
    """

    def __init__(self, store: Store, watcher: HeadWatcher, record: Record, on_change: Callable[[Table], None]) -> None:
        super().__init__(store, watcher, record.game_id)
        self.game_id = record.game_id
        self.record = record
        self._on_change = on_change
        #: when it was last requested, in epoch seconds
        self.asked_at = 0.0
        #: calls that are under way, and watchers
        self.users = 0
        self.watchers = 0
        #: whether players of this process play it
        self.driven = False
        self._writing: Counter[tuple[str, str]] = Counter()

    @classmethod
    async def load(
        cls,
        store: Store,
        watcher: HeadWatcher,
        world: WorldRecord,
        on_change: Callable[[Table], None],
        read: Read,
    ) -> Self:
        """Load a game up to its head, and follow it from then on. Raises as reads, TamperedError, FoldError.

        That of a fork begins with its ancestors' effects; ParentMissingError is raised if they are not here.
        """
        record = Record(world.world_id, load_ruleset(world.ruleset))
        await read_history(store, record, await store.states.line(world))
        table = cls(store, watcher, record, on_change)
        table.follow(read)
        return table

    @property
    def seq(self) -> int:
        """The last effect that the record has."""
        return self.record.seq

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

    async def changed(self) -> None:
        """Wait for the next effect. Raises the error that ends the following."""
        await self.reached(self.seq + 1)

    async def catch_up(self, timeout: float | None = None) -> None:
        """Wait until the record has every effect that is in the log now. Raises StoreUnavailableError."""
        await guarded(self._store.outages, self._catch_up(timeout))

    async def _catch_up(self, timeout: float | None) -> None:
        with self.in_use():
            await super().catch_up(timeout)

    def _take(self, rows: list[StoredEffect]) -> None:
        for row in rows:
            self.record.apply(row)
        self._on_change(self)
