"""A service on a real socket, and a client for it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx2
import pytest

from tests.api.helpers import Served, serving


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[Served]:
    """Serve on a real socket."""
    async with serving(database_url) as made:
        yield made


@pytest.fixture
async def client(served: Served) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to the service."""
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as made:
        yield made
