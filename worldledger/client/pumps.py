"""Pumps: one subscription for each agent, shared by everything in this process that reads its observations."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from worldledger.aio import QueueClosedError
from worldledger.client.protocol import Observations, World
from worldledger.deltas import ObservationDelta
from worldledger.errors import SimulationError


class Reader(Protocol):
    """What a pump feeds. Neither method may wait or raise."""

    def take(self, delta: ObservationDelta) -> None:
        """Take the next delta."""
        ...

    def end(self, error: SimulationError | None) -> None:
        """Note that no more deltas arrive: the world was closed, or (``error``) refuses to go on."""
        ...


class Pump:
    """Reads one agent's observations in a world for as long as it has readers. Get it from `Pump.join`.

    ``view_seq`` is that of the last delta that its readers were given.
    """

    def __init__(self, world: World, agent_id: str) -> None:
        self.world = world
        self.agent_id = agent_id
        self.view_seq = 0
        self._readers: dict[Reader, None] = {}
        self._joining = 0
        self._begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._begun.add_done_callback(_retrieve)
        self._task = asyncio.get_running_loop().create_task(self._run())

    @staticmethod
    async def join(world: World, agent_id: str, reader: Reader) -> Pump:
        """Feed a reader from here on, by the pump of its agent; `view_seq` is the seq after which its deltas begin.

        Raises UnknownAgentError, and any other error that prevents observing the agent.
        """
        pump = _PUMPS.get((id(world), agent_id))
        if pump is None:
            pump = _PUMPS[id(world), agent_id] = Pump(world, agent_id)
        pump._joining += 1
        try:
            await asyncio.shield(pump._begun)
            pump._readers[reader] = None
        finally:
            pump._joining -= 1
            pump._end_if_unused()
        return pump

    def leave(self, reader: Reader) -> None:
        """Stop feeding a reader. Leaving twice is harmless."""
        self._readers.pop(reader, None)
        self._end_if_unused()

    def _end_if_unused(self) -> None:
        if not self._readers and not self._joining:
            self._forget()
            self._task.cancel()

    def _forget(self) -> None:
        key = (id(self.world), self.agent_id)
        if _PUMPS.get(key) is self:
            del _PUMPS[key]

    async def _run(self) -> None:
        try:
            observations = await self.world.subscribe(self.agent_id)
        except Exception as error:  # noqa: BLE001 - raised where readers join
            self._forget()
            self._begun.set_exception(error)
            return
        except BaseException:
            self._forget()
            self._begun.cancel()
            raise
        try:
            self.view_seq = observations.view_seq
            self._begun.set_result(None)
            await self._feed(observations)
        finally:
            self._forget()
            observations.close()

    async def _feed(self, observations: Observations) -> None:
        ending: SimulationError | None = None
        try:
            while True:
                delta = await observations.get()
                self.view_seq = delta["view_seq"]
                for reader in list(self._readers):
                    reader.take(delta)
        except QueueClosedError:
            pass
        except SimulationError as error:
            ending = error
        self._forget()
        for reader in list(self._readers):
            reader.end(ending)


#: The running pumps, by the identity of their world, which they keep alive.
_PUMPS: Final[dict[tuple[int, str], Pump]] = {}


def _retrieve(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
