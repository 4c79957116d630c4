"""Tests that do not end by themselves; test_interrupting runs them in a process of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from tests.api.helpers import Served
from worldledger.client import Client


@pytest.fixture
async def client(served: Served) -> AsyncIterator[Client]:
    """Talk to a service of this very loop."""
    async with Client(served.url, "town") as made:
        assert await made.create_world()
        yield made


async def test_wait(client: Client) -> None:
    """Wait for ever beside a service that is there, and swallow what asyncio makes of a signal."""
    print(f"\nconnected to {client.world_id}", flush=True)  # noqa: T201
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def test_another(client: Client) -> None:
    """Wait in the next test; nothing comes after an interrupted one, even if that has swallowed its cancellation."""
    print("another", flush=True)  # noqa: T201
    await asyncio.Event().wait()
