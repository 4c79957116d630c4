"""Ticks: a thousand intents held and decided by one tick, beside the same intents decided as they arrive."""

from __future__ import annotations

import asyncio
import statistics
import time
from itertools import count
from typing import Any

from worldledger_service.runtime import ObservationPolicy, Orchestrator, OrchestratorConfig

from benchmarks.harness import Figure, Report, say

ROUNDS = 5
INTENTS = 1000
AGENTS = 20
#: Every intent passes: what is measured is the way, not the refusals.
CONFIG = OrchestratorConfig(staleness_threshold=None, view_digest_every=0)
BY_TICK = f"intents through a tick of {INTENTS:,}, {AGENTS} agents"
BY_ARRIVAL = f"intents as they arrive, {INTENTS:,} at once, {AGENTS} agents"

_numbers = count(1)


def intents() -> list[dict[str, Any]]:
    """Make a thousand intents, of each agent as many."""
    made = []
    for n in range(INTENTS):
        number = next(_numbers)
        payload = {"to": [float(number % 10), float(number % 7), 0.0]}
        made.append(
            {
                "kind": "Move",
                "payload": payload,
                "context_seq": 0,
                "req_id": f"r{number}",
                "agent_id": f"agent-{n % AGENTS}",
            }
        )
    return made


async def run(report: Report, url: str) -> None:
    """Measure both in turn, each in a world of its own."""
    say("ticks")
    for name in (BY_TICK, BY_ARRIVAL):
        report.figures[name] = Figure(name)
    closing: list[float] = []
    how: dict[str, Any] = {"config": CONFIG, "time_authority": "client"}
    async with (
        Orchestrator.open(url, world_id="bench-ticks", order="tick", **how) as ticking,
        Orchestrator.open(url, world_id="bench-arrival", **how) as arriving,
    ):
        for world in (ticking, arriving):
            for n in range(AGENTS):
                await world.register_agent(f"agent-{n}", ObservationPolicy())
        for number in range(-1, ROUNDS):
            made = intents()
            start = time.perf_counter()
            await asyncio.gather(*map(ticking.hold_intent, made))
            held = time.perf_counter()
            closed = await ticking.close_tick("referee")
            took, close = time.perf_counter() - start, time.perf_counter() - held
            if closed.accepted != INTENTS:
                raise RuntimeError(f"of {INTENTS} intents {closed.accepted} were accepted")
            start = time.perf_counter()
            await asyncio.gather(*map(arriving.submit_intent, intents()))
            arrived = time.perf_counter() - start
            if number >= 0:
                report.figures[BY_TICK].rates.append(INTENTS / took)
                report.figures[BY_ARRIVAL].rates.append(INTENTS / arrived)
                closing.append(close)
            await asyncio.gather(ticking.flush(), arriving.flush())
    for name in (BY_TICK, BY_ARRIVAL):
        say(f"  {name}: {report.figures[name].rate:,.0f}/s")
    report.tell("intents through a tick over intents as they arrive", _share(report), "")
    report.tell(f"closing a tick of {INTENTS:,} intents: median", 1000 * statistics.median(closing), "ms")


def _share(report: Report) -> float:
    return report.figures[BY_TICK].rate / report.figures[BY_ARRIVAL].rate
