"""Feeding the projections beside a service, in a process of its own.

Otherwise the computations of feeding would delay requests, because a Python process computes one thing at a time. The
process ends with its parent, however that ends; one that fails is started again.
"""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

import structlog

from worldledger.aio import Backoff, running, until_done
from worldledger_service.projecting.engine import Counters

if TYPE_CHECKING:
    from worldledger_service.settings import Settings


#: The module that the process runs.
_COMMAND: Final = (sys.executable, "-m", "worldledger_service.projecting")
#: Seconds until it is restarted after it ended by itself; the pause doubles, up to the second number.
_PAUSE_SECONDS: Final = (1.0, 60.0)
#: Seconds to end in order.
_END_SECONDS: Final = 5.0
#: Seconds in which all commits are reported to it as one.
_GATHER_SECONDS: Final = 0.01

log = structlog.get_logger("worldledger.projections")


class ProjectorProcess:
    """The process that feeds, supervised; make it with `beside`."""

    def __init__(self, database_url: str, settings: Settings) -> None:
        values = settings.model_dump(mode="json", exclude={"database_url"})
        self._order = json.dumps({"url": database_url, "settings": values}).encode() + b"\n"
        self._process: Process | None = None
        self._telling: asyncio.TimerHandle | None = None
        #: its counters since the last start
        self.counters = Counters()

    @classmethod
    @asynccontextmanager
    async def beside(cls, database_url: str, settings: Settings) -> AsyncIterator[ProjectorProcess]:
        """Feed for the length of the block."""
        projector = cls(database_url, settings)
        async with running(projector._keep()):
            try:
                yield projector
            finally:
                if projector._telling is not None:
                    projector._telling.cancel()

    def wake(self) -> None:
        """Report an append, so that it is seen before the next poll."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_GATHER_SECONDS, self._tell)

    def _tell(self) -> None:
        self._telling = None
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError, RuntimeError):  # it may just have ended
                self._process.stdin.write(b"\n")

    async def _keep(self) -> None:
        """Run the process, and restart it when it ends, until cancelled."""
        loop = asyncio.get_running_loop()
        backoff = Backoff(*_PAUSE_SECONDS)
        while True:
            began = loop.time()
            try:
                code = await self._run()
                log.error("the process that feeds the projections ended; it is started again", code=code)
            except OSError as error:
                log.error("the process that feeds the projections cannot be started", error=str(error))  # noqa: TRY400
            if loop.time() - began > _PAUSE_SECONDS[1]:
                backoff.reset()
            await backoff.wait()

    async def _run(self) -> int:
        # A session of its own: keys typed at the terminal are for the parent, also while this one is still loading.
        process = self._process = await asyncio.create_subprocess_exec(
            *_COMMAND, stdin=PIPE, stdout=PIPE, start_new_session=True
        )
        assert process.stdin is not None  # noqa: S101 - asked for
        assert process.stdout is not None  # noqa: S101
        try:
            with suppress(OSError):
                process.stdin.write(self._order)
                await process.stdin.drain()
            async for line in process.stdout:
                with suppress(ValueError, TypeError):
                    self.counters = Counters(**json.loads(line))
            return await process.wait()
        finally:
            self._process = None
            await until_done([asyncio.create_task(_end(process))])


async def _end(process: Process) -> None:
    """End a process in order, or else kill it."""
    if process.returncode is not None:
        return
    if process.stdin is not None:
        process.stdin.close()
    for end in (process.terminate, process.kill):
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_SECONDS):
                await process.wait()
                return
        with suppress(ProcessLookupError):
            end()
    await process.wait()
