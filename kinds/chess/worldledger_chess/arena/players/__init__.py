"""Players: they move for the sides of live games that are not played from outside.

    player = make_player({"name": "stockfish", "nodes": 2000}, seed=1)
    try:
        attempt = await player.move(Position.of(board))
    finally:
        await player.close()

``external`` waits for a caller from outside, ``random`` draws a legal move by seed, ``stockfish`` and ``uci`` are UCI
engines, ``llm`` is a language model, and others are found by the entry-point group ``worldledger.players``. Every
player ends in a text (the attempted move) or in a PlayerError, within its time, and leaves no process behind.
"""

from worldledger_chess.arena.players.base import (
    ExternalPlayer,
    GuardedPlayer,
    InvalidPlayerError,
    Player,
    PlayerError,
    Position,
    RandomPlayer,
    Reason,
    UnknownPlayerError,
)
from worldledger_chess.arena.players.engines import EnginePlayer, EngineSettings
from worldledger_chess.arena.players.models import ModelPlayer, ModelSettings
from worldledger_chess.arena.players.registry import GROUP, PlayerSpec, known_players, make_player, read_spec

__all__ = [
    "GROUP",
    "EnginePlayer",
    "EngineSettings",
    "ExternalPlayer",
    "GuardedPlayer",
    "InvalidPlayerError",
    "ModelPlayer",
    "ModelSettings",
    "Player",
    "PlayerError",
    "PlayerSpec",
    "Position",
    "RandomPlayer",
    "Reason",
    "UnknownPlayerError",
    "known_players",
    "make_player",
    "read_spec",
]
