"""Tests that do not end by themselves; test_interrupting runs them in a process of their own."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from worldledger.client import Client


async def test_wait(client: Client) -> None:
    """Wait for ever beside a service that is there, and swallow what asyncio makes of a signal."""
    print(f"\nconnected to {client.world_id}", flush=True)  # noqa: T201
    with suppress(asyncio.CancelledError):
        await asyncio.Event().wait()


async def test_another(client: Client) -> None:
    """Wait in the next test; nothing comes after an interrupted one, even if that has swallowed its cancellation."""
    print("another", flush=True)  # noqa: T201
    await asyncio.Event().wait()
