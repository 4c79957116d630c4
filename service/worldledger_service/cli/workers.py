"""Worker processes for a computation; none is left behind.

Workers only read, so they are killed when they are no longer wanted, and when this process dies they end by
themselves. Ctrl-C is this process's alone. Those of `share_out` have an event loop and a connection to the database of
their own each, and do the jobs that they are sent, one after another.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from worldledger.aio import all_of
from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store
    from worldledger_service.store.reader import Reader

T = TypeVar("T")

#: Sends something to the process that gave the job.
Tell: TypeAlias = Callable[[Any], None]
#: Opens what the jobs need of a database: `open_store`, or `open_reader`, which takes half the time. This and the next
#: one are functions of a module, because they are passed to another process by name.
Open: TypeAlias = "Callable[[str, Settings], AbstractAsyncContextManager[T]]"
#: Does one job with that.
Work: TypeAlias = Callable[[T, Any, Tell], Coroutine[Any, Any, None]]

#: Database connections of one worker, at most.
CONNECTIONS: Final = 4


def processors() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@asynccontextmanager
async def open_store(url: str, settings: Settings) -> AsyncIterator[Store]:
    """Open the store at an address."""
    from worldledger_service.store import Store  # noqa: PLC0415 - not every worker has one, and it takes a while

    async with Store.open(url, settings) as store:
        yield store


@asynccontextmanager
async def open_reader(url: str, settings: Settings) -> AsyncIterator[Reader]:
    """Open the log at an address, to be read."""
    from worldledger_service.store.reader import Reader  # noqa: PLC0415 - see `open_store`

    async with Reader.open(url, settings) as reader:
        yield reader


async def share_out(
    url: str,
    settings: Settings,
    opened: Open[T],
    work: Work[T],
    jobs: Sequence[Any],
    count: int,
    heard: Callable[[Any], None],
) -> None:
    """Do the jobs in ``count`` processes, in order; ``heard`` is called with each message of theirs.

    Raises SimulationError if a worker raised one or ended early.
    """
    waiting = deque(jobs)
    settings = settings.model_copy(update={"pool_size": CONNECTIONS, "database_url": None})
    with started(_work, (url, settings, opened, work), count) as workers:
        await all_of(_drive(*worker, waiting, heard) for worker in workers)


async def _drive(
    process: BaseProcess, connection: Connection, waiting: deque[Any], heard: Callable[[Any], None]
) -> None:
    try:
        while waiting:
            connection.send(waiting.popleft())
            while (message := await received(process, connection)) is not None:
                if isinstance(message, SimulationError):
                    raise message
                heard(message[0])
    except (EOFError, OSError):
        raise _ended(process) from None


async def received(process: BaseProcess, connection: Connection) -> Any:
    """Wait for a worker's next message without blocking the loop. Raises SimulationError if the worker has ended."""
    try:
        return await _received(connection)
    except (EOFError, OSError):
        raise _ended(process) from None


def _ended(process: BaseProcess) -> SimulationError:
    process.join(1)
    return SimulationError(f"a process that shared the work has ended (exit code {process.exitcode})")


async def _received(connection: Connection) -> Any:
    loop = asyncio.get_running_loop()
    if not connection.poll():
        readable = asyncio.Event()
        loop.add_reader(connection.fileno(), readable.set)
        try:
            await readable.wait()
        finally:
            loop.remove_reader(connection.fileno())
            os.set_blocking(connection.fileno(), True)  # uvloop has it otherwise
    return connection.recv()


@contextmanager
def started(
    target: Callable[..., None], arguments: tuple[Any, ...], count: int
) -> Iterator[list[tuple[BaseProcess, Connection]]]:
    """Yield workers, which run ``target(connection, *arguments)``, with connections to them; kill them at the end.

    ``target`` is a module's function: it is passed to another process by name.
    """
    context = multiprocessing.get_context("spawn")  # a fork would share this process's connections and loop
    resource_tracker.ensure_running()  # else the first worker starts it, which lets signals through again
    workers: list[tuple[BaseProcess, Connection]] = []
    try:
        # What is blocked here is blocked in them for ever: a Ctrl-C that is typed reaches the whole group.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for _ in range(count):
                ours, theirs = context.Pipe()
                process: BaseProcess = context.Process(target=target, args=(theirs, *arguments), daemon=True)
                with _nameless_program():
                    process.start()
                theirs.close()
                workers.append((process, ours))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield workers
    finally:
        for process, connection in workers:
            process.kill()
            connection.close()
        for process, _ in workers:
            process.join()


@contextmanager
def _nameless_program() -> Iterator[None]:
    """Keep a spawned process from running this program's main file first."""
    program = vars(sys.modules["__main__"])
    file = program.pop("__file__", None)
    try:
        yield
    finally:
        if file is not None:
            program["__file__"] = file


# -- in a worker ---------------------------------------------------------------------------------------------


def _work(connection: Connection, url: str, settings: Settings, opened: Open[T], work: Work[T]) -> None:
    import uvloop  # noqa: PLC0415

    from worldledger_service.cli.connect import log_to_stderr  # noqa: PLC0415 - not every worker has a database, and it takes a while

    log_to_stderr()
    try:
        uvloop.run(_serve(connection, url, settings, opened, work))
    except OSError:  # the process that gave the jobs is gone
        os._exit(1)


async def _serve(connection: Connection, url: str, settings: Settings, opened: Open[T], work: Work[T]) -> None:
    jobs: asyncio.Queue[Any] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def listen() -> None:
        while True:
            try:
                job = connection.recv()
            except (EOFError, OSError):  # the process that gave the jobs is gone
                os._exit(1)
            loop.call_soon_threadsafe(jobs.put_nowait, job)

    threading.Thread(target=listen, daemon=True).start()
    try:
        async with opened(url, settings) as lent:
            while True:
                await work(lent, await jobs.get(), lambda message: connection.send((message,)))
                connection.send(None)
    except SimulationError as error:
        # As a plain one: others cannot be sent, because they keep something else than what they are made of.
        connection.send(SimulationError(error.message))
