"""One database for all of these tests, which only read it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from worldledger_service.database.engine import connect_one
from worldledger_service.projecting.engine import Engine
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from .worlds import make_all, make_extremes


@pytest.fixture(scope="session")
def answers_url(servers: Any) -> Iterator[str]:
    """Return the address of a database with all worlds, and their projections."""
    yield from _made(servers, make_all)


@pytest.fixture(scope="session")
def extremes_url(servers: Any) -> Iterator[str]:
    """Return the address of a database with worlds of very large numbers, and their projections."""
    yield from _made(servers, make_extremes)


def _made(servers: Any, make: Callable[[str], Awaitable[None]]) -> Iterator[str]:
    url = servers.create("embedded", servers.template("embedded"))
    asyncio.run(_make(url, make))
    yield url
    servers.drop("embedded", url)


async def _make(url: str, make: Callable[[str], Awaitable[None]]) -> None:
    await make(url)
    async with (
        Store.open(url, Settings(pool_size=2)) as store,
        Engine.open(store, url, Settings()) as projections,
    ):
        await projections.run_until_caught_up(timeout=60)


@pytest.fixture
async def connection(answers_url: str) -> AsyncIterator[Any]:
    """Return a connection as the service has it."""
    opened = await connect_one(answers_url, role="worldledger_service")
    yield opened
    await opened.close()
