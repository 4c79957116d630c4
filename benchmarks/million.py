"""A world of a million effects: peak memory of each command, and whether appends stay as fast as at ten thousand."""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from worldledger_service.store import Store

from benchmarks.harness import Goal, Report, draft, say
from worldledger.genesis import NewWorld

COUNT = 1_000_000
LIMIT_MIB = 300

#: Runs one thing and prints its own peak resident memory in MiB, last on stderr.
PEAK = """
import resource, sys
from worldledger_service.cli.main import main
sys.argv = ["worldledger", *sys.argv[1:]]
try:
    main()
finally:
    try:  # what rusage says survives an exec, and so is at least the parent's
        with open("/proc/self/status") as status:
            peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(peak // 1024, file=sys.stderr, flush=True)
"""

READ = """
import sys, urllib.request
with urllib.request.urlopen(urllib.request.Request(sys.argv[1], headers={"Accept": "application/x-ndjson"})) as answer:
    lines = sum(chunk.count(b"\\n") for chunk in iter(lambda: answer.read(1 << 20), b""))
print(lines)
"""


async def run(report: Report, url: str, store: Store, folder: Path, fresh_url: str) -> None:
    """Fill a world, measure appends along the way, then run each command in a process of its own."""
    say("one million effects")
    world = "million"
    await store.create_world(NewWorld(world_id=world))
    log = await store.log(world)
    await _fill(store, world, 10_000)
    await store.create_world(NewWorld(world_id="ten-thousand"))
    await _fill(store, "ten-thousand", 10_000)
    small = await store.log("ten-thousand")
    start = time.perf_counter()
    await _fill(store, world, COUNT - 10_001)
    say(f"  filled in {time.perf_counter() - start:.0f} s")
    here: list[float] = []
    there: list[float] = []
    for _ in range(7):
        there.append(await _append_rate(small))
        here.append(await _append_rate(log))
    ratio = statistics.median(here) / statistics.median(there)
    report.note(Goal("append rate at 1M effects over that at 10k", ratio, 0.9))

    export = folder / "million.ndjson"
    report.note(_peak("export", ["export", world, "-o", str(export), "--database-url", url]))
    report.note(_peak("import log", ["import", "log", str(export), "--database-url", fresh_url]))
    report.note(_peak("verify", ["verify", world, "--database-url", url]))
    report.note(_peak("verify --file", ["verify", "--file", str(export)]))
    report.note(await asyncio.to_thread(_read_peak, url, world))


async def _fill(store: Store, world: str, count: int) -> None:
    await store.bulk_append(world, (draft(index) for index in range(count)))  # type: ignore[misc]


async def _append_rate(log: Any) -> float:
    start = time.perf_counter()
    for index in range(2000):
        await log.append(draft(index))
    return 2000 / (time.perf_counter() - start)


def command(arguments: list[str], *, allowed: int = 0) -> float:
    """Run a command to its end, whose exit code is 0 or the one allowed; return its peak memory in MiB."""
    done = subprocess.run([sys.executable, "-c", PEAK, *arguments], capture_output=True, text=True, check=False)
    if done.returncode not in {0, allowed}:
        raise RuntimeError(f"{' '.join(arguments)} failed: {done.stderr}")
    assert done.stdout or len(done.stderr.strip().splitlines()) > 1, f"{' '.join(arguments)} said nothing"
    return float(done.stderr.strip().splitlines()[-1])


def _peak(what: str, arguments: list[str]) -> Goal:
    start = time.perf_counter()
    peak = command(arguments)
    say(f"  {what}: {time.perf_counter() - start:.0f} s")
    return Goal(f"{what} of 1M effects: peak memory", peak, LIMIT_MIB, at_least=False, unit="MiB")


def _read_peak(url: str, world: str) -> Goal:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "-c", PEAK, "serve", "--port", str(port), "--database-url", url],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines = 0
        for _ in range(200):
            reader = subprocess.run(
                [sys.executable, "-c", READ, f"http://127.0.0.1:{port}/v1/worlds/{world}/effects"],
                capture_output=True,
                text=True,
                check=False,
            )
            if reader.returncode == 0:
                lines = int(reader.stdout)
                break
            time.sleep(0.1)
        assert lines >= COUNT, lines
    finally:
        server.terminate()
        _, errors = server.communicate()
    peak = float(errors.strip().splitlines()[-1])
    return Goal("NDJSON read of 1M effects: peak memory of the server", peak, LIMIT_MIB, at_least=False, unit="MiB")
