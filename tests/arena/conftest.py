"""Arenas on a real database.

A test of one arena has games of its own in a shared database. A test of several arenas has a database to itself,
because each of them looks after every game that it finds.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest
from worldledger_chess.arena import Arena

from .helpers import Clock, Opening

if TYPE_CHECKING:
    from tests.conftest import Servers

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of one database for all tests that open one arena alone."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the test's arenas, which goes on only where the test says so, and is looked at often."""
    monkeypatch.setattr("worldledger_chess.arena.settling._LONGEST_SLEEP_SECONDS", 0.02)
    return Clock()


@pytest.fixture
async def opening(database_url: str, clock: Clock) -> AsyncIterator[Opening]:
    """Return what opens arenas on a database of the test's own, each as a process of its own would."""
    async with AsyncExitStack() as stack:
        yield Opening(database_url, clock, stack)


@pytest.fixture
async def arena(shared_url: str, clock: Clock) -> AsyncIterator[Arena]:
    """Return an arena that is open until the test ends, and leaves the games of other tests alone."""
    async with AsyncExitStack() as stack:
        yield await Opening(shared_url, clock, stack)(adopt=False)


@pytest.fixture
def game_id() -> str:
    """Return the name of a game that only this test uses."""
    return f"g-{next(_numbers)}"
