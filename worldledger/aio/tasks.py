"""Tasks that end together: the first of several, all of them, or one beside a block."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


async def first_of(*works: Coroutine[Any, Any, Any], timeout: float | None = None) -> list[asyncio.Task[Any] | None]:
    """Run all until the first has ended, or for ``timeout`` seconds; then cancel the others and wait for them.

    Returns a task for each, in their order, or None for one that had not ended or was cancelled. Errors stay in the
    tasks.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work) for work in works]
    ended: set[asyncio.Task[Any]] = set()
    try:
        ended, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    return [task if task in ended and not task.cancelled() else None for task in tasks]


async def all_of(works: Iterable[Coroutine[Any, Any, object]]) -> None:
    """Run all until they have ended; the first error cancels the others and is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


@asynccontextmanager
async def running(work: Coroutine[Any, Any, T]) -> AsyncIterator[asyncio.Task[T]]:
    """Run something beside the block, and cancel it at the end."""
    task = asyncio.get_running_loop().create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])
