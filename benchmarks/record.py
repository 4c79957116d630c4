"""Recording a program: what a call costs it, and how fast what it recorded is in the world."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from benchmarks.harness import Goal, Report, say
from benchmarks.http import SERVER, free_port, until_alive
from worldledger import record

#: Calls that are timed, of 200 bytes of payload each; and effects that are brought into a world.
CALLS = 1_000_000
EFFECTS = 300_000
_TEXT = "n" * 160


def _record(calls: int, name: str, home: Path, url: str | None) -> tuple[float, float]:
    """Return how many microseconds a call takes, and how many effects a second are durable until all are."""
    with record(name, url=url, home=home, quiet=True, on_error="raise") as run:
        start = time.perf_counter()
        for number in range(calls):
            run.effect("Spoke", "alice", number=number, text=_TEXT)
        called = time.perf_counter() - start
        while not run.flush():
            pass
        return called / calls * 1e6, calls / (time.perf_counter() - start)


async def run(report: Report, url: str, folder: Path) -> None:
    """Measure into the database and by a service."""
    say("record")
    os.environ["WORLDLEDGER_DATABASE_URL"] = url
    await asyncio.to_thread(_record, 1000, "warm", folder / "recorded", None)
    cost, _ = await asyncio.to_thread(_record, CALLS, "calls", folder / "recorded", None)
    report.note(Goal("a call of a recording, 200 bytes, mean of a million", cost, 15.0, at_least=False, unit="µs"))
    _, rate = await asyncio.to_thread(_record, EFFECTS, "embedded", folder / "recorded", None)
    report.note(Goal("recorded into the database, effects a second", rate, 50_000))
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, url, str(port), "log")
    try:
        await until_alive(port)
        address = f"http://127.0.0.1:{port}"
        await asyncio.to_thread(_record, 1000, "warm-by-url", folder / "recorded", address)
        _, rate = await asyncio.to_thread(_record, EFFECTS, "by-url", folder / "recorded", address)
        report.note(Goal("recorded by a service, effects a second", rate, 25_000))
    finally:
        server.terminate()
        await server.wait()
        del os.environ["WORLDLEDGER_DATABASE_URL"]
