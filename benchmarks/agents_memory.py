"""Memory: an hour in the life of a hundred agents, compressed, in a process of its own.

``python -m benchmarks.agents_memory DATABASE_URL`` prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import time
import uuid
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import psutil
import uvloop
from worldledger_service.runtime import AgentHandle, CancelToken, Orchestrator, OrchestratorConfig, QueueClosedError

from benchmarks.agents_town import POLICY
from benchmarks.harness import Goal, Report, say
from worldledger.errors import IntentConflictError, StaleContextError

HOUR = 3600.0
#: Simulated seconds in one of the clock.
COMPRESSION = 60.0
AGENTS = 100
#: Where they walk about (each side): about five are in sight of each other.
SIDE = 400.0
#: Simulated seconds between two doings of an agent, on the average.
PAUSE = 5.0
#: Simulated seconds between two looks of the slow reader.
SLOW = 10.0
#: Part of the run after which memory is not to grow, and by how much at most it may.
SETTLED = 0.2
WANTED = 1.05
#: An agent that looks only now and then is stale now and then; its generations are interrupted sometimes.
CONFIG = OrchestratorConfig(staleness_threshold=200)


@dataclass
class Lived:
    """What came of the hour: how much was done, and resident memory in MiB at each hundredth of it."""

    intents: int = 0
    stale: int = 0
    observations: int = 0
    generations: int = 0
    interrupted: int = 0
    ticks: int = 0
    collapsed: int = 0
    effects: int = 0
    seconds: float = 0.0
    resident: list[float] = field(default_factory=list)
    stats: dict[str, int] = field(default_factory=dict)


class Hour:
    """A hundred agents who move, speak, generate, cancel and observe; one is slow, another never reads."""

    def __init__(self, world: Orchestrator) -> None:
        self._world = world
        self._start = time.perf_counter()
        self.lived = Lived()

    @property
    def _now(self) -> float:
        """The simulated time, in seconds."""
        return (time.perf_counter() - self._start) * COMPRESSION

    async def live(self) -> Lived:
        """Live it."""
        handles = [await self._settle(number) for number in range(AGENTS)]
        silent = await self._world.subscribe("agent-1")  # which nobody reads
        readers = [
            asyncio.create_task(self._observe(handle, SLOW if n == 0 else 0.0)) for n, handle in enumerate(handles)
        ]
        self._start = time.perf_counter()
        agents = [self._act(number, handle) for number, handle in enumerate(handles)]
        await asyncio.gather(*agents, self._tick(), self._watch())
        self.lived.seconds = time.perf_counter() - self._start
        await self._world.flush()
        self.lived.stats = self._world.memory_stats()._asdict()
        for reader in readers:
            reader.cancel()
        silent.close()
        return self.lived

    async def _settle(self, number: int) -> AgentHandle:
        pick = random.Random(number)
        place = [pick.uniform(0, SIDE), pick.uniform(0, SIDE), 0.0]
        name = f"agent-{number}"
        await self._world.broadcast_event(
            {
                "kind": "EntityCreated",
                "payload": {"entity_id": name, "entity_data": {"name": name}, "position": place},
                "source_id": "operator",
                "schema_version": "1.0.0",
            }
        )
        return await self._world.register_agent(name, POLICY)

    async def _act(self, number: int, handle: AgentHandle) -> None:
        pick = random.Random(number)
        while self._now < HOUR:
            await asyncio.sleep(pick.expovariate(1 / PAUSE) / COMPRESSION)
            what = pick.random()
            if what < 0.25:
                await self._generate(pick, handle)
            elif what < 0.5:
                await self._submit(handle, "Speak", {"text": "Good morning, how are you?"})
            else:
                place = [pick.uniform(0, SIDE), pick.uniform(0, SIDE), 0.0]
                await self._submit(handle, "Move", {"to": place, "speed": 1.25})

    async def _submit(self, handle: AgentHandle, kind: str, payload: dict[str, Any], req_id: str | None = None) -> None:
        with suppress(IntentConflictError):
            try:
                intent = {"kind": kind, "payload": payload, "req_id": req_id or uuid.uuid4().hex}
                await handle.submit_intent(intent)
                self.lived.intents += 1
            except StaleContextError:
                self.lived.stale += 1

    async def _generate(self, pick: random.Random, handle: AgentHandle) -> None:
        """Generate for some seconds, unless interrupted; then say it, think better of it, or just end it."""
        req_id = uuid.uuid4().hex
        token: CancelToken = handle.issue_cancel_token(req_id)
        self.lived.generations += 1
        for _ in range(pick.randint(1, 8)):
            if token.cancelled:
                self.lived.interrupted += 1
                return
            await asyncio.sleep(0.5 / COMPRESSION)
        then = pick.random()
        if then < 0.5:
            await self._submit(handle, "Speak", {"text": "That is what I have been thinking about."}, req_id)
        elif then < 0.75:
            await handle.cancel(req_id)
        else:
            await self._world.finish_generation(handle.agent_id, req_id)

    async def _observe(self, handle: AgentHandle, pause: float) -> None:
        with suppress(QueueClosedError):
            while True:
                delta = await handle.next_observation()
                self.lived.observations += 1
                self.lived.collapsed += delta.get("collapsed", 0)
                if pause:
                    await asyncio.sleep(pause / COMPRESSION)

    async def _tick(self) -> None:
        for second in range(1, int(HOUR) + 1):
            await asyncio.sleep(second / COMPRESSION - (time.perf_counter() - self._start))
            self.lived.effects = (await self._world.tick("unity", float(second))).global_seq
            self.lived.ticks += 1

    async def _watch(self) -> None:
        process = psutil.Process()
        for percent in range(1, 101):
            await asyncio.sleep(percent / 100 * HOUR / COMPRESSION - (time.perf_counter() - self._start))
            self.lived.resident.append(process.memory_info().rss / 2**20)


async def live(url: str) -> Lived:
    """Live the hour in a new world."""
    async with Orchestrator.open(url, world_id="hour", config=CONFIG, time_authority="unity") as world:
        return await Hour(world).live()


async def run(report: Report, url: str) -> None:
    """Have a process of its own live the hour."""
    say("memory")
    command = [sys.executable, "-m", "benchmarks.agents_memory", url]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError("the hour was not lived through")
    lived = Lived(**orjson.loads(output))
    say(
        f"  {lived.intents:,} intents ({lived.stale:,} more were stale), {lived.generations:,} generations"
        f" ({lived.interrupted:,} interrupted), {lived.observations:,} observations, {lived.effects:,} effects"
        f" in {lived.seconds:.0f} s"
    )
    say(f"  MiB at each twentieth: {' '.join(f'{each:.0f}' for each in lived.resident[4::5])}")
    say(f"  at the end: {', '.join(f'{number:,} {name}' for name, number in lived.stats.items())}")
    settled = round(100 * SETTLED)
    before = statistics.mean(lived.resident[settled - 2 : settled + 1])
    highest = max(lived.resident[settled:])
    report.tell("an hour of 100 agents: resident memory at 20 %", before, "MiB")
    report.tell("an hour of 100 agents: resident memory at the end", lived.resident[-1], "MiB")
    what = "an hour of 100 agents: highest resident memory after 20 % of it over that at 20 %"
    report.note(Goal(what, highest / before, WANTED, at_least=False))


if __name__ == "__main__":
    print(orjson.dumps(asdict(uvloop.run(live(sys.argv[1])))).decode())
