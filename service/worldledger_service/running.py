"""Running a coroutine from code that is not a coroutine, whether or not an event loop runs in its thread.

`asyncio.run` refuses to run inside a running loop, and that is where notebooks and the bodies of coroutines are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

_T = TypeVar("_T")


def run_blocking(
    main: Coroutine[Any, Any, _T], *, loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> _T:
    """Run a coroutine to its end, and return what it returns or raise what it raises.

    In a thread without a running loop this is `asyncio.run`. Inside a running loop the coroutine runs in an event loop
    of its own, in another thread, with a copy of the caller's context variables; the caller's loop stands still
    meanwhile. ``loop_factory`` makes the new event loop (None: as the policy says).
    """

    def work() -> _T:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(main)

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return work()
    with ThreadPoolExecutor(1, "worldledger-blocking") as threads:
        return threads.submit(copy_context().run, work).result()
