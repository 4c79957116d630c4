"""Tools of these tests: asking over HTTP and over a socket, and positions in which much happens at once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import orjson
from websockets.asyncio.client import ClientConnection, connect

from tests.api.helpers import Served

PREFIX = "/openenv/chess"
#: White mates by f1f8, and stalemates by f1f7.
MATE_OR_STALEMATE = "7k/8/6K1/8/8/8/8/5Q2 w - - 0 1"
#: White has one legal move, and mates by it.
FORCED_MATE = "1k6/1q6/1KQ5/4q3/8/8/8/8 w - - 0 1"
#: Black can bring that about by h7b7.
BEFORE_FORCED_MATE = "1k6/7q/1KQ5/4q3/8/8/8/8 b - - 0 1"
BEGINNING = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"


class Socket:
    """A client of the socket: one question, one answer."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def say(self, frame: str | bytes) -> tuple[str, dict[str, Any]]:
        """Send a frame as it is; return the type and the data of the answer."""
        await self.connection.send(frame)
        return await self.hear()

    async def hear(self) -> tuple[str, dict[str, Any]]:
        """Return the type and the data of the next message."""
        found = orjson.loads(await self.connection.recv())
        assert set(found) == {"type", "data"}
        return found["type"], found["data"]

    async def reset(self, **data: Any) -> dict[str, Any]:
        """Reset; return what was observed."""
        return observed(*await self.say(message("reset", data)))

    async def step(self, move: str, **metadata: Any) -> dict[str, Any]:
        """Make a step; return what was observed."""
        return observed(*await self.say(message("step", {"move": move, "metadata": metadata})))

    async def state(self) -> dict[str, Any]:
        """Return the state."""
        kind, data = await self.say(message("state"))
        assert kind == "state", data
        return data

    async def refused(self, code: str, kind: str, data: Any = None) -> str:
        """Ask what is refused with this code; return the message."""
        return error(*await self.say(message(kind, data)), code)

    async def closed(self) -> int | None:
        """Wait until the server has closed; return the code."""
        await self.connection.wait_closed()
        return self.connection.close_code


def message(kind: str, data: Any = None) -> str:
    """Write a message."""
    return orjson.dumps({"type": kind} if data is None else {"type": kind, "data": data}).decode()


def observed(kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """Return an observation, which must be one by the contract."""
    assert kind == "observation", data
    return result(data)


def result(data: dict[str, Any]) -> dict[str, Any]:
    """Return the observation of a result; done and reward stand in it and beside it."""
    assert set(data) == {"observation", "reward", "done"}
    found: dict[str, Any] = data["observation"]
    assert set(found) == {"fen", "legal_moves", "is_check", "result", "done", "reward", "metadata"}
    assert (found["done"], found["reward"]) == (data["done"], data["reward"])
    assert found["done"] == (found["result"] is not None)
    return found


def error(kind: str, data: dict[str, Any], code: str) -> str:
    """Return the message of an error, which must be of this code."""
    assert (kind, data["code"]) == ("error", code), data
    assert set(data) == {"message", "code"}
    text: str = data["message"]
    assert text
    return text


@asynccontextmanager
async def socket_of(served: Served) -> AsyncIterator[Socket]:
    """Open a socket."""
    address = f"{served.url.replace('http://', 'ws://')}{PREFIX}/ws"
    async with connect(address, proxy=None, compression=None, open_timeout=60) as connection:
        yield Socket(connection)


async def reset(client: httpx2.AsyncClient, **body: Any) -> dict[str, Any]:
    """Reset over HTTP; return what was observed."""
    response = await client.post(f"{PREFIX}/reset", json=body)
    assert response.status_code == 200, response.text
    return result(response.json())


async def step(client: httpx2.AsyncClient, episode_id: str, move: str, **body: Any) -> httpx2.Response:
    """Make a step over HTTP."""
    return await client.post(f"{PREFIX}/step", json={"action": {"move": move}, "episode_id": episode_id, **body})


async def stepped(client: httpx2.AsyncClient, episode_id: str, move: str, **body: Any) -> dict[str, Any]:
    """Make a step over HTTP that is answered; return what was observed."""
    response = await step(client, episode_id, move, **body)
    assert response.status_code == 200, response.text
    return result(response.json())


async def state_of(client: httpx2.AsyncClient, episode_id: str) -> dict[str, Any]:
    """Return an episode's state over HTTP."""
    response = await client.get(f"{PREFIX}/state", params={"episode_id": episode_id})
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found
