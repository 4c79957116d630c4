"""Tools for faults that agents live through: services in processes of their own, agents' programs, and a judge."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import orjson
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol
from worldledger_service.runtime import Orchestrator
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.conftest import NEVER
from tests.store.helpers import assert_sound
from tests.waiting import wait_for
from tests.warm import SCRIPT, Process
from worldledger.client import Agent, Client
from worldledger.deltas import ObservationDelta, View, apply_delta
from worldledger.effects import Effect, EffectDraft
from worldledger.errors import RecoveryAction, SimulationError
from worldledger.intents import Accepted
from worldledger.observation import ObservationPolicy, ObservedEvent, PolicyConfig

from .helpers import environment, free_port

#: Views age without harm.
PATIENT = 1_000_000
#: Errors after which the same is sent again a little later.
_PASSING = frozenset({RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY})

ALL = ObservationPolicy()


def near(limit: float, **config: Any) -> ObservationPolicy:
    """Return a policy that sees so far."""
    return ObservationPolicy(PolicyConfig(distance_limit=limit, **config))


def intent(agent_id: str, req_id: str, kind: str, context_seq: int = 0, **payload: Any) -> dict[str, Any]:
    """Make a whole intent."""
    return {"agent_id": agent_id, "req_id": req_id, "kind": kind, "payload": payload, "context_seq": context_seq}


def event(text: str, source_id: str = "herald") -> EffectDraft:
    """Make an event that everybody hears."""
    return {"kind": "Called", "payload": {"text": text}, "source_id": source_id, "schema_version": "1.0.0"}


def entity(name: str, *position: float) -> EffectDraft:
    """Make an entity somewhere."""
    payload = {"entity_id": name, "entity_data": {"mood": 0}, "position": list(position)}
    return {"kind": "EntityCreated", "payload": payload, "source_id": "builder", "schema_version": "1.0.0"}


class Service:
    """``worldledger serve`` in a process of its own; it can be killed and started again on its port."""

    def __init__(self, database_url: str, log: Path, settings: dict[str, Any], program: Path = SCRIPT) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = log
        self._arguments = ["serve", "--port", str(self.port), "--no-projections", "--database-url", database_url]
        #: no snapshots: the StateDigests that come with them would be effects that no script has
        given = {"snapshot_every": NEVER, **settings}
        self._environment = environment() | {f"WORLDLEDGER_{name.upper()}": str(value) for name, value in given.items()}
        self._program = program
        self._process: Process | None = None
        self._says: BinaryIO | None = None

    @property
    def pid(self) -> int:
        """The process."""
        assert self._process is not None
        return self._process.pid

    def launch(self) -> None:
        """Start it; see `wait_until_it_serves`."""
        says, told = os.pipe()
        self._says = open(says, "rb")  # noqa: PTH123, SIM115 - no path, and open until it ends
        with open(told, "wb") as out, self.log.open("ab") as log, open(os.devnull, "rb") as nothing:  # noqa: PTH123
            streams = (nothing.fileno(), out.fileno(), log.fileno())
            self._process = Process(self._arguments, streams, self._environment, program=self._program)

    def wait_until_it_serves(self) -> None:
        """Wait for the line that says so."""
        assert self._says is not None
        assert self.url.encode() in self._says.readline(), self.log.read_text()

    async def start(self) -> None:
        """Start it, and wait until it serves."""
        self.launch()
        await asyncio.to_thread(self.wait_until_it_serves)

    async def kill(self) -> None:
        """Kill it with SIGKILL."""
        await asyncio.to_thread(self.end)

    def end(self) -> None:
        """Kill it, and wait for its end."""
        assert self._process is not None
        assert self._says is not None
        self._process.end()
        self._says.close()

    async def stop(self) -> int:
        """End it as a supervisor does, and return its exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self._process.wait)

    def said(self) -> str:
        """Return what it has written to its log."""
        return self.log.read_text()


@asynccontextmanager
async def serving(
    database_url: str, folder: Path, name: str = "service", *, program: Path = SCRIPT, **settings: Any
) -> AsyncIterator[Service]:
    """Serve a database from a process of its own; a traceback in its log is a failure."""
    service = Service(database_url, folder / f"{name}.log", settings, program)
    try:
        await service.start()
        yield service
    finally:
        await service.kill()
    assert "Traceback" not in service.said(), service.said()


class Two(NamedTuple):
    """Two services on one database."""

    url: str
    one: Service
    two: Service


@asynccontextmanager
async def living(service: Service, world_id: str = "town", **how: Any) -> AsyncIterator[Client]:
    """Talk to a world of a service; who cannot reach it goes on trying."""
    async with Client(service.url, world_id, patience=60.0, **how) as client:
        yield client


class Wire:
    """A bare WebSocket of an agent, message by message: nothing is read ahead, and nothing is done by itself."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, kind: str, **body: Any) -> None:
        """Send a message."""
        await self.connection.send(orjson.dumps({"type": kind, **body}).decode())

    async def receive(self, *kinds: str) -> dict[str, Any]:
        """Return the next message of these kinds, any if none is named."""
        while True:
            found: dict[str, Any] = orjson.loads(await self.connection.recv())
            if not kinds or found["type"] in kinds:
                return found

    async def answers(self, count: int) -> list[dict[str, Any]]:
        """Return the answers to so many intents."""
        return [await self.receive("accepted", "rejected", "error") for _ in range(count)]


@asynccontextmanager
async def wired(service: Service, agent_id: str, view_seq: int, world_id: str = "town") -> AsyncIterator[Wire]:
    """Open an agent's socket by hand, its hello read; small buffers, so that who does not read is one soon."""
    plain = socket.create_connection(("127.0.0.1", service.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    address = f"ws://127.0.0.1:{service.port}/v1/worlds/{world_id}/agents/{agent_id}/ws?view_seq={view_seq}"
    how: dict[str, Any] = {"compression": None, "ping_interval": None, "max_queue": 1, "close_timeout": 1}
    how["open_timeout"] = 60
    async with connect(address, sock=plain, subprotocols=[Subprotocol("worldledger.v1.json")], **how) as connection:
        wire = Wire(connection)
        await wire.receive("hello")
        yield wire


class Mind:
    """The program of one agent: its view as it keeps it by deltas, what it has heard, and what it was acknowledged."""

    def __init__(self, handle: Agent) -> None:
        assert handle.initial_view is not None
        self.agent_id = handle.agent_id
        self.handle = handle
        self.view: View = handle.initial_view
        self.began_at = self.view.view_seq
        self.heard: list[ObservedEvent] = []
        self.accepted: dict[str, Accepted] = {}
        #: the codes of what was refused and had to be sent again
        self.refusals: Counter[str] = Counter()
        self._reading: asyncio.Task[None] | None = None

    def read(self) -> None:
        """Begin to read observations, or go on with those of another handle."""
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def stop(self) -> None:
        """Read no more."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def come_to(self, seq: int) -> None:
        """Wait until the view is that of this effect, which the agent observes, and read no more."""
        assert self._reading is not None
        await wait_for(
            lambda: self.view.view_seq >= seq or (self._reading and self._reading.done()), f"{seq} is observed"
        )
        if self._reading.done():
            self._reading.result()
        assert self.view.view_seq == seq
        await self.stop()

    async def _read(self) -> None:
        while True:
            self.take(await self.handle.next_observation())

    def take(self, delta: ObservationDelta) -> None:
        """Take an observation: each comes once, in order, whole, and leads where it says."""
        assert delta["view_seq"] > self.view.view_seq
        assert not delta.get("events_dropped")
        self.view = apply_delta(self.view, delta)
        self.heard += delta["events"]

    async def act(self, wanted: dict[str, Any]) -> Accepted:
        """Submit an intent again and again until it is accepted."""
        while True:
            try:
                accepted = await self.handle.submit_intent(wanted)
            except SimulationError as error:
                if error.recovery not in _PASSING:
                    raise
                self.refusals[error.code] += 1
                await asyncio.sleep(0.02)  # as every client does; a service that is away answers at once
            else:
                self.accepted[accepted.req_id] = accepted
                return accepted


async def judged(database_url: str, world_id: str, accepted: Iterable[Accepted]) -> list[Effect]:
    """Return a world's effects: gapless, verified, no request twice, and everything acknowledged in its place."""
    async with Store.open(database_url, Settings(pool_size=2, snapshot_every=NEVER)) as store:
        await assert_sound(store, world_id)
        effects = [entry.effect for entry in await (await store.log(world_id)).get_entries_since(0)]
    for each in accepted:
        effect = effects[each.global_seq - 1]
        assert (effect["uuid"], effect["req_id"]) == (str(each), each.req_id)
    return effects


async def right(database_url: str, world_id: str, *minds: Mind) -> None:
    """Check by the log alone that agents have the views that they should have, and have heard all that they should."""
    settings = Settings(pool_size=2, snapshot_every=NEVER)
    async with Orchestrator.open(database_url, world_id=world_id, settings=settings) as world:
        for mind in minds:
            assert await world.view(mind.agent_id, at_seq=mind.view.view_seq) == mind.view
            told, _ = await world.observed_events(
                mind.agent_id, after_seq=mind.began_at, until_seq=mind.view.view_seq, limit=100_000
            )
            assert [each["global_seq"] for each in mind.heard] == [each["global_seq"] for each in told]
