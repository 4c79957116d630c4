"""Somebody else's player, kept from holding up a game."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from worldledger_chess.arena.players.base import Player, Position
from worldledger_chess.arena.players.errors import PlayerError

#: Seconds for a move where the game has no limit of its own.
DEFAULT_TIMEOUT_S: Final = 30.0
#: Seconds that a player may take to close.
CLOSING_S: Final = 5.0

_log = structlog.get_logger(__name__)


class GuardedPlayer:
    """Asks a player within its time, and takes only text from it: whatever else happens is a PlayerError.

    Code that blocks the event loop cannot be interrupted: such a player runs it in a thread (`asyncio.to_thread`).
    """

    def __init__(self, player: Player, name: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.name = name
        self._player = player
        self._timeout_s = timeout_s
        self._closed = False

    async def move(self, position: Position) -> str:
        """Return the player's text. Raises PlayerError, also for any error of the player's own."""
        if self._closed:
            raise PlayerError(self.name, "closed", "is closed and moves no more")
        limit = self._timeout_s if position.remaining_s is None else min(self._timeout_s, position.remaining_s)
        try:
            async with asyncio.timeout(max(0.0, limit)) as clock:
                text: object = await self._player.move(position)
        except PlayerError:
            raise
        except Exception as error:  # somebody's own class may raise anything
            if isinstance(error, TimeoutError) and clock.expired():
                raise PlayerError(self.name, "timeout", f"gave no move within {limit:g} s") from None
            raise PlayerError(self.name, "failed", f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise PlayerError(self.name, "rubbish", f"gave a {type(text).__name__}, not a move as text")
        return text

    async def close(self) -> None:
        """Close the player, for a few seconds at most; that it failed at it is logged and not raised."""
        self._closed = True
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._player.close()
        except Exception as error:  # noqa: BLE001 - somebody's own class may raise anything; the game is over anyway
            _log.warning("a player could not be closed", player=self.name, error=f"{type(error).__name__}: {error}")
