"""The arena of a service: opened with it, counted in its metrics, found by the routes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from worldledger_service.api.context import Services
from worldledger_service.settings import refusal

from worldledger_chess.arena.arena import Arena
from worldledger_chess.arena.settings import MAX_GAMES, WATCH_IDLE, ArenaSettings

if TYPE_CHECKING:
    from worldledger_chess.arena import LiveGame


# -- the settings of the service for games of chess -------------------------------------------------------


class ChessSettings(BaseSettings):
    """Settings from ``WORLDLEDGER_…`` variables, beside those of `worldledger_service.settings`."""

    model_config = SettingsConfigDict(env_prefix="WORLDLEDGER_", extra="ignore", frozen=True)

    max_games: int = Field(
        default=MAX_GAMES,
        ge=1,
        description="Most games of chess that one process keeps in memory; others are read again.",
    )
    watch_idle: float = Field(
        default=WATCH_IDLE,
        gt=0,
        description="Seconds of silence after which the WebSocket of a game's watcher is closed.",
    )


def arena_settings() -> ArenaSettings:
    """Return the settings of the service's arena. Raises SimulationError for a variable that makes no sense."""
    try:
        return ArenaSettings(**ChessSettings().model_dump())
    except ValidationError as error:
        raise refusal(error) from None


# -- metrics of the live games of a process, for Prometheus ------------------------------------------------------


class OfGames(Collector):
    """The counters of an arena, and the games that it has in memory."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena

    def describe(self) -> list[Metric]:
        """Return nothing: the registry need not look at the games to know the names."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return them all."""
        counters, games = self._arena.counters, self._arena.games()
        for name, what, count in (
            ("created", "Games made by this process.", counters.created),
            ("completed", "Games that this process has brought to their ends.", counters.completed),
        ):
            yield CounterMetricFamily(f"worldledger_games_{name}", what, value=count)
        for name, what, value in (
            ("in_memory", "Games in memory, ended ones included.", len(games)),
            ("in_progress", "Live games in memory that are in progress.", sum(_goes_on(game) for game in games)),
            ("driven", "Games in which players of this process play.", self._arena.driven),
            ("watchers", "Watchers of games here.", sum(game.watchers for game in games)),
        ):
            yield GaugeMetricFamily(f"worldledger_games_{name}", what, value=value)


def _goes_on(game: LiveGame) -> bool:
    return game.live is not None and game.record.in_progress


_NAME = "chess"


@asynccontextmanager
async def open_arena(services: Services) -> AsyncIterator[Arena]:
    """Keep live games going for the length of the block."""
    arena = Arena(services.store, services.watcher, services.worlds, arena_settings(), clock=services.clock)
    services.metrics.registry.register(OfGames(arena))
    async with arena:
        yield arena


def arena_of(services: Services) -> Arena:
    """Return the arena of a service."""
    arena: Arena = services.of_kinds[_NAME]
    return arena
