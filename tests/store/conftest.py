"""Stores on a real database: one database and one store for the folder, a world for each test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
import pytest_asyncio
from worldledger_service.store import EventLog, Store

from tests.conftest import quick_settings
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    from tests.conftest import Servers

    from .helpers import Connection

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of one database for all tests of this folder on that server."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def database_url(shared_url: str) -> str:
    """Return the shared database's address: a database for each test would take most of the time."""
    return shared_url


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def store(shared_url: str) -> AsyncIterator[Store]:
    """Open a store that the tests share."""
    async with Store.open(shared_url, quick_settings()) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="session")
async def admin(database_url: str) -> AsyncIterator[Connection]:
    """Return a superuser's own connection."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
def world_id() -> str:
    """Return the name of a world that only this test uses."""
    return f"w-{next(_numbers)}"


@pytest_asyncio.fixture(loop_scope="session")
async def log(store: Store, world_id: str) -> EventLog:
    """Return the log of a new world in which any draft may set sim_time."""
    await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
    return await store.log(world_id)


@pytest_asyncio.fixture(loop_scope="session")
async def open_store(database_url: str) -> AsyncIterator[Callable[..., Awaitable[Store]]]:
    """Return an opener of further stores, each as if in a process of its own: ``settings=``, ``clock=`` …"""
    async with AsyncExitStack() as stack:

        async def opened(url: str = database_url, *, clock: Any = None, new_uuid: Any = None, **settings: Any) -> Store:
            more = {} if clock is None else {"clock": clock}
            wanted = quick_settings(**{"pool_size": 3, **settings})
            return await stack.enter_async_context(Store.open(url, wanted, new_uuid=new_uuid, **more))

        yield opened
