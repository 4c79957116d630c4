"""Processors apart: this process on some of the machine's, the database server on the others.

With few processors the scheduler moves two processes that wait for each other from one to another, and whoever comes
onto a processor where another has worked meanwhile finds nothing in its caches. That is what a comparison of two ways
to write one row then measures first: the more code a way has, the more it pays.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import psutil


@asynccontextmanager
async def apart(connection: asyncpg.Connection) -> AsyncIterator[bool]:
    """Have this process and the server of a connection on processors of their own until the end of the block.

    Gives False, and changes nothing, where there is one processor only, or the system has no way to do it.
    """
    processors = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    half = len(processors) // 2
    if not half:
        yield False
        return
    backend = psutil.Process(await connection.fetchval("select pg_backend_pid()"))
    server = backend.parent()
    assert server is not None
    try:
        _place(psutil.Process(), processors[:half])
        for process in (server, *server.children()):  # those that it starts from now on follow it
            _place(process, processors[half:])
        yield True
    finally:
        for process in (psutil.Process(), server, *server.children()):
            _place(process, processors)


def _place(process: psutil.Process, processors: list[int]) -> None:
    for thread in process.threads():
        os.sched_setaffinity(thread.id, processors)
