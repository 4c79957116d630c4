"""Following heads: one watcher tells any number of waiting readers of a process that a world has grown.

Effects of this process are seen at once, because the committer tells the watcher; those of other processes when these
send a wake-up, and else by looking at the heads of the worlds that someone waits for, in one query per interval.
Nothing is asked while nobody waits, and worlds that nobody waits for cost nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

import structlog

from worldledger.errors import SimulationError, StoreUnavailableError
from worldledger_service.store.wakeups import EVERY, Wakeups

if TYPE_CHECKING:
    from worldledger.ports import LogReader
    from worldledger_service.store.outages import Outages
    from worldledger_service.store.store import Store

#: Worlds whose last known head is remembered between two waits.
_REMEMBERED = 10_000
#: Most seconds between two looks while the database is away.
_LONGEST_PAUSE = 1.0

log = structlog.get_logger("worldledger.store")


class HeadWatcher:
    """Lets readers wait for a world's next effect. A head never falls, so what is remembered of it stays true."""

    def __init__(self, reader: LogReader, *, interval: float, outages: Outages | None = None) -> None:
        self._reader = reader
        self._outages = outages
        self._interval = interval
        self._heads: OrderedDict[str, int] = OrderedDict()
        self._waiting: dict[str, dict[asyncio.Future[int], int]] = {}
        self._poller: asyncio.Task[None] | None = None
        self._wakeups: Wakeups | None = None
        self._closed = False

    @classmethod
    @asynccontextmanager
    async def over(cls, store: Store, *, interval: float, url: str | None = None) -> AsyncIterator[HeadWatcher]:
        """Watch a store's worlds, its own commits included; stop at the end.

        ``interval`` is the pause in seconds between two looks for what other processes wrote. With the database's
        ``url`` wake-ups are exchanged with them, which takes one more connection.
        """
        watcher = cls(store.reader, interval=interval, outages=store.outages)
        store.on_commit = watcher.committed
        async with AsyncExitStack() as running:
            if url is not None:
                watcher._wakeups = await running.enter_async_context(Wakeups.between(url, watcher.moved))
            try:
                yield watcher
            finally:
                store.on_commit = None
                await watcher.close()

    def committed(self, world_id: str, head_seq: int) -> None:
        """Take note of a commit of this process."""
        self.moved(world_id, head_seq)
        if self._wakeups is not None:
            self._wakeups.tell(world_id, head_seq)

    async def wait_beyond(self, world_id: str, seq: int, timeout: float | None = None) -> int:
        """Wait until the world's head lies beyond ``seq`` and give it.

        After ``timeout`` seconds the head as last known is given, which is then not beyond ``seq`` (0 if it is not
        known). While the database is away the wait goes on. Raises StoreUnavailableError once the watcher is closed.
        """
        if self._closed:
            raise _closed()
        head = self._heads.get(world_id, 0)
        if head > seq:
            return head
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(world_id, {})
        waiting[future] = seq
        if self._wakeups is not None:
            self._wakeups.follow()
        if self._poller is None:
            self._poller = asyncio.get_running_loop().create_task(self._poll())
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError:
            return self._heads.get(world_id, 0)
        finally:
            del waiting[future]
            if not waiting and self._waiting.get(world_id) is waiting:
                del self._waiting[world_id]

    def known_head(self, world_id: str) -> int:
        """Return a world's head as far as this process knows of it, its own commits included; 0 if it does not."""
        return self._heads.get(world_id, 0)

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return sum(map(len, self._waiting.values()))

    def moved(self, world_id: str, head_seq: int) -> None:
        """Take note of a world's head and wake those who wait for it."""
        if head_seq <= self._heads.get(world_id, 0):
            return
        self._heads[world_id] = head_seq
        self._heads.move_to_end(world_id)
        if len(self._heads) > _REMEMBERED:
            self._heads.popitem(last=False)
        for future, seq in self._waiting.get(world_id, {}).items():
            if head_seq > seq and not future.done():
                future.set_result(head_seq)

    async def close(self) -> None:
        """Stop looking; whoever still waits is told."""
        self._closed = True
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.wait([self._poller])
        self._fail(_closed())

    async def _poll(self) -> None:
        """Look at the heads that someone waits for, until nobody does."""
        pause = self._interval
        try:
            while self._waiting:
                try:
                    heads = await self._reader.head_seqs(list(self._waiting))
                except SimulationError as error:
                    if self._outages is not None:
                        self._outages.failed(error)
                    pause = min(pause * 2, max(_LONGEST_PAUSE, self._interval))
                else:
                    pause = self._interval
                    for world_id, head_seq in heads.items():
                        self.moved(world_id, head_seq)
                await self._sleep(pause)
        except Exception as error:
            log.exception("following heads failed")
            self._fail(error)
        finally:
            self._poller = None

    async def _sleep(self, pause: float) -> None:
        """Let a pause pass; others must hear now and then that somebody waits here, however long it is."""
        if self._wakeups is None:
            await asyncio.sleep(pause)
            return
        loop = asyncio.get_running_loop()
        until = loop.time() + pause
        while self._waiting and (rest := until - loop.time()) > 0:
            self._wakeups.follow()
            await asyncio.sleep(min(rest, EVERY))

    def _fail(self, error: BaseException) -> None:
        for waiting in self._waiting.values():
            for future in waiting:
                if not future.done():
                    future.set_exception(error)


def _closed() -> StoreUnavailableError:
    return StoreUnavailableError("the service is stopping")
