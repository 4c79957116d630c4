"""Databases for tests of the schema, which run on the newest and on the oldest PostgreSQL that is supported."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.database import schema

from .helpers import connected

if TYPE_CHECKING:
    from .helpers import Connection


@pytest.fixture(scope="module")
def shared_url(servers: Any, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of a migrated database for all tests of a module, which must leave it empty."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def two_empty_urls(make_database: Callable[..., str]) -> list[str]:
    """Return a superuser's addresses of two empty databases."""
    return [make_database(migrated=False) for _ in range(2)]


@pytest.fixture
async def admin(shared_url: str) -> AsyncIterator[Connection]:
    """Return a superuser's connection in a transaction that is rolled back after the test."""
    async with connected(shared_url) as connection:
        transaction = connection.transaction()
        await transaction.start()
        yield connection
        await transaction.rollback()


@pytest.fixture(scope="session")
def catalogues(servers: Any, server_kind: str) -> dict[str, list[str]]:
    """Return what a database has at each revision that never went further."""
    url = servers.create(server_kind, None)

    async def walk() -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for revision in schema.REVISIONS:
            await schema.upgrade(url, revision)
            async with connected(url) as connection:
                found[revision] = await schema.catalogue(connection)
        return found

    try:
        return asyncio.run(walk())
    finally:
        servers.drop(server_kind, url)
