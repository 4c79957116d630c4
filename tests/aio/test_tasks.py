"""Tasks that end together: the first of several, all of them, or one beside a block."""

from __future__ import annotations

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest

from worldledger.aio import all_of, first_of, running, to_its_end, until_done


class _Work:
    """Work that ends when it is told to, and says how it ended."""

    def __init__(self, result: object = None) -> None:
        self.result = result
        self.go = asyncio.Event()
        self.ended = ""

    async def __call__(self) -> Any:
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # tidying up takes a moment
            self.ended = "cancelled"
            raise
        self.ended = "done"
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


async def test_the_first_to_end_ends_the_others() -> None:
    """The others are cancelled, and have ended when the call returns."""
    works = [_Work(1), _Work(2), _Work(3)]
    works[1].go.set()
    first, second, third = await first_of(*(work() for work in works))
    assert second is not None
    assert (first, second.result(), third) == (None, 2, None)
    assert [work.ended for work in works] == ["cancelled", "done", "cancelled"]


async def test_an_error_stays_in_its_task() -> None:
    """The first to end may fail: its caller looks at its task."""
    work, failing = _Work(), _Work(ValueError("no"))
    failing.go.set()
    other, failed = await first_of(work(), failing())
    assert other is None
    assert failed is not None
    assert isinstance(failed.exception(), ValueError)


async def test_all_that_have_ended_are_returned() -> None:
    """Two that end at the same moment both have."""
    works = [_Work(1), _Work(2)]
    for work in works:
        work.go.set()
    assert [task and task.result() for task in await first_of(*(work() for work in works))] == [1, 2]


async def test_none_may_be_first() -> None:
    """After the timeout all are cancelled; so is one that cancels itself."""
    work = _Work()
    assert await first_of(work(), timeout=0.001) == [None]
    assert work.ended == "cancelled"

    async def cancelled() -> None:
        raise asyncio.CancelledError

    assert await first_of(cancelled(), _Work()()) == [None, None]


@pytest.mark.parametrize("call", [first_of, lambda *works: all_of(works)])
async def test_a_cancelled_caller_leaves_nothing_behind(call: Any) -> None:
    """When the caller is cancelled, its works are, and have ended."""
    works = [_Work(), _Work()]
    calling = asyncio.create_task(call(*(work() for work in works)))
    await asyncio.sleep(0.001)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert [work.ended for work in works] == ["cancelled", "cancelled"]


async def test_a_caller_that_is_cancelled_twice_waits_for_its_works() -> None:
    """They are told to stop once more, and none outlives it."""
    ended: list[str] = []

    async def tidies_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(3600)
            await asyncio.sleep(0.001)
            ended.append("work")

    calling = asyncio.create_task(first_of(tidies_up()))
    for _ in range(2):
        await asyncio.sleep(0.001)
        calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    assert ended == ["work"]


async def test_what_ends_is_waited_for_however_often_the_caller_is_cancelled() -> None:
    """The caller is cancelled once all are done, or after its seconds; and at once where they are done already."""
    for seconds, is_done in ((None, True), (60.0, True), (0.002, False)):
        future = asyncio.get_running_loop().create_future()
        calling = asyncio.create_task(until_done([future], seconds))
        for _ in range(3):
            await asyncio.sleep(0)
            calling.cancel()
        await asyncio.sleep(0)
        assert not calling.done()
        if is_done:
            future.set_result(None)
        with pytest.raises(asyncio.CancelledError):
            await calling
        assert future.done() is is_done
        await until_done([future], 0.0)


async def test_the_first_error_of_all_is_raised() -> None:
    """All are waited for; an error cancels the others and is raised by itself."""
    works = [_Work(1), _Work(ValueError("no")), _Work(3)]
    calling = asyncio.create_task(all_of(work() for work in works))
    works[0].go.set()
    await asyncio.sleep(0.001)
    assert not calling.done()
    works[1].go.set()
    with pytest.raises(ValueError, match="no"):
        await calling
    assert [work.ended for work in works] == ["done", "done", "cancelled"]


async def test_what_runs_beside_a_block_ends_with_it() -> None:
    """At the end of the block, however it ends, the work is cancelled and has ended."""
    work = _Work()
    with pytest.raises(ValueError, match="no"):
        async with running(work()) as task:
            assert not task.done()
            raise ValueError("no")
    assert task.cancelled()


async def test_a_caller_that_is_cancelled_at_the_end_keeps_nothing_alive() -> None:
    """One that is cancelled while it waits for the others to end is let go at once, with all that it holds."""
    held = _Work()
    watched = weakref.ref(held)

    async def other() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.sleep(0)
            raise

    async def calling(_: _Work) -> None:
        await first_of(asyncio.sleep(0), other())

    gc.disable()
    try:
        task = asyncio.create_task(calling(held))
        del held
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0)
        assert watched() is None
    finally:
        gc.enable()


async def test_work_is_done_to_its_end() -> None:
    """It goes on where its caller is cancelled, and the caller ends with it; it is cancelled when its time is over."""
    for seconds, ended in ((60.0, "done"), (0.0, "cancelled")):
        work = _Work()
        task = asyncio.create_task(to_its_end(work(), seconds))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        if seconds:
            work.go.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert work.ended == ended
