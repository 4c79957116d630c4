"""The service feeds the projections itself, and nothing that goes wrong there takes it down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from unittest import mock

import httpx2
import pytest
from fastapi import FastAPI

from projections.engine import Engine
from service import projecting
from service.api.context import Services
from service.app import create_app

from .chess import FOOLS_MATE, mate, moved, new_game, started
from .helpers import settings, wait_for


@pytest.fixture
async def feeding(database_url: str) -> AsyncIterator[FastAPI]:
    """Run an application that feeds the projections."""
    made = create_app(settings(projections=True), database_url)
    async with made.router.lifespan_context(made):
        yield made


async def test_a_service_feeds_its_projections(feeding: FastAPI) -> None:
    """By default a service feeds them itself, its own appends at once; when it stops its leases are free."""
    transport = httpx2.ASGITransport(app=feeding)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await new_game(client, "g1", started(), *map(moved, FOOLS_MATE), mate())
        assert (await client.get("/v1/games/g1?min_seq=7")).json()["status"] == "checkmate"
        assert len((await client.get("/v1/games/g1/moves?min_seq=7")).json()["moves"]) == 4
        assert (await client.get("/v1/projections/games")).json()["live"]["held"] is True


async def test_what_goes_on_ends_with_the_service(database_url: str) -> None:
    """A check that is running when the service stops does not hold it up."""
    made = create_app(settings(projections=True), database_url)
    ended = asyncio.Event()

    async def never(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with mock.patch.object(Engine, "verify", never):
        async with made.router.lifespan_context(made):
            transport = httpx2.ASGITransport(app=made)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                response = await client.post("/v1/projections/games/verify")
                assert response.json()["verify"]["status"] == "running"
        assert ended.is_set()


async def test_a_commit_wakes_the_engine_and_who_follows(database_url: str) -> None:
    """With polls hours apart, a commit of this process is read at once by projections and by those who wait for it."""
    made = create_app(settings(projections=True, poll_interval=3600.0), database_url)
    async with made.router.lifespan_context(made):
        services: Services = made.state.services
        waiting = asyncio.create_task(services.watcher.wait_beyond("g1", 1))
        with mock.patch.object(services.projections.engine, "wake") as wake:
            transport = httpx2.ASGITransport(app=made)
            async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                await new_game(client, "g1", started())
            assert wake.called
        assert await waiting == 2


async def test_feeding_that_fails_does_not_take_the_service_down(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends the engine's run is logged and it begins again; the service answers all the while."""
    runs: list[int] = []

    async def run(engine: Engine) -> None:
        runs.append(len(runs))
        if len(runs) % 2:
            raise ZeroDivisionError

    monkeypatch.setattr(Engine, "run", run)
    monkeypatch.setattr(projecting, "_PAUSES", (0.001, 0.002))
    made = create_app(settings(projections=True), database_url)
    async with made.router.lifespan_context(made):
        transport = httpx2.ASGITransport(app=made)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await wait_for(lambda: len(runs) > 4, "it begins again")
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post("/v1/worlds", json={"world_id": "w"})).status_code == 201
