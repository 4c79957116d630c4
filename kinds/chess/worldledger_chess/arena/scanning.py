"""Scanning: live games that nobody looks after are found in the log, whatever became of the process that they began in.

All worlds are walked, a page at a time: at the start at once, then again and again, slowly. Nothing is kept of it but
how far it has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import structlog

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_chess.arena.settings import ArenaSettings
    from worldledger_chess.store.live_games import LiveGameRow, LiveGames

log = structlog.get_logger("worldledger.arena")


class Scanner:
    """Walks the live games that go on; ``found`` is handed each of them, every time."""

    def __init__(
        self, games: LiveGames, settings: ArenaSettings, found: Callable[[LiveGameRow], Awaitable[None]]
    ) -> None:
        self._games = games
        self._settings = settings
        self._found = found
        #: how often all worlds were walked
        self.rounds = 0

    async def run(self) -> None:
        """Walk for ever."""
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            await self._round()
            self.rounds += 1
            await asyncio.sleep(max(self._settings.scan_every - (loop.time() - begun), self._settings.scan_pause))

    async def _round(self) -> None:
        after: str | None = ""
        while after is not None:
            try:
                rows, after_these = await self._games.page(after=after, worlds=self._settings.scan_page)
            except SimulationError as error:
                log.debug("looking for games waits for the database", error=error.message)
                await asyncio.sleep(self._settings.scan_pause)
                continue
            after = after_these
            for row in rows:
                try:
                    await self._found(row)
                except SimulationError as error:
                    log.warning("a game could not be looked after", game_id=row.game_id, error=error.message)
                except Exception:
                    log.exception("looking after a game failed", game_id=row.game_id)
            if after is not None and self.rounds:
                await asyncio.sleep(self._settings.scan_pause)
