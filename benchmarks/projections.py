"""Projections: rebuilds from a million effects against fetching and parsing alone, memory, the lag of live feeding."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
from itertools import cycle
from typing import Any

import asyncpg
import chess
import orjson
from worldledger_chess.rules.moves import play_move
from worldledger_service.store import Store

from benchmarks.harness import Figure, Goal, Report, say
from benchmarks.million import command
from benchmarks.states import LONG, moved
from worldledger.genesis import NewWorld
from worldledger.protocols import Span, WorldHead

PLIES = 80
COUNT = 1_000_000
CHESS = ("games", "moves", "agent_stats")
LEAST_RATE = 40_000
SHARE = 0.4
SECONDS = 10
REACHED = "select last_seq from projections.world_summaries where world_id = 'live'"


async def run(report: Report, chess: tuple[str, Store], sandbox: tuple[str, Store]) -> None:
    """Fill one database with games and one with movements, and rebuild; then feed live."""
    say("projections")
    await _fill_with_games(chess[1])
    await sandbox[1].import_world(
        NewWorld(world_id="moved"),
        (moved(index) for index in range(LONG)),  # type: ignore[misc]
    )
    await sandbox[1].states.state_at("moved", LONG)
    for names, (url, store) in ((CHESS, chess), (("entities",), sandbox)):
        await _rebuild(report, names, url, store)
    await _lag(report, *sandbox)


def random_games() -> list[list[dict[str, Any]]]:
    """Play games of eighty plies at random, as drafts; the same ones each time."""
    pick = random.Random(1)
    games = []
    for _ in range(20):
        board = chess.Board()
        start = {"agents": {"white": f"agent-{pick.randint(1, 5)}", "black": f"agent-{pick.randint(6, 9)}"}}
        drafts: list[dict[str, Any]] = [_draft("GameStarted", start, "table", 0.0)]
        while board.ply() < PLIES and not board.is_game_over():
            agent = start["agents"]["white" if board.turn else "black"]
            move = pick.choice(sorted(board.legal_moves, key=chess.Move.uci))
            payload = play_move(board, move, ply=board.ply() + 1, agent_id=agent)
            payload["thinking_time"] = pick.randint(1, 9000) / 1000
            drafts.append(_draft("MoveMade", payload, agent, float(board.ply())))
        ended = {"status": "resigned", "result": "white_wins", "reason": "resignation"}
        drafts.append(_draft("GameEnded", ended, "table", float(board.ply())))
        games.append(drafts)
    return games


def _draft(kind: str, payload: dict[str, Any], source_id: str, sim_time: float) -> dict[str, Any]:
    return {
        "kind": kind,
        "payload": payload,
        "source_id": source_id,
        "schema_version": "1.0.0",
        "sim_time": sim_time,
    }


async def _fill_with_games(store: Store) -> None:
    start = time.perf_counter()
    done = number = 0
    for drafts in cycle(random_games()):
        if done >= COUNT:
            break
        world = NewWorld(world_id=f"game-{number:06}", ruleset="chess", time_authority="client")
        await store.import_world(world, drafts)  # type: ignore[arg-type]
        done += len(drafts) + 1
        number += 1
    say(f"  {number:,} games with {done:,} effects, in {time.perf_counter() - start:.0f} s")


async def _rebuild(report: Report, names: tuple[str, ...], url: str, store: Store) -> None:
    """Rebuild in a process of its own, as `worldledger projections rebuild` does."""
    label = "+".join(names)
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    alone = Figure(f"fetching and parsing, for {label}")
    rebuilt = Figure(f"rebuild of {label}")
    peaks = []
    for _ in range(3):
        start = time.perf_counter()
        effects = await _fetch_and_parse(store)
        alone.rates.append(effects / (time.perf_counter() - start))
        start = time.perf_counter()
        peaks.append(await asyncio.to_thread(command, ["projections", "rebuild", *names, "--database-url", url]))
        rebuilt.rates.append(effects / (time.perf_counter() - start))
    for figure in (alone, rebuilt):
        report.figures[figure.name] = figure
        say(f"  {figure.name}: {figure.rate:,.0f}/s")
    wanted = min(LEAST_RATE, SHARE * alone.rate)
    what = f"rebuild of {label} over 40k effects/s or 0.4 of fetching and parsing"
    report.note(Goal(what, rebuilt.rate / wanted, 1))
    report.note(Goal(f"rebuild of {label}: peak memory", max(peaks), 400, at_least=False, unit="MiB"))


async def _fetch_and_parse(store: Store) -> int:
    heads: list[WorldHead] = []
    while page := await store.reader.world_heads(after=heads[-1].world_id if heads else ""):
        heads += page
    seqs = {head.world_id: 0 for head in heads}
    ends = {head.world_id: head.head_seq for head in heads}
    left = list(seqs)
    loads = orjson.loads
    total = 0
    while left:
        spans = [Span(world, seqs[world], ends[world]) for world in left[:200]]
        for span, rows in zip(spans, await store.reader.gather(spans, limit=5000), strict=True):
            for row in rows:
                loads(row.text)
            total += len(rows)
            if rows:
                seqs[span.world_id] = rows[-1].global_seq
        left = [world for world in left if seqs[world] < ends[world]]
    return total


async def _lag(report: Report, url: str, store: Store) -> None:
    """Append a thousand effects a second while a runner feeds all projections; see when each is in the rows."""
    await store.create_world(NewWorld(world_id="live"))
    log = await store.log("live")
    runner = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worldledger_service.cli",
        "project",
        "--database-url",
        url,
        stderr=asyncio.subprocess.DEVNULL,
    )
    connection = await asyncpg.connect(url)
    committed: dict[int, float] = {}
    lags: list[float] = []
    over = asyncio.Event()

    async def write() -> None:
        start = time.perf_counter()
        for step in range(SECONDS * 100):
            await asyncio.sleep(max(0.0, start + step / 100 - time.perf_counter()))
            receipts: list[Any] = await log.append_all([moved(n) for n in range(10)])  # type: ignore[misc]
            now = time.perf_counter()
            committed.update((receipt.global_seq, now) for receipt in receipts)
        over.set()

    async def watch() -> None:
        reached = 1
        while not over.is_set() or reached < max(committed):
            seq = await connection.fetchval(REACHED) or 0
            now = time.perf_counter()
            lags.extend(now - committed[n] for n in range(reached + 1, seq + 1) if n in committed)
            reached = max(reached, seq)
            await asyncio.sleep(0.002)

    try:
        while (
            await connection.fetchval("select last_seq from projections.world_summaries where world_id = 'live'") != 1
        ):
            await asyncio.sleep(0.05)
        await asyncio.gather(write(), watch())
    finally:
        await connection.close()
        runner.terminate()
        await runner.wait()
    lags = lags[len(lags) // 10 :]
    p99 = statistics.quantiles(lags, n=100)[98] * 1000
    say(f"  lag at 1,000 effects/s: median {statistics.median(lags) * 1000:.0f} ms")
    report.note(Goal("lag of live feeding at 1,000 effects/s: p99", p99, 200, at_least=False, unit="ms"))
