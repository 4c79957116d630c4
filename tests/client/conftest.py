"""Worlds to live in: one in this process, and one in a service on a real socket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import TypeAlias

import pytest

from service.runtime import Orchestrator
from tests.api.helpers import Served, serving, settings
from worldledger.client import Client, World

OpenWorld: TypeAlias = Callable[[], AbstractAsyncContextManager[World]]


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    """Serve on a real socket."""
    async with serving(database_url) as made:
        yield made


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    """Talk to the served world ``town``."""
    async with Client(served.url, "town") as made:
        assert await made.create_world()
        yield made


@pytest.fixture(params=["in process", "served"])
async def open_world(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[OpenWorld]:
    """Give what opens the world ``town``, wherever it lives, for as long as a block runs."""
    if request.param == "in process":
        yield partial(Orchestrator.open, database_url, world_id="town", settings=settings())
        return
    async with serving(database_url) as served:

        @asynccontextmanager
        async def open_remote() -> AsyncIterator[World]:
            async with Client(served.url, "town") as client:
                await client.create_world()
                yield client

        yield open_remote


@pytest.fixture
async def world(open_world: OpenWorld) -> AsyncIterator[World]:
    """Give the world ``town``, wherever it lives."""
    async with open_world() as made:
        yield made
