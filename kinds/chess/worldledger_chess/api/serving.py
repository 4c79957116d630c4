"""The arena of a service: opened with it, counted in its metrics, found by the routes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from worldledger_service.api.context import Services

from worldledger_chess.api.metrics import OfGames
from worldledger_chess.arena.arena import Arena
from worldledger_chess.arena.settings import ArenaSettings

_NAME = "chess"


@asynccontextmanager
async def open_arena(services: Services) -> AsyncIterator[Arena]:
    """Have live games go on, as long as the block lasts."""
    settings = ArenaSettings(max_games=services.settings.max_games)
    arena = Arena(services.store, services.watcher, services.worlds, settings, clock=services.clock)
    services.metrics.registry.register(OfGames(arena))
    async with arena:
        yield arena


def arena_of(services: Services) -> Arena:
    """Return the arena of a service."""
    arena: Arena = services.of_kinds[_NAME]
    return arena
