"""States: folding against bare parsing, and the state at a random seq of a long world against a short one."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection

import orjson
from worldledger_service.store import Store

from benchmarks.harness import Goal, Report, say
from benchmarks.http import free_port, until_alive
from benchmarks.million import command
from worldledger.folding import Fold
from worldledger.genesis import NewWorld
from worldledger.rulesets import load_ruleset

#: The service as `worldledger serve` runs it.
SERVER = """
import sys
from worldledger_service.app import run
from worldledger_service.settings import Settings

run(Settings(port=int(sys.argv[2]), projections=sys.argv[3] == "True"), sys.argv[1])
"""
ENTITIES = 100
SHORT, LONG = 10_000, 1_000_000
REQUESTS = 400


def moved(index: int) -> dict[str, object]:
    """Return a movement of one of a hundred entities, about 370 bytes as an effect."""
    return {
        "kind": "Move",
        "payload": {
            "to": [index * 0.25, 2.25, 0.0],
            "from": [1.0, 2.0, 0.0],
            "speed": 1.25,
            "agent_id": f"agent-{index % ENTITIES}",
            "note": "n" * 52,
        },
        "source_id": f"agent-{index % ENTITIES}",
        "schema_version": "1.0.0",
    }


async def run(report: Report, url: str, store: Store) -> None:
    """Measure the fold, then states over HTTP on a server of its own."""
    say("states")
    for world, count in (("short", SHORT), ("long", LONG)):
        await store.import_world(NewWorld(world_id=world), (moved(index) for index in range(count)))  # type: ignore[misc]
        start = time.perf_counter()
        await store.states.state_at(world, count)
        say(f"  first state of {count:,} effects: {time.perf_counter() - start:.1f} s")
    rows = [row async for batch in store.reader.batches("short", until_seq=SHORT) for row in batch]
    ruleset = load_ruleset("sandbox")

    async def parse() -> int:
        loads = orjson.loads
        for _ in range(5):
            for row in rows:
                loads(row.text)
        return 5 * len(rows)

    async def folded() -> int:
        for _ in range(5):
            fold = Fold("short", ruleset)
            for at in range(0, len(rows), 1000):
                fold.feed(rows[at : at + 1000])
        return 5 * len(rows)

    await report.compare({"parsing Move effects": parse, "folding Move effects": folded})
    report.ratio("folding over bare parsing", "folding Move effects", "parsing Move effects", 0.35)
    # The service would else feed its projections from the million effects meanwhile.
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    async with server(url) as port:
        times = await asyncio.to_thread(_ask, port)
    p99 = {world: statistics.quantiles(found, n=100)[98] * 1000 for world, found in times.items()}
    for world, found in times.items():
        median = statistics.median(found) * 1000
        say(f"  state at a random seq, {world}: median {median:.1f} ms, p99 {p99[world]:.1f} ms")
    ratio = p99["long"] / p99["short"]
    report.note(Goal("state at a random seq: p99 of 1M effects over 10k", ratio, 3, at_least=False))
    report.note(Goal("state at a random seq of 10k effects: p99", p99["short"], 30, at_least=False, unit="ms"))
    report.note(Goal("state at a random seq of 1M effects: p99", p99["long"], 30, at_least=False, unit="ms"))


@asynccontextmanager
async def server(url: str, *, projections: bool = True) -> AsyncIterator[int]:
    """Lend the port of a server of its own."""
    port = free_port()
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, url, str(port), str(projections))
    try:
        await until_alive(port)
        yield port
    finally:
        server.terminate()
        await server.wait()


def _ask(port: int) -> dict[str, list[float]]:
    """Ask for states at random seqs, one request after another, the worlds in turn."""
    pick = random.Random(1)
    connection = HTTPConnection("127.0.0.1", port)
    times: dict[str, list[float]] = {"short": [], "long": []}
    for number in range(REQUESTS + 20):
        for world, count in (("short", SHORT), ("long", LONG)):
            start = time.perf_counter()
            connection.request("GET", f"/v1/worlds/{world}/state?at_seq={pick.randint(1, count)}")
            answer = connection.getresponse()
            body = answer.read()
            assert answer.status == 200, body
            if number >= 20:
                times[world].append(time.perf_counter() - start)
    return times
