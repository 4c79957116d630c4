"""A hundred games at the same time on one server: played by clients, and by the service's own players."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import psutil
from worldledger_service.store import Store

from benchmarks.agents_town import Server, serving
from benchmarks.chess_players import Caller, Found, Task, play
from benchmarks.harness import Goal, Report, say

GAMES = 100
#: Seconds for which clients play, and for which the service's own players do.
SECONDS = 12.0
#: Most MiB of the server's resident memory.
WANTED_MEMORY = 500.0


async def run(report: Report, url: str, store: Store) -> None:
    """Measure moves a second and memory; look in the log for every move that was acknowledged."""
    say(f"chess: {GAMES} games")
    async with serving(url, 1) as (server,), _resident(server) as resident:
        found = await play(Task(server.port, "many", GAMES, 100_000, SECONDS, tensor=False))
    if found.refused:
        raise RuntimeError(found.refused[0])
    _tell(report, f"{GAMES} games of clients over HTTP", len(found.moves) / found.seconds, resident)
    taken = sorted((answered - sent) * 1000 for *_, sent, answered in found.moves)
    report.tell(f"a move in one of {GAMES} games of clients: median", statistics.median(taken), "ms")
    report.tell(f"a move in one of {GAMES} games of clients: p95", statistics.quantiles(taken, n=20)[18], "ms")
    lost = len(found.moves) - await _in_the_log(store, found)
    what = f"moves that were acknowledged in {GAMES} games and are not in the log"
    report.note(Goal(what, lost, 0, at_least=False))
    async with serving(url, 1) as (server,), _resident(server) as resident:
        rate = await _own(server, store)
    _tell(report, f"{GAMES} games of the service's random players", rate, resident)


def _tell(report: Report, what: str, rate: float, resident: list[float]) -> None:
    report.tell(f"{what}: moves", rate, "a second")
    memory = f"{what}: highest resident memory"
    report.note(Goal(memory, max(resident), WANTED_MEMORY, at_least=False, unit="MiB"))


@asynccontextmanager
async def _resident(server: Server) -> AsyncIterator[list[float]]:
    """Lend the server's resident memory in MiB, which is looked at again and again."""
    process = psutil.Process(server.pid)
    seen: list[float] = []

    async def look() -> None:
        while True:
            seen.append(process.memory_info().rss / 2**20)
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()
        await asyncio.wait({looking})


async def _in_the_log(store: Store, found: Found) -> int:
    """Count the acknowledged moves that stand in the log where the answer said, in games without a gap."""
    told = {(game, seq): uci for game, seq, uci, _, _ in found.moves}
    there = 0
    for game in {game for game, *_ in found.moves}:
        ply = 0
        async for batch in store.reader.batches(game, kind="MoveMade"):
            for row in batch:
                ply += 1
                payload = orjson.loads(row.text)["payload"]
                is_it = told.get((game, row.global_seq)) == payload["uci_notation"]
                there += is_it and payload["ply"] == ply
    return there


async def _own(server: Server, store: Store) -> float:
    """Have the service play by itself; return its moves a second, once all have begun."""
    caller = await Caller.open(server.port)
    games = [f"own-{number}" for number in range(GAMES)]
    for game in games:
        sides = {colour: {"agent_id": colour} for colour in ("white", "black")}
        players = {"white": "random", "black": "random"}
        status, text = await caller.post("/v1/games", {"game_id": game, **sides, "players": players, "seed": 1})
        if status != 201:
            raise RuntimeError(text.decode())
    caller.close()
    start, before = time.perf_counter(), await _effects(store, games)
    await asyncio.sleep(SECONDS)
    return (await _effects(store, games) - before) / (time.perf_counter() - start)


async def _effects(store: Store, games: list[str]) -> int:
    return sum((await store.reader.head_seqs(games)).values())
