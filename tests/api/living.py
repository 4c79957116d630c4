"""Tools for tests of agents: registering them, their intents, and their sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import jsonpatch
import orjson
from websockets.asyncio.client import ClientConnection, connect

from worldledger.observation import View

from .helpers import Served, WorldClient

SUBPROTOCOL = "worldledger.v1.json"
#: Paths within a world, as a client's own world has them.
AGENTS = "agents"
INTENTS = "intents"


def of(agent_id: str, *rest: str) -> str:
    """Return the path of an agent within a world, or of something below it."""
    return "/".join([AGENTS, *(quote(part, safe="") for part in (agent_id, *rest))])


def intent(req_id: str, context_seq: int = 0, agent_id: str | None = "alice", **fields: Any) -> dict[str, Any]:
    """Make an intent to speak; ``fields`` replace what it says."""
    made = {"kind": "Speak", "payload": {"text": f"this is {req_id}"}, "context_seq": context_seq, "req_id": req_id}
    return {**made, **({} if agent_id is None else {"agent_id": agent_id}), **fields}


async def new_world(client: WorldClient, world_id: str | None = None, **orchestrator: Any) -> None:
    """Create the client's world, or another, served like this; views age without harm unless it says otherwise."""
    config = {"staleness_threshold": 1_000_000, **orchestrator}
    response = await client.post("/v1/worlds", json={"world_id": world_id or client.world, "orchestrator": config})
    assert response.status_code == 201, response.text


async def register(client: WorldClient, *agent_ids: str, **fields: Any) -> dict[str, Any]:
    """Register agents in the client's world; return what was answered for the last."""
    found: dict[str, Any] = {}
    for agent_id in agent_ids:
        response = await client.post(AGENTS, json={"agent_id": agent_id, **fields})
        assert response.status_code in {200, 201}, response.text
        found = response.json()
    return found


async def settle(client: WorldClient, **orchestrator: Any) -> WorldClient:
    """Create the client's world as `new_world` does, and have alice and bob in it; its head is 3."""
    await new_world(client, **orchestrator)
    await register(client, "alice", "bob")
    return client


async def speak(client: WorldClient, req_id: str, agent_id: str = "alice", **fields: Any) -> int:
    """Have an agent speak; return the effect's global_seq."""
    response = await client.post(INTENTS, json=intent(req_id, agent_id=agent_id, **fields))
    assert response.status_code in {200, 201}, response.text
    found: int = response.json()["global_seq"]
    return found


class Watched:
    """An agent's view as a client keeps it: by patches, each result held against the digest that it should have."""

    def __init__(self, view: dict[str, Any]) -> None:
        self.view = view

    def apply(self, delta: dict[str, Any]) -> None:
        """Apply the next observation."""
        assert delta["view_seq"] > self.view["view_seq"]
        seen = jsonpatch.apply_patch(self.view, delta["patches"])
        checked = View.of(seen["agent_id"], delta["view_seq"], seen["visible_entities"], seen["visible_relationships"])
        assert checked.context_digest == delta["context_digest"]
        self.view = checked.model_dump()


class Socket:
    """An agent's WebSocket, message by message."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.hello: dict[str, Any] = {}

    async def send(self, kind: str, **body: Any) -> None:
        """Send a message."""
        await self.connection.send(orjson.dumps({"type": kind, **body}).decode())

    async def receive(self, kind: str | None = None) -> dict[str, Any]:
        """Return the next message; those of other kinds are passed over where one is named."""
        while True:
            found: dict[str, Any] = orjson.loads(await self.connection.recv())
            if kind in {None, found["type"]}:
                return found

    async def closed(self) -> tuple[int | None, str | None]:
        """Read on until the server has closed; give code and reason."""
        await self.connection.wait_closed()
        return self.connection.close_code, self.connection.close_reason


def address(served: Served, agent_id: str = "alice", query: str = "", world: str | None = None) -> str:
    """Return the address of an agent's socket."""
    path = f"/v1/worlds/{quote(world or served.world)}/agents/{quote(agent_id, safe='')}/ws"
    return served.url.replace("http://", "ws://") + path + query


@asynccontextmanager
async def socket_of(
    served: Served, agent_id: str = "alice", query: str = "", world: str | None = None, **options: Any
) -> AsyncIterator[Socket]:
    """Open an agent's socket, its hello read."""
    options = {"subprotocols": [SUBPROTOCOL], "compression": None, "proxy": None, "max_queue": None, **options}
    async with connect(address(served, agent_id, query, world), **options) as connection:
        assert connection.subprotocol == SUBPROTOCOL
        opened = Socket(connection)
        opened.hello = await opened.receive("hello")
        yield opened


class Wire:
    """A bare connection on which a WebSocket was opened: whatever frames a test likes, and no answers of its own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def write(self, opcode: int, payload: bytes = b"", *, fin: bool = True, mask: bool = True) -> None:
        """Write a frame, masked with zeros."""
        size = len(payload)
        head = bytes([opcode | (0x80 if fin else 0)])
        flag = 0x80 if mask else 0
        if size < 126:
            head += bytes([flag | size])
        elif size < 65_536:
            head += bytes([flag | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([flag | 127]) + size.to_bytes(8, "big")
        self.writer.write(head + (bytes(4) if mask else b"") + payload)

    async def frame(self) -> tuple[int, bytes]:
        """Return opcode and payload of the next frame; raises IncompleteReadError or ConnectionError at the end."""
        first, second = await self.reader.readexactly(2)
        size = second
        if second == 126:
            size = int.from_bytes(await self.reader.readexactly(2), "big")
        elif second == 127:
            size = int.from_bytes(await self.reader.readexactly(8), "big")
        return first & 0x0F, await self.reader.readexactly(size)

    async def closed(self) -> int:
        """Read on until the server says that it closes; return its code."""
        while True:
            opcode, payload = await self.frame()
            if opcode == 8:
                return int.from_bytes(payload[:2], "big")


@asynccontextmanager
async def wired(
    served: Served, agent_id: str = "alice", query: str = "", world: str | None = None
) -> AsyncIterator[Wire]:
    """Open an agent's socket by hand."""
    parts = urlsplit(served.url)
    # A small buffer: a client that does not read is one sooner.
    plain = socket.create_connection((parts.hostname, parts.port))
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
    reader, writer = await asyncio.open_connection(sock=plain, limit=64 * 1024)
    target = urlsplit(address(served, agent_id, query, world))
    writer.write(
        f"GET {target.path}?{target.query} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n".encode()
    )
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()
