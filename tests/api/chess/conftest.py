"""Games in the database of an application."""

from __future__ import annotations

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from worldledger_service.api.context import Services

from tests.api.helpers import catch_up, draft, shares

from .games import FOOLS_MATE, mate, moved, new_game, started


@pytest.fixture
def played(request: pytest.FixtureRequest) -> None:
    """Have three games: one that ana lost, one that goes on between others, one that has not begun; and a sandbox."""
    request.getfixturevalue("shared_played" if shares(request) else "own_played")


@pytest.fixture
async def own_played(client: httpx2.AsyncClient, services: Services) -> None:
    """Have the games for one test."""
    await _play(client, services)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_played(shared_client: httpx2.AsyncClient, shared_app: FastAPI) -> None:
    """Have the games for tests that only read them."""
    await _play(shared_client, shared_app.state.services)


async def _play(client: httpx2.AsyncClient, services: Services) -> None:
    moves = [moved(uci, 0.5 + n) for n, uci in enumerate(FOOLS_MATE)]
    await new_game(client, "g1", started(), *moves, mate(), experiment="trial")
    await new_game(client, "g2", started("cy", "ana"), moved("e2e4"), experiment="trial")
    await new_game(client, "g3")
    await client.post("/v1/worlds", json={"world_id": "town"})
    await client.post("/v1/worlds/town/effects", json=draft(source_id="smith"))
    await catch_up(services)
