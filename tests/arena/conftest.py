"""Arenas on a real database: one of its own for each test, because an arena looks after every game that it finds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from service.arena import Arena

from .helpers import Clock, Opening


@pytest.fixture
def clock() -> Clock:
    """Give the clock of the test's arenas, which goes on only where the test says so."""
    return Clock()


@pytest.fixture
async def opening(database_url: str, clock: Clock) -> AsyncIterator[Opening]:
    """Give what opens arenas on the test's database, each as a process of its own would."""
    async with AsyncExitStack() as stack:
        yield Opening(database_url, clock, stack)


@pytest.fixture
async def arena(opening: Opening) -> Arena:
    """Give an arena that is open until the test ends."""
    return await opening()
