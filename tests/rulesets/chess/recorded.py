"""Short ways to read PGN in tests."""

from __future__ import annotations

import io
from typing import Any

from worldledger_chess.rules.pgn import BrokenGame, RecordedGame, read_games


def read(data: str | bytes, **limits: Any) -> list[RecordedGame | BrokenGame]:
    """Read a file's bytes, or a text as UTF-8."""
    return list(read_games(io.BytesIO(data.encode() if isinstance(data, str) else data), name="some.pgn", **limits))


def whole(data: str | bytes, **limits: Any) -> list[RecordedGame]:
    """Read a file in which no game is broken."""
    games = read(data, **limits)
    assert not [game for game in games if isinstance(game, BrokenGame)]
    return [game for game in games if isinstance(game, RecordedGame)]


def one(data: str | bytes) -> RecordedGame:
    """Read a file of one good game."""
    (game,) = whole(data)
    return game


def payloads(game: RecordedGame, kind: str = "MoveMade") -> list[dict[str, Any]]:
    """Return the payloads of a game's effects of one kind."""
    return [draft["payload"] for draft in game.drafts if draft["kind"] == kind]


def sans(game: RecordedGame) -> str:
    """Return the main line."""
    return " ".join(move["san_notation"] for move in payloads(game))
