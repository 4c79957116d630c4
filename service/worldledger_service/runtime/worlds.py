"""The open worlds of a service: each is opened for its first agent, and closed when no agent is left."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog

from worldledger.aio import SingleFlight, join
from worldledger.errors import StoreUnavailableError
from worldledger_service.runtime.guarding import guarded
from worldledger_service.runtime.orchestrator import Orchestrator

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.watch import HeadWatcher

#: Worlds that stay open without being in use.
_IDLE: Final = 64
#: Seconds for which a world stays open after it was requested, because it may be used at once.
_GRACE: Final = 30.0

log = structlog.get_logger("worldledger.runtime")


class _Open:
    """An open world, the stack that closes it, and when it was last requested (by the event loop's clock)."""

    __slots__ = ("asked_at", "stack", "world")

    def __init__(self, world: Orchestrator, stack: AsyncExitStack) -> None:
        self.world = world
        self.stack = stack
        self.asked_at = 0.0


class Worlds:
    """Opens the orchestrators of a process, one for each world.

    ``idle``: how many stay open without being in use; ``grace``: seconds for which each stays open after a request.
    """

    def __init__(self, store: Store, watcher: HeadWatcher, *, idle: int = _IDLE, grace: float = _GRACE) -> None:
        self._store = store
        self._watcher = watcher
        self._idle = idle
        self._grace = grace
        #: the least recently asked for comes first
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._opening: SingleFlight[str, Orchestrator] = SingleFlight()
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False

    def __iter__(self) -> Iterator[Orchestrator]:
        return iter([each.world for each in self._open.values()])

    async def get(self, world_id: str) -> Orchestrator:
        """Return a world's orchestrator. Raises as `Orchestrator.over`, and StoreUnavailableError while closing."""
        found = self._open.get(world_id)
        if found is not None:
            if not found.world.broken:
                return self._give(world_id, found)
            del self._open[world_id]  # its log was damaged when it was read; look again
            self._close_later(found.stack)
        if self._closed:
            raise StoreUnavailableError("the service is stopping")
        opening = self._opening.begin(world_id, partial(self._start, world_id))
        return await guarded(self._store.outages, join(opening))

    def opened(self, world_id: str) -> Orchestrator | None:
        """Return a world's orchestrator if it is open; asking does not keep it open."""
        found = self._open.get(world_id)
        return None if found is None or found.world.broken else found.world

    async def close(self) -> None:
        """Close all of them; what follows from what has happened is still written."""
        self._closed = True
        await self._opening.close()
        for each in self._open.values():
            self._close_later(each.stack)
        self._open.clear()
        if self._closing:
            await asyncio.wait(self._closing)

    async def _start(self, world_id: str) -> Orchestrator:
        stack = AsyncExitStack()
        world = await stack.enter_async_context(Orchestrator.over(self._store, self._watcher, world_id))
        found = self._open[world_id] = _Open(world, stack)
        return self._give(world_id, found)

    def _give(self, world_id: str, found: _Open) -> Orchestrator:
        found.asked_at = asyncio.get_running_loop().time()
        self._open.move_to_end(world_id)
        if len(self._open) > self._idle:
            self._let_go(found.asked_at)
        return found.world

    def _let_go(self, now: float) -> None:
        """Close the worlds that were not in use for the longest time, down to the limit."""
        surplus = len(self._open) - self._idle
        for world_id, each in list(self._open.items()):
            if surplus <= 0 or each.asked_at > now - self._grace:
                return
            if not each.world.in_use:
                del self._open[world_id]
                self._close_later(each.stack)
                surplus -= 1

    def _close_later(self, stack: AsyncExitStack) -> None:
        task = asyncio.get_running_loop().create_task(stack.aclose())
        self._closing.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._closing.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.warning("a world was not closed cleanly", error=str(task.exception()))
