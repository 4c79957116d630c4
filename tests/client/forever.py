"""A test that does not end by itself; test_interrupting runs it in a process of its own."""

from __future__ import annotations

import asyncio

from worldledger.client import Client


async def test_wait(client: Client) -> None:
    """Wait for ever for a service that is there."""
    print(f"\nconnected to {client.world_id}", flush=True)  # noqa: T201
    await asyncio.Event().wait()
