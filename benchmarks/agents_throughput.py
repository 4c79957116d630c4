"""Throughput: intents as fast as agents can submit them, each effect durable and seen by five others."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from typing import Any

from worldledger_service.running import relax_gc
from worldledger_service.runtime import AgentHandle, Orchestrator
from worldledger_service.store import Store

from benchmarks.agents_sockets import Task, play
from benchmarks.agents_town import CONFIG, Crowd, Server, settle, settled
from benchmarks.harness import Figure, Goal, Report, say
from worldledger.genesis import NewWorld

ROUNDS = 3
SECONDS = 1.5
#: Whether there is a goal for so many agents.
SIZES = {5: True, 20: True, 50: False}
WANTED = 100.0
WANTED_BY_SOCKET = 2000.0
#: Over WebSocket: twenty agents, each with so many intents under way.
WINDOW = 4


class Town:
    """Agents of this process in groups of five; each group has one more who only looks on."""

    def __init__(self, world: Orchestrator, crowd: Crowd, handles: dict[str, AgentHandle]) -> None:
        self._world = world
        self._actors = [(handles[agent_id], group) for agent_id, group in crowd.actors]
        self._handles = list(handles.values())
        self._slowest: list[float] = []

    @property
    def slowest(self) -> float:
        """Intents per second of the slowest agent: the median of the rounds."""
        return statistics.median(self._slowest[1:])  # without the round that warms up

    async def act(self, seconds: float) -> float:
        """Have everybody act, one intent after another, and look; return the intents per second of all together."""
        counts = [0] * len(self._actors)
        seen = 0
        first, group = self._actors[0]
        before = (await first.submit_intent(intent(group, 9))).global_seq

        async def actor(number: int, until: float) -> None:
            handle, group = self._actors[number]
            while time.perf_counter() < until:
                await handle.submit_intent(intent(group, counts[number]))
                counts[number] += 1

        async def reader(handle: AgentHandle) -> None:
            nonlocal seen
            while True:
                delta = await handle.next_observation()
                seen += delta.get("collapsed", 1) if delta["view_seq"] > before else 0

        readers = [asyncio.create_task(reader(handle)) for handle in self._handles]
        start = time.perf_counter()
        await asyncio.gather(*(actor(number, start + seconds) for number in range(len(counts))))
        wanted = 6 * sum(counts)
        while seen < wanted and time.perf_counter() < start + 5 * seconds:  # seeing all of it is part of the work
            await asyncio.sleep(0.001)
        took = time.perf_counter() - start
        for task in readers:
            task.cancel()
        await asyncio.wait(readers)
        if seen != wanted:
            raise RuntimeError(f"of {wanted} observations {seen} came")
        self._slowest.append(min(counts) / took)
        return sum(counts) / took


def intent(group: int, number: int) -> dict[str, Any]:
    """Move a little."""
    return {"kind": "Move", "payload": {"to": [group * 1000.0 + number % 10, number % 7, 0.0], "speed": 1.25}}


async def run(report: Report, store: Store, url: str) -> None:
    """Measure in process, each size in turn, and bare appends of the same effects by as many callers."""
    say("intents in process")
    async with AsyncExitStack() as stack:
        towns = {size: await stack.enter_async_context(_town(url, size)) for size in SIZES}
        logs = {size: await _bare_world(store, f"bare-{size}") for size in SIZES}
        for size in SIZES:
            for name in (_agents(size), _bare(size)):
                report.figures[name] = Figure(name)
        stack.enter_context(_collecting_as_served())
        for number in range(-1, ROUNDS):
            for size in SIZES:
                acted, appended = await towns[size].act(SECONDS), await _append(logs[size], size, SECONDS / 2)
                if number >= 0:
                    report.figures[_agents(size)].rates.append(acted)
                    report.figures[_bare(size)].rates.append(appended)
    for size, aim in SIZES.items():
        for name in (_agents(size), _bare(size)):
            say(f"  {name}: {report.figures[name].rate:,.0f}/s")
        slowest = towns[size].slowest
        if aim:
            report.note(Goal(f"intents/s of the slowest of {size} agents", slowest, WANTED))
        else:
            report.tell(f"intents/s of the slowest of {size} agents", slowest, "")
        share = report.figures[_agents(size)].rate / report.figures[_bare(size)].rate
        report.tell(f"intents of {size} agents over bare appends by as many callers", share, "")


@contextmanager
def _collecting_as_served() -> Iterator[None]:
    """Have the garbage collector look as seldom as in a process of `worldledger serve`."""
    before = gc.get_threshold()
    gc.collect()
    gc.freeze()
    relax_gc(20_000)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _agents(size: int) -> str:
    return f"intents of {size} agents, each seen by 5 others"


def _bare(size: int) -> str:
    return f"bare appends of the same effects, {size} callers"


@asynccontextmanager
async def _town(url: str, size: int) -> AsyncIterator[Town]:
    crowd = Crowd(groups=size // 5, acting=5, looking_on=1)
    async with Orchestrator.open(url, world_id=f"town-{size}", config=CONFIG) as world:
        handles = await settle(world, crowd)
        yield Town(world, crowd, handles)


async def _bare_world(store: Store, world_id: str) -> Any:
    await store.create_world(NewWorld(world_id=world_id))
    return await store.log(world_id)


async def _append(log: Any, callers: int, seconds: float) -> float:
    numbers = count()

    async def caller(name: str, group: int, until: float) -> None:
        while time.perf_counter() < until:
            number = next(numbers)
            source = {"intent": "Move", "context_seq": 1}
            await log.append(
                {
                    **intent(group, number),
                    "source_id": name,
                    "req_id": f"{name}-{time.perf_counter_ns()}",
                    "schema_version": "1.0.0",
                    "source_metadata": source,
                }
            )

    start = time.perf_counter()
    await asyncio.gather(*(caller(f"agent-{n}", n // 5, start + seconds) for n in range(callers)))
    return next(numbers) / (time.perf_counter() - start)


async def run_by_socket(report: Report, url: str, server: Server) -> None:
    """Measure twenty agents over WebSocket: seen by five others, and by nobody else."""
    say("intents over WebSocket")
    crowds = {
        "each seen by 5 others": Crowd(groups=4, acting=5, looking_on=1),
        "each seen by nobody else": Crowd(groups=20, acting=1),
    }
    figures = {}
    for what, crowd in crowds.items():
        await settled(url, f"sockets-{crowd.groups}", crowd)
        name = f"intents over WebSocket, 20 agents, {what}"
        figures[what] = report.figures[name] = Figure(name)
    for number in range(-1, ROUNDS):
        for what, crowd in crowds.items():
            seats = crowd.seats(server.world(f"sockets-{crowd.groups}"))
            found = await play(Task(seats, 2.0, [server.pid], window=WINDOW))
            if number >= 0:
                figures[what].rates.append(found.accepted / found.seconds)
                cores = " and ".join(f"{share:.2f}" for share in found.cores)
                say(f"  {found.accepted / found.seconds:,.0f}/s {what}; client and server: {cores} of a core")
    for what, figure in figures.items():
        report.note(Goal(f"intents/s over WebSocket, 20 agents, {what}", figure.rate, WANTED_BY_SOCKET))
