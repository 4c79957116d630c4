"""Live games over HTTP, for tests."""

from __future__ import annotations

from typing import Any

import httpx2
import orjson
from worldledger_chess.api import shapes as games_shapes
from worldledger_chess.rules import Game

AGENTS: dict[str, Any] = {"white": {"agent_id": "w"}, "black": {"agent_id": "b"}}


async def made(client: httpx2.AsyncClient, **fields: Any) -> dict[str, Any]:
    """Make a game without a limit of time; return it as it was answered."""
    response = await client.post("/v1/games", json={**AGENTS, "deadline_s": None, **fields})
    assert response.status_code == 201, response.text
    found: dict[str, Any] = response.json()
    return found


async def attempt(client: httpx2.AsyncClient, game_id: str, agent_id: str, move: str, **fields: Any) -> httpx2.Response:
    """Attempt a move."""
    return await client.post(f"/v1/games/{game_id}/moves", json={"agent_id": agent_id, "move": move, **fields})


async def played(client: httpx2.AsyncClient, game_id: str, *moves: str) -> list[dict[str, Any]]:
    """Make legal moves in turn, from the start on; return their outcomes."""
    outcomes = []
    for n, move in enumerate(moves):
        response = await attempt(client, game_id, "wb"[n % 2], move)
        assert response.status_code == 201, response.text
        outcomes.append(response.json())
        assert outcomes[-1]["accepted"], outcomes[-1]
    return outcomes


async def stands(client: httpx2.AsyncClient, game_id: str, query: str = "") -> dict[str, Any]:
    """Return a game as it stands."""
    response = await client.get(f"/v1/games/{game_id}{query}")
    assert response.status_code == 200, response.text
    games_shapes.Game.model_validate_json(response.content)
    found: dict[str, Any] = response.json()
    return found


def game_of(told: dict[str, Any]) -> Game:
    """Read the Game of an answer: all its rules hold."""
    text = orjson.dumps({name: told[name] for name in Game.model_fields})
    return Game.model_validate_json(text)
