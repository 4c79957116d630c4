"""Interruption: from cancelling to halting, with the generator on one server and whoever cancels on another."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from collections.abc import Sequence

from benchmarks.agents_town import POLICY, Server
from benchmarks.harness import Goal, Report, say
from worldledger.aio import CancelToken
from worldledger.client import Client, RemoteWorld
from worldledger.client.world import RemoteHandle
from worldledger.config import OrchestratorConfig
from worldledger.errors import UnknownGenerationError

PAIRS = 10
TRIALS = 40
#: Seconds between two tokens that a generator yields.
PACE = 0.025
WANTED_MS = 100.0


async def run(report: Report, servers: Sequence[Server]) -> None:
    """Have agents generate on one server, and be interrupted from the other, by an effect or by a cancellation."""
    say("interruption")
    here, there = (f"http://127.0.0.1:{server.port}" for server in servers)
    found: dict[str, list[float]] = {"effect": [], "cancellation": []}
    async with Client(here, "interruption") as one, Client(there, "interruption") as other:
        await one.create_world(orchestrator=OrchestratorConfig(staleness_threshold=0))
        pairs = [await _Pair.settle(number, one, other) for number in range(PAIRS)]
        await asyncio.gather(*(pair.interrupt(found) for pair in pairs))
    for what, times in found.items():
        report.tell(f"{what} to halt across two servers: median", statistics.median(times), "ms")
    every = [each for times in found.values() for each in times]
    p99 = statistics.quantiles(every, n=100)[98]
    report.note(Goal("cancel to halt across two servers: p99", p99, WANTED_MS, at_least=False, unit="ms"))


class _Pair:
    """An agent that generates on one server, and on the other one who breaks in; each pair far from the others."""

    def __init__(self, number: int, generating: RemoteHandle, elsewhere: RemoteHandle, other: RemoteHandle) -> None:
        self._number = number
        self._generating = generating
        #: the same agent on the other server, where it is told to stop
        self._elsewhere = elsewhere
        self._other = other

    @classmethod
    async def settle(cls, number: int, one: RemoteWorld, other: RemoteWorld) -> _Pair:
        """Put both in their place, and register them."""
        names = f"generating-{number}", f"breaking-in-{number}"
        for name in names:
            await one.broadcast_event(
                {
                    "kind": "EntityCreated",
                    "payload": {"entity_id": name, "entity_data": {}, "position": [number * 1000.0, 0.0, 0.0]},
                    "source_id": "operator",
                    "schema_version": "1.0.0",
                }
            )
        generating = await one.register_agent(names[0], POLICY)
        breaking_in = await other.register_agent(names[1], POLICY)
        return cls(number, generating, await other.agent(names[0]), breaking_in)

    async def interrupt(self, found: dict[str, list[float]]) -> None:
        """Generate again and again, and break it off by turns."""
        pick = random.Random(self._number)
        for trial in range(TRIALS):
            req_id = f"{self._number}-{trial}"
            halted = asyncio.create_task(_generate(self._generating.issue_cancel_token(req_id)))
            await asyncio.sleep(0.1 + pick.uniform(0, PACE))
            start = time.perf_counter()
            if trial % 2:
                accepted = await self._other.submit_intent({"kind": "Speak", "payload": {"text": "Wait!"}})
                found["effect"].append(1000 * (await halted - start))
                for handle in (self._generating, self._other):
                    while handle.view_seq < accepted.global_seq:
                        await handle.next_observation()
            else:
                await self._cancel(req_id)
                found["cancellation"].append(1000 * (await halted - start))

    async def _cancel(self, req_id: str) -> None:
        """Cancel on the other server, as soon as that knows of the generation."""
        while True:
            try:
                await self._elsewhere.cancel(req_id)
            except UnknownGenerationError:
                await asyncio.sleep(0.001)
            else:
                return


async def _generate(token: CancelToken) -> float:
    """Yield until told to stop; give when that was noticed."""
    while not token.cancelled:
        await asyncio.sleep(PACE)
    return time.perf_counter()
