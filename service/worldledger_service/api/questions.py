"""Questions to a database that may never answer: asked by a task of their own, and given up without being cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Questions:
    """What is asked at present, each question by one task at most, however many requests want to know.

    To cancel a call of the driver may itself take as long as the database is silent. So a request that has waited
    long enough goes without the answer; the task ends by itself, and until then whoever asks the same waits for it.
    """

    def __init__(self) -> None:
        self._tasks: dict[Callable[[], Coroutine[Any, Any, Any]], asyncio.Task[Any]] = {}

    async def ask(self, question: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> T:
        """Return the answer; questions that compare equal are the same.

        Raises TimeoutError if it has not come after so many seconds, and whatever the question raises.
        """
        task: asyncio.Task[T] | None = self._tasks.get(question)
        if task is None:
            task = self._tasks[question] = asyncio.get_running_loop().create_task(question())

            def ended(done: asyncio.Task[T]) -> None:
                del self._tasks[question]
                if not done.cancelled():
                    done.exception()  # seen, also where everybody has left

            task.add_done_callback(ended)
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError
        return task.result()
