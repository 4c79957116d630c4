"""The settings of the service for games of chess."""

from __future__ import annotations

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from worldledger_service.settings import refusal

from worldledger_chess.arena.settings import MAX_GAMES, WATCH_IDLE, ArenaSettings


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
