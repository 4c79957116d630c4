"""Long computations beside the event loop: one at a time, so that requests keep their share of the interpreter.

A thread that computes holds the interpreter for a switch interval (0.5 ms in the service, 5 ms elsewhere) at a time,
and each of several threads does. With one of them a request that waits for the database a few times loses a few such
intervals; with many it would lose as many times more. Work is handed over in pieces of a fraction of a second, and the
pieces of all callers take turns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class Aside:
    """A thread for computations that share nothing with the event loop while they run."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="worldledger-aside")

    async def run(self, func: Callable[[], T]) -> T:
        """Return what the function returns, once it has been its turn. A caller that is cancelled leaves it running."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, func)

    def close(self) -> None:
        """Take no more; what waits is dropped."""
        self._executor.shutdown(wait=False, cancel_futures=True)
