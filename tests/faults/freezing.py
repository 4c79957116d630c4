"""Servers that are frozen or gone, and clients that are told so."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
from worldledger_service.database import embedded

#: A service whose store tries and whose statements run for ever, so that whoever waited for those would, too; and whose
#: callers are patient for little longer than a server takes to answer.
UNTIRING: Final[dict[str, Any]] = {"append_deadline": 3600, "command_timeout": 3600, "outage_patience": 0.5}
#: Seconds in which an answer has to come: generous, and little beside the above.
SOON: Final = 60


def _server(home: Path) -> tuple[int, psutil.Process]:
    status = embedded.status(home)
    assert status is not None
    assert status.postmaster_pid is not None
    return status.supervisor_pid, psutil.Process(status.postmaster_pid)


@contextmanager
def frozen(home: Path) -> Iterator[None]:
    """Freeze a server and all of its sessions: nothing fails, and nobody is answered."""
    _, postmaster = _server(home)
    postmaster.suspend()  # first, so that no more of them come
    sessions = postmaster.children(recursive=True)
    for each in sessions:
        with suppress(psutil.NoSuchProcess):
            each.suspend()
    try:
        yield
    finally:
        for each in [*sessions, postmaster]:
            with suppress(psutil.NoSuchProcess):
                each.resume()


@contextmanager
def stopped(home: Path) -> Iterator[None]:
    """Kill a server, and keep its supervisor from starting it again."""
    supervisor, postmaster = _server(home)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        for each in [postmaster, *postmaster.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)


@asynccontextmanager
async def calling(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Return a client for very many calls at once."""
    limits = httpx2.Limits(max_connections=200)
    async with httpx2.AsyncClient(base_url=url, timeout=SOON, limits=limits) as http:
        yield http


def refused(answer: httpx2.Response, *codes: str) -> bool:
    """Check that an answer says when to come again; tell whether what was sent may be under way."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    problem = answer.json()
    assert problem["code"] in codes
    assert problem["recovery"] == "retry_with_delay"
    return bool(problem.get("outcome") == "unknown")
