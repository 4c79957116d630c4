"""A few ADBC connections to a database of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest
from worldledger_service.arrow.connections import Connections
from worldledger_service.arrow.reading import Effects


@pytest.fixture
async def connections(database_url: str) -> AsyncIterator[Connections]:
    """Return connections as the service has them."""
    made = Connections(database_url, most=2, timeout=100)
    yield made
    await made.close()


@pytest.fixture
def effects(connections: Connections) -> Effects:
    """Return what reads effects."""
    return Effects(connections)


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    """Return a superuser's own connection."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()
