"""An application on a database of its own, clients for it, and worlds in it."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import httpx2
import pytest
import pytest_asyncio
import uvloop
from fastapi import FastAPI
from worldledger_service.api.context import Services
from worldledger_service.app import create_app

from tests.conftest import Servers

from .helpers import Served, WorldClient, serving, settings, shares
from .living import settle

_numbers = itertools.count(1)


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Callable[[], AbstractEventLoop]]:
    """Try what is started and sockets at their worst on the service's own event loop: loops differ in such things.

    With --thorough the sockets are tried on asyncio's loop, too.
    """
    usual: dict[str, Callable[[], AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    own: dict[str, Callable[[], AbstractEventLoop]] = {"uvloop": uvloop.new_event_loop}
    hostile = usual | own if item.config.getoption("thorough") else own
    return {"test_ws_hostile.py": hostile, "test_feeding.py": own, "test_leaving.py": own}.get(item.path.name, usual)


@pytest.fixture
def database_url(request: pytest.FixtureRequest, servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of a migrated database: the test's own, or that which the file's tests share.

    Where the projections are read they have their tables already.
    """
    if shares(request):
        yield str(request.getfixturevalue("shared_url"))
        return
    read = {"played", "projected"} & set(request.fixturenames)
    url = servers.create(server_kind, request.getfixturevalue("built") if read else servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def own_url(make_database: Callable[..., str]) -> str:
    """Return a superuser's address of a migrated database for this test alone, though others of its file share one."""
    return make_database()


@pytest.fixture
def app(request: pytest.FixtureRequest, database_url: str) -> FastAPI:
    """Run an application in this process, without a socket: the test's own, or that which the file's tests share."""
    found: FastAPI = request.getfixturevalue("shared_app" if shares(request) else "own_app")
    return found


@pytest.fixture
async def own_app(database_url: str) -> AsyncIterator[FastAPI]:
    """Run an application for one test."""
    made = create_app(settings(), database_url)
    async with made.router.lifespan_context(made):
        yield made


@pytest.fixture(scope="module")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of a migrated database that a module's tests share."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_app(shared_url: str) -> AsyncIterator[FastAPI]:
    """Run an application that a module's tests share; they run on the module's loop."""
    made = create_app(settings(), shared_url)
    async with made.router.lifespan_context(made):
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_client(shared_app: FastAPI) -> AsyncIterator[WorldClient]:
    """Talk to the application that a module's tests share."""
    async with WorldClient(transport=httpx2.ASGITransport(app=shared_app)) as made:
        yield made


@pytest.fixture
def services(app: FastAPI) -> Services:
    """Return what the application's routes are handed."""
    found: Services = app.state.services
    return found


@pytest.fixture
def world_name(request: pytest.FixtureRequest) -> str:
    """Return the name of the test's world, which is not there yet: ``town``, unless tests share a database."""
    return f"town-{next(_numbers)}" if shares(request) else "town"


@pytest.fixture
def client(app: FastAPI, world_name: str) -> WorldClient:
    """Talk to the application; there is nothing to close."""
    return WorldClient(transport=httpx2.ASGITransport(app=app), world=world_name)


@pytest.fixture
def world(request: pytest.FixtureRequest, client: WorldClient) -> str:
    """Create the client's world, whose drafts may set sim_time; return its name."""
    _of_its_loop(request, "world")
    return client.world


@pytest.fixture
async def own_world(client: WorldClient) -> None:
    """Create the world of one test."""
    await _make(client)


@pytest_asyncio.fixture(loop_scope="module")
async def shared_world(client: WorldClient) -> None:
    """Create a world for one test in the database that several share."""
    await _make(client)


async def _make(client: WorldClient) -> None:
    response = await client.post("/v1/worlds", json={"world_id": client.world, "time_authority": "client"})
    assert response.status_code == 201, response.text


def _of_its_loop(request: pytest.FixtureRequest, name: str) -> Any:
    """Return the fixture of that name that runs on the test's loop: that of tests which share, or of one alone."""
    return request.getfixturevalue(f"{'shared' if shares(request) else 'own'}_{name}")


@pytest.fixture
def served(request: pytest.FixtureRequest, world_name: str) -> Served:
    """Serve on a real socket: for the test alone, or for those that a file's tests share it with."""
    found: Served = _of_its_loop(request, "served")
    return replace(found, world=world_name)


@pytest.fixture
async def own_served(database_url: str) -> AsyncIterator[Served]:
    """Serve one test."""
    async with serving(database_url) as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_served(shared_url: str) -> AsyncIterator[Served]:
    """Serve the tests of a module, which must not stop it."""
    async with serving(shared_url) as made:
        yield made


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> WorldClient:
    """Talk to the served application; the client's world is there."""
    found: WorldClient = _of_its_loop(request, "remote")
    return found


@pytest.fixture
async def own_remote(served: Served) -> AsyncIterator[WorldClient]:
    """Talk to what serves one test."""
    async with served.client() as made:
        await _make(made)
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def shared_remote(served: Served) -> AsyncIterator[WorldClient]:
    """Talk to what serves a module's tests."""
    async with served.client() as made:
        await _make(made)
        yield made


@pytest.fixture
def inhabited(request: pytest.FixtureRequest) -> WorldClient:
    """Talk to the served application; alice and bob live in the client's world, whose head is 3."""
    found: WorldClient = _of_its_loop(request, "inhabited")
    return found


@pytest.fixture
async def own_inhabited(served: Served) -> AsyncIterator[WorldClient]:
    """Have alice and bob in the world of one test."""
    async with served.client() as made:
        await settle(made)
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def shared_inhabited(served: Served) -> AsyncIterator[WorldClient]:
    """Have alice and bob in a world for one test in the database that several share."""
    async with served.client() as made:
        await settle(made)
        yield made


@pytest.fixture
def town(request: pytest.FixtureRequest) -> WorldClient:
    """Talk to the application; alice and bob live in the client's world, whose head is 3."""
    found: WorldClient = _of_its_loop(request, "town")
    return found


@pytest.fixture
async def own_town(client: WorldClient) -> WorldClient:
    """Have alice and bob in the world of one test."""
    return await settle(client)


@pytest_asyncio.fixture(loop_scope="module")
async def shared_town(client: WorldClient) -> WorldClient:
    """Have alice and bob in a world for one test in the database that several share."""
    return await settle(client)
