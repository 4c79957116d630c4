"""Comparing: two worlds against just fetching both, two long ones and a fork, and two games over HTTP."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from http.client import HTTPConnection
from pathlib import Path

import chess
import chess.pgn
from worldledger_service.runtime.comparing import compare
from worldledger_service.store import Store
from worldledger_service.store.forking import NewFork

from benchmarks.harness import Goal, Report, say
from benchmarks.million import command
from benchmarks.states import moved, server
from worldledger.genesis import NewWorld
from worldledger.moments import Moment

COUNT = 1_000_000
MEASURED = 200_000
#: Effects of the fork, and of its parent, after the fork point.
APART = 1_000
PLIES = 80
REQUESTS = 400


async def run(report: Report, url: str, store: Store, folder: Path) -> None:
    """Measure the comparison of worlds that are equal, of a long fork with its parent, and of two games."""
    say("comparing")
    for world in ("left", "right"):
        await _fill(store, world, MEASURED)
    left, right = [await store.world(name) for name in ("left", "right")]

    async def fetch() -> int:
        count = 0
        for world in ("left", "right"):
            async for batch in store.reader.batches(world):
                count += len(batch)
        return count

    async def compared() -> int:
        (pair,) = (await compare(store, [left, right]))["pairs"]
        assert pair["equal"], pair
        return left.head_seq + right.head_seq

    await report.compare({"fetching two worlds": fetch, "comparing two worlds": compared})
    report.ratio("comparing over just fetching", "comparing two worlds", "fetching two worlds", 0.5)

    for world in ("one", "two"):
        await _fill(store, world, COUNT)
    start = time.perf_counter()
    peak = await asyncio.to_thread(command, ["compare", "one", "two", "--json", "--database-url", url])
    say(f"  two worlds of {COUNT:,} effects: {time.perf_counter() - start:.0f} s")
    report.note(Goal("comparing two worlds of 1M effects: peak memory", peak, 200, at_least=False, unit="MiB"))

    await store.states.snapshot("one")
    await store.fork("one", Moment(seq=COUNT), NewFork(world_id="fork"))
    for world in ("one", "fork"):
        await store.bulk_append(world, (_asked(COUNT + index, world) for index in range(APART)))  # type: ignore[misc]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        (pair,) = (await compare(store, [await store.world("one"), await store.world("fork")]))["pairs"]
        times.append(time.perf_counter() - start)
        assert pair["shared_effects"] == COUNT - 1, pair
    report.note(
        Goal("a fork at 1M of 1M+1k effects and its parent", statistics.median(times), 1, at_least=False, unit="s")
    )

    _write_games(folder / "compared.pgn")
    done = ["import", "pgn", str(folder / "compared.pgn"), "--experiment", "compared", "--database-url", url]
    await asyncio.to_thread(command, done)
    games = [record.world_id for record in await store.worlds(experiment="compared")]
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    async with server(url) as port:
        asked = await asyncio.to_thread(_ask, port, games)
    p99 = statistics.quantiles(asked, n=100)[98] * 1000
    say(f"  GET /v1/compare, two games: median {statistics.median(asked) * 1000:.1f} ms, p99 {p99:.1f} ms")
    report.note(Goal("GET /v1/compare of two games of 80 half-moves: p99", p99, 50, at_least=False, unit="ms"))


async def _fill(store: Store, world: str, count: int) -> None:
    await store.import_world(NewWorld(world_id=world), (_asked(index, world) for index in range(count)))  # type: ignore[misc]


def _asked(index: int, world: str) -> dict[str, object]:
    """Return a movement with a request of its own world."""
    return {**moved(index), "req_id": f"{world}-{index}"}


def _write_games(path: Path) -> None:
    """Write two games that part at the half-move 21."""
    texts = []
    for seed in (1, 2):
        pick, board = random.Random(0), chess.Board()
        while board.ply() < PLIES:
            if board.ply() == 20:
                pick = random.Random(seed)
            moves = sorted(board.legal_moves, key=str)
            board.push(pick.choice(moves))
        game = chess.pgn.Game.from_board(board)
        game.headers["White"], game.headers["Black"], game.headers["Round"] = "Ann", "Bob", str(seed)
        texts.append(str(game))
    path.write_text("\n\n".join(texts))


def _ask(port: int, games: list[str]) -> list[float]:
    """Ask for the comparison again and again."""
    connection = HTTPConnection("127.0.0.1", port)
    times = []
    for number in range(REQUESTS + 20):
        start = time.perf_counter()
        connection.request("GET", f"/v1/compare?world={games[0]}&world={games[1]}")
        answer = connection.getresponse()
        body = answer.read()
        assert answer.status == 200, body
        if number >= 20:
            times.append(time.perf_counter() - start)
    return times
