"""Imports whose server dies under them: they end by themselves, name the cause, and nothing is half-written."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import pytest
from worldledger_service.database import embedded
from worldledger_service.database.embedded import EmbeddedServer

from tests.cli.helpers import Running, call
from tests.store.exports import effect, export_of, genesis, text
from tests.waiting import block_until

pytestmark = pytest.mark.slow

GAME = '[Event "Cup"]\n[White "Ann"]\n[Black "Bob"]\n[Round "1"]\n[Result "0-1"]\n\n1. f3 e5 2. g4 Qh4# 0-1\n\n'
_WAITING = """
    select count(*) from pg_stat_activity
    where datname = current_database() and application_name = 'worldledger' and wait_event_type = 'Lock'
"""


@contextmanager
def _stuck(url: str) -> Iterator[Callable[[], bool]]:
    """Let every COPY wait; lend what tells that one does."""

    async def connections() -> list[asyncpg.Connection[asyncpg.Record]]:
        return [await asyncpg.connect(url) for _ in range(2)]

    with asyncio.Runner() as runner:
        holder, looker = both = runner.run(connections())
        try:
            runner.run(holder.execute("begin; lock table effects in share mode"))
            yield lambda: bool(runner.run(looker.fetchval(_WAITING)))
        finally:
            for connection in both:
                connection.terminate()
            runner.run(asyncio.sleep(0))  # their transports close


@pytest.fixture
def server(home: Path) -> Iterator[EmbeddedServer]:
    """Return a server with our schema."""
    with embedded.attach(home, keep=True) as attached:
        yield attached


def _kill(home: Path, what: str) -> None:
    state = embedded.status(home)
    assert state is not None
    pid = state.supervisor_pid if what == "supervisor" else state.postmaster_pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    block_until(lambda: embedded.status(home) not in {state, None}, "somebody has noticed")


@pytest.mark.parametrize(
    ("kind", "killed"),
    [
        ("log", "postmaster"),
        ("pgn", "supervisor"),
        pytest.param("log", "supervisor", marks=pytest.mark.thorough),
        pytest.param("pgn", "postmaster", marks=pytest.mark.thorough),
    ],
)
def test_a_server_that_dies_during_an_import(
    home: Path, tmp_path: Path, server: EmbeddedServer, killed: str, kind: str
) -> None:
    """An import whose server is killed in the middle ends, says that nothing was kept, and works when tried again."""
    file = tmp_path / f"some.{kind}"
    if kind == "log":  # more than all the buffers between the command and the server can hold
        more = [text(effect(seq, payload={"text": "x" * 2000})) for seq in range(2, 8000)]
        file.write_bytes(export_of([text(genesis()), *more]))
    else:
        file.write_text(GAME)
    command = ("import", kind, str(file), "--home", str(home))
    with _stuck(server.url()) as waits, Running(*command) as running:
        block_until(waits, "the import waits in the middle of its COPY")
        _kill(home, killed)
        told = running.end()
    assert (told.code, told.out) == (2, "")
    assert "nothing of this write was kept" in told.err
    assert "Traceback" not in told.err
    assert "__aexit__" not in told.err
    again = call(*command)
    assert again.code == 0, again.err
    assert again.out.startswith("imported")
