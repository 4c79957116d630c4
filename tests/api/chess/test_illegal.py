"""Illegal moves over HTTP."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.api.helpers import draft, problem


async def test_an_illegal_move_of_chess_is_refused(client: httpx2.AsyncClient) -> None:
    """In a chess world a move must be legal on the board that it would be made on."""
    path = "/v1/worlds/game/effects"
    assert (await client.post("/v1/worlds", json={"world_id": "game", "ruleset": "chess"})).status_code == 201

    def said(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
        return draft(kind=kind, payload=payload, source_id="arena")

    problem(
        await client.post(path, json=said("MoveMade", {"uci_notation": "e2e4"})),
        422,
        "illegal_effect",
        rule="game_not_started",
    )
    start = said("GameStarted", {"agents": {"white": "ana", "black": "bo"}})
    assert (await client.post(path, json=start)).status_code == 201
    found = problem(
        await client.post(path, json=said("MoveMade", {"uci_notation": "e2e5"})),
        422,
        "illegal_effect",
        rule="illegal_move",
    )
    assert "fen" in found
    moves = [said("MoveMade", {"uci_notation": uci}) for uci in ("e2e4", "e7e5", "e4e5")]
    problem(await client.post(path, json=moves), 422, "illegal_effect", rule="illegal_move", index=2)
    assert (await client.post(path, json=moves[:2])).status_code == 201
    state = (await client.get("/v1/worlds/game/state")).json()["state"]
    assert state["entities"]["board"]["turn"] == "white"
    assert state["entities"]["board"]["ply"] == 2
