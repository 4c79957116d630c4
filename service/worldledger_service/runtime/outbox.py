"""The outbox: effects of the service's own that follow what has happened, in order, without being waited for."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import structlog

from worldledger.effects import EffectDraft
from worldledger.errors import OverloadedError, RequestConflictError, SimulationError, StoreUnavailableError
from worldledger_service.store.event_log import EventLog

#: Most drafts written by one call.
_AT_ONCE: Final = 200
#: Most drafts that wait; beyond, the oldest are let go and the log has a gap in what is told of generations.
_MOST: Final = 20_000
#: Seconds between two tries while the database is away.
_PAUSE: Final = 0.5

log = structlog.get_logger("worldledger.runtime")


class Outbox:
    """Appends the service's own effects to one world, in the order in which they were put in."""

    def __init__(self, event_log: EventLog) -> None:
        self._log = event_log
        self._waiting: deque[EffectDraft] = deque()
        #: those that are being written
        self._taken: deque[EffectDraft] = deque()
        self._task: asyncio.Task[None] | None = None
        self._closing = self._closed = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._taken)

    def put(self, draft: EffectDraft) -> None:
        """Write an effect later, without waiting or failing here. A closed outbox drops it."""
        if self._closed:
            log.debug("an effect comes too late to be written", kind=draft["kind"])
            return
        self._waiting.append(draft)
        if len(self._waiting) > _MOST:
            lost = self._waiting.popleft()
            log.warning("an effect is let go: the database is away for too long", kind=lost["kind"])
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was put in has been written, or given up, at most ``timeout`` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while self._task is not None:
                    await asyncio.wait([self._task])

    async def close(self, patience: float = 5.0) -> None:
        """Write what waits, if that does not take long (seconds); nothing is written any more afterwards."""
        self._closing = True
        try:
            if self._task is not None:
                await asyncio.wait([self._task], timeout=patience)
        finally:
            self._closed = True
            if self._task is not None:
                self._task.cancel()
                await asyncio.wait([self._task])

    async def _write(self) -> None:
        try:
            while self._waiting or self._taken:
                while self._waiting and len(self._taken) < _AT_ONCE:
                    self._taken.append(self._waiting.popleft())
                try:
                    await self._append()
                except (StoreUnavailableError, OverloadedError):
                    if self._closing:
                        return
                    await asyncio.sleep(_PAUSE)
        finally:
            self._task = None

    async def _append(self) -> None:
        """Write what is taken: together, or, where that is refused, one by one."""
        if await self._try(list(self._taken)):
            self._taken.clear()
        while self._taken:
            await self._try([self._taken[0]])
            self._taken.popleft()

    async def _try(self, drafts: Sequence[EffectDraft]) -> bool:
        """Return whether these could be written together. A single one that is refused is dropped."""
        try:
            await self._log.append_all(drafts, system=True)
        except (StoreUnavailableError, OverloadedError):
            raise
        except Exception as error:
            if len(drafts) > 1:
                return False
            kind = drafts[0]["kind"]
            if isinstance(error, RequestConflictError):
                # An effect with a req_id is the same in every process that writes it: one of them is wrong.
                log.warning("another process has written something else", kind=kind, req_id=drafts[0].get("req_id"))
            elif isinstance(error, SimulationError):
                log.warning("an effect of the service's own is refused", kind=kind, error=error.message)
            else:
                log.exception("an effect of the service's own could not be written", kind=kind)
        return True
