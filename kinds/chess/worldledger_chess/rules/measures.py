"""Measures of games that are compared: material and, where it was recorded, the evaluation."""

from __future__ import annotations

from typing import Any, Final

from worldledger.effects import Effect
from worldledger.measures import Measures
from worldledger.world import WorldState
from worldledger_chess.rules.state import BOARD

#: The usual worth of the pieces, in pawns: black's, in lower case, counts against white.
_WORTH: Final = {
    sign: worth if sign.isupper() else -worth
    for piece, worth in {"p": 1, "n": 3, "b": 3, "r": 5, "q": 9}.items()
    for sign in (piece, piece.upper())
}


def values(state: WorldState, began: Effect) -> dict[str, float]:
    """Return material and evaluation after a half-move, both in pawns, and positive where white is better off."""
    board = state.entities.get(BOARD)
    if board is None:
        return {}
    found: dict[str, float] = {"material": material(board["fen"])}
    evaluation = began["payload"].get("evaluation")
    if isinstance(evaluation, dict) and type(evaluation.get("cp")) in {int, float}:
        found["evaluation"] = evaluation["cp"] / 100
    return found


def material(fen: str) -> int:
    """Return white's material less black's, in pawns; pieces in the hand are left out."""
    placed = fen.split(" ", 1)[0].split("[", 1)[0]
    return sum(worth * placed.count(piece) for piece, worth in _WORTH.items())


def outcome(state: WorldState) -> dict[str, Any]:
    """Return how the game stands, or ended."""
    board = state.entities.get(BOARD)
    return {} if board is None else {name: board[name] for name in ("result", "status", "reason", "ply")}


def labels(state: WorldState) -> dict[str, Any]:
    """Return who plays."""
    return {colour: state.entities[colour]["agent_id"] for colour in ("white", "black") if colour in state.entities}


#: A game is its moves, whoever makes them. What else is told of a move is of the players, the clock or the annotator.
MEASURES: Final = Measures(
    values=values,
    outcome=outcome,
    labels=labels,
    left_out=(
        *("source_id", "payload.agent_id", "payload.kind"),
        *("payload.comment", "payload.commands", "payload.evaluation", "payload.nags", "payload.variations"),
        *("payload.thinking_time", "payload.clock", "payload.timestamp", "payload.thinking_time_total"),
        *("payload.digest", "payload.config.digest", "payload.config.recording"),
        *("payload.config.live.game_id", "payload.config.live.experiment"),
        *(f"/entities/{BOARD}/{name}" for name in ("started_at", "ended_at", "last_updated")),
        *(f"/entities/{colour}/{name}" for colour in ("white", "black") for name in ("thinking_time", "clock")),
    ),
)
