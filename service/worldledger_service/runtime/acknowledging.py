"""Acknowledging: how far agents have come, kept here for a moment and written with others."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import structlog

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_service.store.cursors import AgentCursors

#: Seconds between two writings.
_EVERY: Final = 1.0

log = structlog.get_logger("worldledger.runtime")


class Acknowledged:
    """The cursors of one world's agents: what was acknowledged here counts at once, and is written a little later."""

    def __init__(self, cursors: AgentCursors, world_id: str) -> None:
        self._store = cursors
        self._world_id = world_id
        self._unwritten: dict[str, int] = {}
        self._writing: asyncio.Task[None] | None = None

    async def read(self, agent_id: str) -> int:
        """Return the view_seq that an agent has acknowledged last, 0 if none. Raises StoreUnavailableError."""
        written = await self._store.read(self._world_id, [agent_id])
        return max(written.get(agent_id, 0), self._unwritten.get(agent_id, 0))

    def move(self, agent_id: str, view_seq: int) -> None:
        """Note that an agent has acknowledged a view that follows the one before."""
        self._unwritten[agent_id] = view_seq
        if self._writing is None:
            self._writing = asyncio.get_running_loop().create_task(self._write_later())

    async def close(self) -> None:
        """Write what is not written yet; where the database is away, it is given up."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait([self._writing])
        with suppress(SimulationError):
            await self._write()

    async def _write_later(self) -> None:
        try:
            while self._unwritten:
                await asyncio.sleep(_EVERY)
                try:
                    await self._write()
                except SimulationError as error:
                    log.debug("cursors wait for the database", world_id=self._world_id, error=error.message)
        finally:
            self._writing = None

    async def _write(self) -> None:
        writing = dict(self._unwritten)
        await self._store.move(self._world_id, writing)
        for agent_id, view_seq in writing.items():
            if self._unwritten.get(agent_id) == view_seq:
                del self._unwritten[agent_id]
