"""The settings of an arena: limits and intervals."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

#: Most games in memory (docs/reference/contracts.md, "Chess").
MAX_GAMES: Final = 100
#: Seconds of silence after which the WebSocket of a game's watcher is closed.
WATCH_IDLE: Final = 1800.0


class ArenaSettings(BaseModel):
    """The settings of an arena; see `worldledger_chess.arena.Arena`."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    max_games: int = Field(
        default=MAX_GAMES,
        ge=1,
        description="Most games in memory; beyond, ended ones are dropped, and those not played or watched here.",
    )
    watch_idle: float = Field(
        default=WATCH_IDLE,
        gt=0,
        description="Seconds of silence after which the WebSocket of a game's watcher is closed.",
    )
    keep_ended: float = Field(
        default=3600.0,
        gt=0,
        description="Seconds after which an ended game is dropped from memory if it is neither requested nor watched.",
    )
    sweep_every: float = Field(default=60.0, gt=0, description="Seconds between two searches for such games.")
    allow_programs: bool = Field(
        default=False, description="Whether a new game may name programs as its players (`uci:PATH`)."
    )
    adopt: bool = Field(
        default=True,
        description="Whether it looks after games of processes that no longer do. An arena that may start "
        "programs should not: their configurations may name any.",
    )
    scan_every: float = Field(
        default=5.0, gt=0, description="Seconds between two searches for games that no process looks after."
    )
    scan_page: int = Field(default=1000, ge=1, le=100_000, description="Worlds that one query reads.")
    scan_pause: float = Field(default=0.5, gt=0, description="Seconds between two pages, once all were read.")
    adopt_after: float = Field(
        default=5.0,
        ge=0,
        description="Seconds without an effect after which another process's players count as gone: they are then "
        "played from here.",
    )
