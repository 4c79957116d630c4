"""Waiting until something holds; the limits only turn a hang into a failure."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any


async def wait_for(condition: Callable[[], Any], what: str = "what was waited for", seconds: float = 120.0) -> Any:
    """Wait until a condition holds, which may be a coroutine; return what it comes to."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = condition()
        if inspect.iscoroutine(found):
            found = await found
        if found:
            return found
        assert loop.time() < deadline, f"never happened: {what}"
        await asyncio.sleep(0.002)


def block_until(condition: Callable[[], Any], what: str, seconds: float = 120.0) -> Any:
    """Wait until a condition holds, without an event loop; return what it comes to."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(0.01)
    return found
