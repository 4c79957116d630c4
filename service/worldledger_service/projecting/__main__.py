"""The process that feeds the projections for `serve`, started by `worldledger_service.projecting.process`.

Its order is one line of JSON on stdin: ``{"url": …, "settings": {…}}``. Any later input means that something was
appended. It feeds until stdin ends, which happens however its parent ends, and reports its counters on stdout, one line
of JSON at a time.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import structlog
import uvloop

from worldledger.aio import first_of, running
from worldledger.errors import SimulationError
from worldledger_service.logs import log_to_stderr
from worldledger_service.projecting.engine import Engine
from worldledger_service.running import relax_gc
from worldledger_service.settings import Settings
from worldledger_service.store import Store

#: The niceness of this process, compared with the one that answers requests (see nice(2)).
_NICENESS: Final = 5
_AUTOGROUP: Final = Path("/proc/self/autogroup")
#: Seconds between two reports.
_REPORTS: Final = 0.5
#: Longest order, in bytes.
_MOST_BYTES: Final = 1024 * 1024


async def _run() -> None:
    loop = asyncio.get_running_loop()
    orders = asyncio.StreamReader(limit=_MOST_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    first = await orders.readline()
    if not first:
        return  # the parent is gone already
    order: dict[str, Any] = json.loads(first)
    settings = Settings(**order["settings"])
    async with (
        Store.open(order["url"], settings) as store,
        Engine.open(store, order["url"], settings) as fed,
        running(_report(fed)),
    ):
        feeding, _ = await first_of(fed.run(), _listen(orders, fed))
        if feeding is not None:
            feeding.result()


async def _listen(orders: asyncio.StreamReader, fed: Engine) -> None:
    """Wake the engine on any input, until stdin ends."""
    while await orders.read(4096):
        fed.wake()


async def _report(fed: Engine) -> None:
    told = None
    while True:
        counted = asdict(fed.counters)
        if counted != told:
            sys.stdout.write(json.dumps(counted) + "\n")
            sys.stdout.flush()
            told = counted
        await asyncio.sleep(_REPORTS)


def main() -> None:
    """Feed until the parent ends."""
    with suppress(OSError):
        os.nice(_NICENESS)
    # Linux may share the processors among sessions without considering niceness (sched(7), autogroup).
    with suppress(OSError):
        _AUTOGROUP.write_text(str(_NICENESS))
    log_to_stderr()
    relax_gc()
    try:
        asyncio.Runner(loop_factory=uvloop.new_event_loop).run(_run())
    except BrokenPipeError:
        return  # the parent died during a report
    except SimulationError as error:
        structlog.get_logger("worldledger.projections").warning("projections cannot be fed yet", error=error.message)
        sys.exit(1)


if __name__ == "__main__":
    main()
