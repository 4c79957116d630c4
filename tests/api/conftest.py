"""An application on a database of its own, clients for it, and worlds in it."""

from __future__ import annotations

import asyncio
import itertools
from asyncio import AbstractEventLoop
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from urllib.parse import urlsplit

import httpx2
import pytest
import pytest_asyncio
import uvloop
from fastapi import FastAPI
from worldledger_service.api.context import Services
from worldledger_service.app import create_app

from tests.conftest import Servers

from .helpers import Served, catch_up, serving, settings, shares
from .living import new_world, register

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
    read = {"played", "game"} & set(request.fixturenames)
    url = servers.create(server_kind, request.getfixturevalue("built") if read else servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture(scope="session")
def built(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return the name of a database without worlds to clone, in which every projection has its table."""
    url = servers.create(server_kind, servers.template(server_kind))

    async def build() -> None:
        made = create_app(settings(), url)
        async with made.router.lifespan_context(made):
            await catch_up(made.state.services)

    asyncio.run(build())
    yield urlsplit(url).path[1:]
    servers.drop(server_kind, url)


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
async def shared_client(shared_app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the application that a module's tests share."""
    transport = httpx2.ASGITransport(app=shared_app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture
def services(app: FastAPI) -> Services:
    """Return what the application's routes are handed."""
    found: Services = app.state.services
    return found


@pytest.fixture
def client(request: pytest.FixtureRequest, app: FastAPI) -> httpx2.AsyncClient:
    """Talk to the application."""
    found: httpx2.AsyncClient = request.getfixturevalue("shared_client" if shares(request) else "own_client")
    return found


@pytest.fixture
async def own_client(app: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the application of one test."""
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as made:
        yield made


@pytest.fixture
def world(request: pytest.FixtureRequest, client: httpx2.AsyncClient) -> str:
    """Create a world whose drafts may set sim_time; return its name: ``town``, unless tests share a database."""
    return str(request.getfixturevalue("shared_world" if shares(request) else "own_world"))


@pytest.fixture
async def own_world(client: httpx2.AsyncClient) -> str:
    """Create the world ``town``."""
    return await _made(client, "town")


@pytest_asyncio.fixture(loop_scope="module")
async def shared_world(client: httpx2.AsyncClient) -> str:
    """Create a world for one test in the database that several share."""
    return await _made(client, f"town-{next(_numbers)}")


async def _made(client: httpx2.AsyncClient, world_id: str) -> str:
    response = await client.post("/v1/worlds", json={"world_id": world_id, "time_authority": "client"})
    assert response.status_code == 201, response.text
    return world_id


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    """Serve on a real socket."""
    async with serving(database_url) as made:
        yield made


@pytest.fixture
async def remote(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the served application; the world ``town`` is there."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as made:
        response = await made.post("/v1/worlds", json={"world_id": "town", "time_authority": "client"})
        assert response.status_code == 201, response.text
        yield made


@pytest.fixture
async def inhabited(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the served application; alice and bob live in the world ``town``, whose head is 3."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as made:
        await new_world(made)
        await register(made, "alice", "bob")
        yield made
