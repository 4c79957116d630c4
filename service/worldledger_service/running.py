"""Running a coroutine from code that is not a coroutine, and the collector and the files of processes that run much.

`asyncio.run` refuses to run inside a running loop, and that is where notebooks and the bodies of coroutines are.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import Any, Final, TypeVar

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


# -- Python's garbage collector, in processes that make very many objects at a time -----------------------


def relax_gc(objects: int = 50_000) -> None:
    """Have the collector look only once so many more objects are there (see gc.set_threshold), from now on.

    A batch makes very many objects, none of which refer to each other in circles; looking through them took a fifth
    of the time of a rebuild, and a sixth of the writer's in an import of games. In the service all requests wait
    meanwhile: where agents came to a world of 1,000 agents, it looked through the views of those before them twice for
    each, up to 100 ms long.
    """
    gc.set_threshold(objects, 10, 10)


_pausing = threading.Lock()
_paused = 0


@contextmanager
def gc_paused() -> Iterator[None]:
    """Have the collector look at nothing until the end of the block, in whichever threads such blocks are.

    For what makes millions of objects in one call that no other thread gets in between: there it takes half the time.
    """
    global _paused  # noqa: PLW0603 - one collector for the whole process
    with _pausing:
        _paused += 1
        gc.disable()
    try:
        yield
    finally:
        with _pausing:
            _paused -= 1
            if not _paused:
                gc.enable()


#: Most files and connections that a process asks to have open at a time.
_MOST_FILES: Final = 65_536


def allow_files() -> None:
    """Have as many files and connections open as the process may (`ulimit -Hn`), up to 65,536.

    Shells allow 1,024, and a stream or a WebSocket takes one for as long as it lasts.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError, OSError):  # a system may have a limit of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
