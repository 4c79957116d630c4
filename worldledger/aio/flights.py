"""Work that is done once for all concurrent callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, Generic, TypeVar

from worldledger.errors import StoreUnavailableError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


async def join(task: asyncio.Task[T]) -> T:
    """Return a task's result; a cancelled caller leaves it running for the others.

    Raises StoreUnavailableError if the task itself was cancelled because its owner is being closed.
    """
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if task.cancelled() and not (caller is not None and caller.cancelling()):
            raise StoreUnavailableError("the world is being closed") from None
        raise


class SingleFlight(Generic[K, T]):
    """Calls by key, each in a task of its own: a call with the same key waits for the task that is under way.

    A caller that is cancelled, or has waited long enough, leaves the task running for the others.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: K, make: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Return the task under way, or a new one that runs ``make``."""
        task = self._tasks.get(key)
        if task is None or task.done():  # a finished task shows an earlier moment
            task = self._tasks[key] = asyncio.get_running_loop().create_task(make())
            task.add_done_callback(partial(self._ended, key))
        return task

    async def join(self, key: K, make: Callable[[], Coroutine[Any, Any, T]], timeout: float | None = None) -> T:
        """Return the task's result, or raise its error; see `join`. Raises TimeoutError after ``timeout``."""
        task = self.begin(key, make)
        async with asyncio.timeout(timeout):
            return await join(task)

    async def close(self) -> None:
        """Cancel the tasks under way; waiting calls get an error."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, key: K, task: asyncio.Task[T]) -> None:
        if self._tasks.get(key) is task:
            del self._tasks[key]
        if not task.cancelled():
            task.exception()  # retrieved, even if no caller is left
