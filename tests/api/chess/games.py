"""Games of chess over HTTP, for tests."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.api.helpers import draft

FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")


def said(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    """Make a draft of the arena's."""
    return draft(kind=kind, payload=payload, source_id="arena")


def started(white: str = "ana", black: str = "bo") -> dict[str, Any]:
    """Make the draft that begins a game."""
    return said("GameStarted", {"agents": {"white": white, "black": black}})


def moved(uci: str, thinking_time: float | None = None) -> dict[str, Any]:
    """Make the draft of a move."""
    return said("MoveMade", {"uci_notation": uci, "thinking_time": thinking_time})


def mate() -> dict[str, Any]:
    """Make the draft that ends a game which black has won by checkmate."""
    return said("GameEnded", {"status": "checkmate", "result": "black_wins", "reason": "checkmate"})


async def new_game(
    client: httpx2.AsyncClient, name: str, *drafts: dict[str, Any], experiment: str | None = None
) -> None:
    """Create a chess world and append to it."""
    body = {"world_id": name, "ruleset": "chess", "experiment": experiment}
    response = await client.post("/v1/worlds", json=body)
    assert response.status_code == 201, response.text
    if drafts:
        response = await client.post(f"/v1/worlds/{name}/effects", json=list(drafts))
        assert response.status_code == 201, response.text
