"""Agents over WebSocket, in a process of their own: bare clients that act, and note what came when.

``python -m benchmarks.agents_sockets < task > found``: a `Task` and what it found, a `Found`, both as JSON. Moments are
those of `time.perf_counter`, which is one clock for all processes of the machine.
"""

from __future__ import annotations

import asyncio
import gc
import random
import sys
import time
import uuid
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import Any

import orjson
import psutil
import uvloop
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Subprotocol

PROTOCOL = Subprotocol("worldledger.v1.json")
#: Seconds that what is under way at the end may take.
PATIENCE = 10.0
_ACCEPTED = b'{"type":"accepted"'
_REFUSED = (b'{"type":"rejected"', b'{"type":"error"')


@dataclass(frozen=True)
class Seat:
    """One agent's socket: the address of its world, the group that it stands in, whether it acts."""

    url: str
    agent_id: str
    group: int
    acts: bool = True


@dataclass(frozen=True)
class Task:
    """What is to be done.

    With a ``rate`` (effects a second, of all together) intents are sent at random moments, whether or not those before
    were answered; without one, each agent that acts keeps ``window`` intents under way. Nothing of the first ``warm``
    seconds is noted; ``seconds`` follow. ``servers`` are processes whose use of the machine is noted, too.
    """

    seats: list[Seat]
    seconds: float
    servers: list[int]
    warm: float = 0.5
    rate: float = 0.0
    window: int = 1


@dataclass
class Found:
    """What came: intents as (seat, global_seq, sent, acknowledged), observations as (seat, view_seq, seen).

    ``accepted`` counts the acknowledgements that came within ``seconds``; ``late`` is by how much the intents of a
    """

    intents: list[tuple[int, int, float, float]] = field(default_factory=list)
    observations: list[tuple[int, int, float]] = field(default_factory=list)
    accepted: int = 0
    seconds: float = 0.0
    late: list[float] = field(default_factory=list)
    frame_bytes: float = 0.0
    cores: list[float] = field(default_factory=list)


class Client:
    """One agent: sends intents, and keeps what comes, with the moment, to be read when all is over."""

    def __init__(self, number: int, seat: Seat, connection: ClientConnection) -> None:
        self.seat = seat
        self.came: list[tuple[float, bytes]] = []
        self.sent: list[float] = []
        self.answered = 0
        self.room = asyncio.Semaphore(0)
        self._connection = connection
        self._random = random.Random(number)
        self._run = uuid.uuid4().hex[:8]
        self._context_seq = 0

    async def begin(self) -> None:
        """Read on to the view to begin with."""
        while True:
            message = orjson.loads(await self._connection.recv())
            if message["type"] == "view":
                self._context_seq = message["view"]["view_seq"]
                return

    async def read(self) -> None:
        """Keep what comes."""
        clock, keep = time.perf_counter, self.came.append
        while True:
            text = await self._connection.recv(decode=False)
            keep((clock(), text))
            if text.startswith(_ACCEPTED):
                self.answered += 1
                self.room.release()
            elif text.startswith(_REFUSED):
                raise RuntimeError(text.decode())

    async def act(self) -> None:
        """Send an intent: to move about, or now and then to speak."""
        number = len(self.sent)
        place = [self.seat.group * 1000.0 + self._random.uniform(-3, 3), self._random.uniform(-3, 3), 0.0]
        intent = {
            "kind": "Speak" if number % 4 == 3 else "Move",
            "payload": {"text": "Good morning, how are you?"} if number % 4 == 3 else {"to": place, "speed": 1.25},
            "context_seq": self._context_seq,
            "req_id": f"{self._run}-{number}",
        }
        text = orjson.dumps({"type": "intent", "id": number, "intent": intent}).decode()
        self.sent.append(time.perf_counter())
        await self._connection.send(text)


async def run(task: Task) -> Found:
    """Do it."""
    found = Found()
    async with AsyncExitStack() as stack:
        clients = []
        for number, seat in enumerate(task.seats):
            address = f"{seat.url}/agents/{seat.agent_id}/ws"
            opened = connect(
                address, subprotocols=[PROTOCOL], compression=None, proxy=None, max_queue=None, ping_interval=None
            )
            client = Client(number, seat, await stack.enter_async_context(opened))
            await client.begin()
            clients.append(client)
        readers = [asyncio.create_task(client.read()) for client in clients]
        gc.collect()
        gc.disable()  # a pause of this process would be taken for one of the server
        begin = time.perf_counter() + task.warm
        end = begin + task.seconds
        acting = [client for client in clients if client.seat.acts]
        counting = asyncio.create_task(_count(task, clients, begin, end, found))
        if task.rate:
            await _paced(task, acting, begin, end, found)
        else:
            await asyncio.gather(*(_pressing(client, task.window, end) for client in acting))
        await counting
        await _settle(clients, readers)
        _read(clients, begin, found)
        for reader in readers:
            reader.cancel()
    return found


async def _count(task: Task, clients: list[Client], begin: float, end: float, found: Found) -> None:
    processes = [psutil.Process(), *map(psutil.Process, task.servers)]
    await asyncio.sleep(begin - time.perf_counter())
    start, before = time.perf_counter(), sum(client.answered for client in clients)
    used = [sum(process.cpu_times()[:2]) for process in processes]
    await asyncio.sleep(end - time.perf_counter())
    found.seconds = time.perf_counter() - start
    found.accepted = sum(client.answered for client in clients) - before
    found.cores = [
        (sum(process.cpu_times()[:2]) - was) / found.seconds for process, was in zip(processes, used, strict=True)
    ]


async def _paced(task: Task, acting: list[Client], begin: float, end: float, found: Found) -> None:
    """Act at random moments, the agents in turn: moments that do not depend on how fast answers come."""
    pick = random.Random(1)
    due, number = time.perf_counter(), 0
    while (due := due + pick.expovariate(task.rate)) < end:
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        if due > begin:
            found.late.append(time.perf_counter() - due)
        await acting[number % len(acting)].act()
        number += 1


async def _pressing(client: Client, window: int, end: float) -> None:
    """Act again as soon as an answer has come."""
    for _ in range(window):
        client.room.release()
    while time.perf_counter() < end:
        await client.room.acquire()
        await client.act()


async def _settle(clients: list[Client], readers: list[asyncio.Task[None]]) -> None:
    """Wait until every intent is answered, and whatever follows from the last of them has come."""
    given_up = time.perf_counter() + PATIENCE
    before = -1
    while True:
        came = sum(len(client.came) for client in clients)
        if came == before and all(client.answered == len(client.sent) for client in clients):
            return
        if time.perf_counter() > given_up:
            raise RuntimeError("not every intent was answered")
        for reader in readers:
            if reader.done():
                reader.result()
        before = came
        await asyncio.sleep(0.3)


def _read(clients: list[Client], begin: float, found: Found) -> None:
    sizes = []
    for seat, client in enumerate(clients):
        for at, text in client.came:
            message = orjson.loads(text)
            if message["type"] == "accepted":
                sent = client.sent[message["id"]]
                if sent >= begin:
                    found.intents.append((seat, message["global_seq"], sent, at))
            elif message["type"] == "observation":
                found.observations.append((seat, message["delta"]["view_seq"], at))
                sizes.append(len(text))
    found.frame_bytes = sum(sizes) / max(len(sizes), 1)


async def play(task: Task) -> Found:
    """Have a process of its own do it."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.agents_sockets",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(orjson.dumps(asdict(task)))
    if process.returncode:
        raise RuntimeError("the agents' process failed")
    return Found(**orjson.loads(output))


def _task(text: bytes) -> Task:
    value: dict[str, Any] = orjson.loads(text)
    return Task(seats=[Seat(**seat) for seat in value.pop("seats")], **value)


if __name__ == "__main__":
    sys.stdout.buffer.write(orjson.dumps(asdict(uvloop.run(run(_task(sys.stdin.buffer.read()))))))
