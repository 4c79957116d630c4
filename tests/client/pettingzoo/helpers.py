"""Tools of these tests: playing by UCI, and reading the log."""

from __future__ import annotations

from typing import Any

import chess
import httpx2
from pettingzoo import AECEnv
from worldledger_chess.rules.actions import action_of


def play(env: AECEnv[str, Any, Any], *moves: str) -> None:
    """Make moves in turn, legal or not."""
    for uci in moves:
        env.step(action_of(chess.Move.from_uci(uci), env.agent_selection == "player_0"))


def effects(http: httpx2.Client, game_id: str | None) -> list[tuple[str, dict[str, Any]]]:
    """Return the kind and payload of what has happened in a game since it began."""
    page = http.get(f"/v1/worlds/{game_id}/effects").json()["effects"]
    return [(effect["kind"], effect["payload"]) for effect in page[4:]]


def stands(http: httpx2.Client, game_id: str | None) -> dict[str, Any]:
    """Return a game as it stands."""
    found: dict[str, Any] = http.get(f"/v1/games/{game_id}").raise_for_status().json()
    return found
