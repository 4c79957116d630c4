"""The service feeds the projections itself, and nothing that goes wrong there takes it down."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import mkstemp
from unittest import mock

import httpx2
import psutil
import pytest
import pytest_asyncio
from fastapi import FastAPI
from worldledger_service.api.context import Services
from worldledger_service.app import create_app
from worldledger_service.projecting import process as feeding_module
from worldledger_service.projecting.engine import Engine

from tests.cli.helpers import Running
from tests.waiting import wait_for

from .helpers import draft, settings


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def feeding(shared_url: str) -> AsyncIterator[FastAPI]:
    """Run an application that feeds the projections; a feeder that is gone is missed and replaced within a second."""
    made = create_app(settings(projections=True, projection_lease_ttl=0.5), shared_url)
    with mock.patch.object(feeding_module, "_PAUSE_SECONDS", (0.001, 0.002)):
        async with made.router.lifespan_context(made):
            yield made


@pytest.mark.asyncio(loop_scope="module")
async def test_a_service_feeds_its_projections(feeding: FastAPI) -> None:
    """By default a service feeds them itself; when it stops its leases are free."""
    transport = httpx2.ASGITransport(app=feeding)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await _speak(client, "w1", 6)
        await _until_fed(client, "w1", 7)
        assert (await client.get("/v1/projections/world_summaries")).json()["live"]["held"] is True


async def test_what_goes_on_ends_with_the_service(database_url: str) -> None:
    """A check that is running when the service stops does not hold it up."""
    made = create_app(settings(), database_url)
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
                response = await client.post("/v1/projections/entities/verify")
                assert response.json()["verify"]["status"] == "running"
        assert ended.is_set()


async def test_a_commit_wakes_who_feeds_and_who_follows(database_url: str) -> None:
    """With polls hours apart, a commit of this process is read at once by projections and by those who wait for it."""
    made = create_app(settings(projections=True, poll_interval=3600.0), database_url)
    async with made.router.lifespan_context(made):
        services: Services = made.state.services
        waiting = asyncio.create_task(services.watcher.wait_beyond("w1", 1))
        transport = httpx2.ASGITransport(app=made)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await _speak(client, "w1", 1)
            assert await waiting == 2
            await _until_fed(client, "w1", 2)
            await _speak(client, "w2", 1)
            await _until_fed(client, "w2", 2)


async def _speak(client: httpx2.AsyncClient, world_id: str, times: int) -> None:
    """Create a world, and append so many effects to it."""
    assert (await client.post("/v1/worlds", json={"world_id": world_id})).status_code == 201
    effects = await client.post(f"/v1/worlds/{world_id}/effects", json=[draft(n) for n in range(times)])
    assert effects.status_code == 201, effects.text


async def _until_fed(client: httpx2.AsyncClient, world_id: str, seq: int) -> None:
    """Wait until the projection of worlds has a world at a seq."""
    query = "select last_seq from world_summaries where world_id = :world_id"
    async with asyncio.timeout(60):
        while True:
            answer = await client.post("/v1/sql", json={"query": query, "params": {"world_id": world_id}})
            if answer.status_code == 200 and answer.json()["rows"] == [[seq]]:
                return
            await asyncio.sleep(0.01)


async def test_feeding_that_fails_does_not_take_the_service_down(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever ends the process that feeds is logged and it begins again; the service answers all the while."""
    runs = Path(mkstemp()[1])
    program = f"open({str(runs)!r}, 'a').write('x'); import sys; sys.exit(len(open({str(runs)!r}).read()) % 2)"
    monkeypatch.setattr(feeding_module, "_COMMAND", (sys.executable, "-c", program))
    monkeypatch.setattr(feeding_module, "_PAUSE_SECONDS", (0.001, 0.002))
    made = create_app(settings(projections=True), database_url)
    async with made.router.lifespan_context(made):
        transport = httpx2.ASGITransport(app=made)
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            await wait_for(lambda: runs.stat().st_size > 4, "it begins again")
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post("/v1/worlds", json={"world_id": "w"})).status_code == 201
    runs.unlink()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_killed_feeder_is_replaced(feeding: FastAPI) -> None:
    """A feeder that is killed is started again, and goes on where it was; what it counted begins anew."""
    transport = httpx2.ASGITransport(app=feeding)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        await _speak(client, "w2", 1)
        await _until_fed(client, "w2", 2)
        process = feeding.state.services.projector._process
        # Ctrl-C at the terminal is not for it; it stands back behind those who answer.
        assert os.getsid(process.pid) == process.pid
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == os.getpriority(os.PRIO_PROCESS, 0) + 5
        if (autogroup := Path(f"/proc/{process.pid}/autogroup")).exists():
            assert autogroup.read_text().endswith("nice 5\n")
        process.kill()
        await process.wait()
        await _speak(client, "w3", 6)
        await _until_fed(client, "w3", 7)
        await wait_for(lambda: feeding.state.services.projector.counters.effects > 0, "it tells what it has counted")
        assert "worldledger_projection_runner_effects_total" in (await client.get("/metrics")).text


def test_a_feeder_ends_with_its_parent(database_url: str, tmp_path: Path) -> None:
    """However the service ends, by SIGKILL even, the process that feeds for it is gone soon after."""
    program = tmp_path / "parent.py"
    program.write_text(
        "import asyncio, sys\n"
        "from worldledger_service.projecting.process import ProjectorProcess\n"
        "from worldledger_service.settings import Settings\n"
        "async def main():\n"
        "    async with ProjectorProcess.beside(sys.argv[1], Settings()) as feeding:\n"
        "        while not feeding.counters.batches and not feeding._process:\n"
        "            await asyncio.sleep(0.01)\n"
        "        print(feeding._process.pid, flush=True)\n"
        "        await asyncio.sleep(3600)\n"
        "asyncio.run(main())\n"
    )
    with Running(database_url, program=program) as parent:
        feeder = psutil.Process(int(parent.line()))
        parent.process.kill()
    feeder.wait(timeout=60)
