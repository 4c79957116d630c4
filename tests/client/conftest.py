"""Worlds to live in: one in this process, and one in a service on a real socket.

The tests share a database and a service, which serves from a thread of its own; each has a world of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeAlias

import pytest
from worldledger_service.runtime import Orchestrator

from tests.api.helpers import Served, serving, settings
from tests.conftest import Servers
from worldledger.client import Client, World

OpenWorld: TypeAlias = Callable[[], AbstractAsyncContextManager[World]]
_numbers = itertools.count(1)


@pytest.fixture(scope="package")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of one database for the tests of this folder."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture(scope="package")
def service(shared_url: str) -> Iterator[str]:
    """Serve the shared database from a thread; return the URL."""
    ready: Future[tuple[str, Callable[[], object]]] = Future()

    async def serve() -> None:
        stop, loop = asyncio.Event(), asyncio.get_running_loop()
        async with serving(shared_url, poll_interval=1.0) as served:  # it looks on between the tests, too
            ready.set_result((served.url, lambda: loop.call_soon_threadsafe(stop.set)))
            await stop.wait()

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:
            if ready.done():
                raise
            ready.set_exception(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        url, stop = ready.result(60)
        yield url
        stop()
    finally:
        thread.join(60)


@pytest.fixture
def world_id() -> str:
    """Return the name of a world that only this test uses."""
    return f"town-{next(_numbers)}"


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    """Serve on a real socket, from the test's own loop, on a database of its own."""
    async with serving(database_url) as made:
        yield made


@pytest.fixture
async def client(service: str, world_id: str) -> AsyncIterator[Client]:
    """Talk to the test's world, which is served."""
    async with Client(service, world_id) as made:
        assert await made.create_world()
        yield made


@pytest.fixture(params=["in process", "served"])
def open_world(request: pytest.FixtureRequest, service: str, shared_url: str, world_id: str) -> OpenWorld:
    """Return what opens the test's world, wherever it lives, for as long as a block runs."""
    if request.param == "in process":
        return partial(Orchestrator.open, shared_url, world_id=world_id, settings=settings())

    @asynccontextmanager
    async def open_remote() -> AsyncIterator[World]:
        async with Client(service, world_id) as client:
            await client.create_world()
            yield client

    return open_remote


@pytest.fixture
async def world(open_world: OpenWorld) -> AsyncIterator[World]:
    """Return the test's world, wherever it lives."""
    async with open_world() as made:
        yield made
