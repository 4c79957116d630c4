"""Waiting until something holds, where limits only turn a hang into a failure; and what happens in one turn."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


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


@contextmanager
def calls_by_turn(owner: type, method: str) -> Iterator[Counter[int]]:
    """Count the calls of a method in each turn of the event loop until the end of the block."""
    loop, original = asyncio.get_running_loop(), getattr(owner, method)
    counted: Counter[int] = Counter()
    turn, is_over = 0, False

    def begin() -> None:
        nonlocal turn
        turn += 1
        if not is_over:
            loop.call_soon(begin)

    def called(*arguments: Any) -> Any:
        counted[turn] += 1
        return original(*arguments)

    begin()
    try:
        with mock.patch.object(owner, method, called):
            yield counted
    finally:
        is_over = True
