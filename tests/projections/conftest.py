"""Engines for these tests, each as if in a process of its own, on a database that only one test uses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest
from worldledger_projections.base import Projection
from worldledger_service.database.engine import connect_pool
from worldledger_service.projecting.engine import Engine
from worldledger_service.store import Store

from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    Pool = asyncpg.Pool[asyncpg.Record]
    Connection = asyncpg.Connection[asyncpg.Record]

#: Short, so that tests need not wait; what is tested does not hang on them.
QUICK: dict[str, Any] = {"poll_interval": 0.02, "lease_ttl": 0.6, "grace": 0.0}


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Pool]:
    """Return connections that work as the service's role."""
    opened = await connect_pool(database_url, min_size=1, max_size=8)
    yield opened
    await opened.close()


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[Connection]:
    """Return a superuser's own connection."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


@pytest.fixture
def make_engine(pool: Pool, store: Store) -> Callable[..., Engine]:
    """Return a maker of engines."""

    def make(projections: Sequence[Projection], **parameters: Any) -> Engine:
        return Engine(parameters.pop("on", pool), store.reader, store.states, projections, **{**QUICK, **parameters})

    return make


@pytest.fixture
async def running() -> AsyncIterator[Callable[[Engine], Any]]:
    """Return a context in which an engine runs."""

    @asynccontextmanager
    async def run(engine: Engine) -> AsyncIterator[asyncio.Task[None]]:
        task = asyncio.get_running_loop().create_task(engine.run())
        try:
            yield task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async with AsyncExitStack():
        yield run


@pytest.fixture
async def worlds(store: Store) -> Callable[[int], Awaitable[list[str]]]:
    """Return a maker of sandbox worlds."""

    async def make(count: int, prefix: str = "w") -> list[str]:
        names = [f"{prefix}{n:03d}" for n in range(count)]
        for name in names:
            await store.create_world(NewWorld(world_id=name))
        return names

    return make
