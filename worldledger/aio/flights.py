"""Work that is done once for all who ask for it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from worldledger.errors import StoreUnavailableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def join(task: asyncio.Task[T]) -> T:
    """Return a task's result; a caller that goes away leaves it running for the others.

    Raises StoreUnavailableError where the task itself was cancelled: what it was for is being closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and not (caller is not None and caller.cancelling()):
            raise StoreUnavailableError("the world is being closed") from None
        raise


class SingleFlight(Generic[K, T]):
    """Calls by key, each made by a task of its own: who asks for the same while it is under way waits for that task.

    A caller that goes away, or has waited long enough, leaves the task running for the others.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the task under way, or a new one that runs ``make``."""
        task = self._tasks.get(key)
        if task is None or task.done():  # what is done tells of a moment before this one
            task = self._tasks[key] = asyncio.get_running_loop().create_task(make())
            task.add_done_callback(partial(self._ended, key))
        return task

    async def join(self, key: K, make: Callable[[], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Return what the task returns, or raise what it raises; see `join`. Raises TimeoutError after ``timeout``."""
        task = self.begin(key, make)
        async with asyncio.timeout(timeout):
            return await join(task)

    async def close(self) -> None:
        """Cancel what is under way; those who wait are told."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: K, task: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # seen, also where everybody has left
