"""Joining: awaiting what others await too."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from worldledger.errors import StoreUnavailableError

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
