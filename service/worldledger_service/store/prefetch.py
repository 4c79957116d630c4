"""Prefetching: the next batch is on its way while the present one is processed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

T = TypeVar("T")


@asynccontextmanager
async def prefetch(batches: AsyncIterator[T]) -> AsyncIterator[AsyncIterator[T]]:
    """Yield the same batches, with one of them prefetched; leaving the block early is fine.

    A reader that computes a lot between batches (hashes, say) would otherwise let the database wait for it, and then
    wait for the database.
    """
    following: list[asyncio.Task[T | None]] = []

    async def run() -> AsyncIterator[T]:
        following.append(asyncio.create_task(_next(batches)))
        while (batch := await following.pop()) is not None:
            following.append(asyncio.create_task(_next(batches)))
            await asyncio.sleep(0)  # lets its query leave before the reader gets busy
            yield batch

    try:
        yield run()
    finally:
        for task in following:
            task.cancel()
        await asyncio.gather(*following, return_exceptions=True)


async def _next(batches: AsyncIterator[T]) -> T | None:
    return await anext(batches, None)
