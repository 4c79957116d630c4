"""What the benchmarks of agents share: worlds with agents in groups, and servers with processes of their own."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

from worldledger_service.runtime import AgentHandle, ObservationPolicy, Orchestrator, OrchestratorConfig, PolicyConfig

from benchmarks.agents_sockets import Seat
from benchmarks.http import free_port, until_alive

#: How far agents see. Groups stand a thousand apart, so that each sees its own and no other.
POLICY = ObservationPolicy(PolicyConfig(distance_limit=50.0))
#: Nobody is refused for what came while he wrote: it is the way through that is measured.
CONFIG = OrchestratorConfig(staleness_threshold=1_000_000_000)


@dataclass(frozen=True)
class Crowd:
    """Agents in groups that see each other: some act, and some only look on."""

    groups: int
    acting: int
    looking_on: int = 0

    @property
    def actors(self) -> list[tuple[str, int]]:
        """Those that act, each with its group; neighbours here are of different groups."""
        return [(f"agent-{group}-{number}", group) for number in range(self.acting) for group in range(self.groups)]

    @property
    def viewers(self) -> list[tuple[str, int]]:
        """Those that only look on."""
        return [(f"looker-{group}-{n}", group) for n in range(self.looking_on) for group in range(self.groups)]

    def seats(self, here: str, there: str | None = None) -> list[Seat]:
        """Return everybody a socket of the world at the address ``here``; those that only look on, ``there``."""
        return [
            *(Seat(here, agent_id, group) for agent_id, group in self.actors),
            *(Seat(there or here, agent_id, group, acts=False) for agent_id, group in self.viewers),
        ]


async def settle(world: Orchestrator, crowd: Crowd) -> dict[str, AgentHandle]:
    """Register everybody and put them in their places."""
    handles = {}
    for number, (agent_id, group) in enumerate(crowd.actors + crowd.viewers):
        handle = handles[agent_id] = await world.register_agent(agent_id, POLICY)
        place = [group * 1000.0, number % 7, 0.0]
        await handle.submit_intent({"kind": "Move", "payload": {"to": place}})
    return handles


async def settled(url: str, world_id: str, crowd: Crowd) -> None:
    """Make a world with everybody in it, and leave it to others."""
    async with Orchestrator.open(url, world_id=world_id, config=CONFIG) as world:
        await settle(world, crowd)


@dataclass
class Server:
    """A process that serves at a port."""

    port: int
    pid: int

    def world(self, world_id: str) -> str:
        """Return the address of a world, for sockets."""
        return f"ws://127.0.0.1:{self.port}/v1/worlds/{world_id}"


@asynccontextmanager
async def process(*arguments: str) -> AsyncIterator[Server]:
    """Run a Python module that serves; ``{port}`` among its arguments stands for the port."""
    port = free_port()
    command = [sys.executable, "-m", *(str(port) if each == "{port}" else each for each in arguments)]
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.DEVNULL)
    try:
        await until_alive(port)
        yield Server(port, running.pid)
    finally:
        with suppress(ProcessLookupError):  # it has not begun at all
            running.terminate()
        await running.wait()


@asynccontextmanager
async def serving(url: str, count: int) -> AsyncIterator[list[Server]]:
    """Run servers on one database, as ``worldledger serve`` does."""
    arguments = ("worldledger_service.cli", "serve", "--port", "{port}", "--database-url", url)
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(process(*arguments)) for _ in range(count)]
