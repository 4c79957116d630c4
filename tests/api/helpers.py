"""Tools of these tests: drafts, problems, a served application, server-sent events, waiting for something."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from unittest import mock
from urllib.parse import urlsplit

import httpx2
import orjson
import pytest
import uvicorn.server
from fastapi import FastAPI
from worldledger_service import app as composition
from worldledger_service.api.context import Services
from worldledger_service.settings import Settings

from tests.conftest import quick_settings

JSON = {"Content-Type": "application/json"}
#: For clients that use no TLS: to load certificates takes longer than most requests.
_NO_CERTIFICATES: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def draft(n: Any = 0, **fields: Any) -> dict[str, Any]:
    """Make a draft whose payload carries ``n``."""
    return {"kind": "Said", "payload": {"n": n}, "source_id": "a1", "schema_version": "1.0.0", **fields}


def settings(**changes: Any) -> Settings:
    """Make settings: few connections, any free port, neither snapshots nor projections of their own accord."""
    usual = {"port": 0, "append_deadline": 30.0, "poll_interval": 0.02, "projections": False}
    return quick_settings(**{**usual, **changes})


def problem(response: httpx2.Response, status: int, code: str, **members: Any) -> dict[str, Any]:
    """Check that a response is a whole problem of this status and code, with these members; return it."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found: dict[str, Any] = response.json()
    assert (response.status_code, found["code"]) == (status, code), found
    assert found["status"] == status
    assert found["type"] == f"urn:worldledger:problem:{code}"
    assert {"title", "detail", "recovery", "instance"} <= found.keys()
    assert found["title"]
    assert found["detail"]
    assert {name: found.get(name) for name in members} == members
    return found


def chain_checksum(text: bytes, previous: str | None) -> str:
    """Compute a checksum in the five lines of docs/reference/effects.md, from the bytes of an effect."""
    h = sha256()
    if previous:
        h.update(previous.encode())
    h.update(text)
    return h.hexdigest()


class WorldClient(httpx2.AsyncClient):
    """A client that has a world of its own: a path without a slash at the beginning is within it, the empty one its."""

    def __init__(self, *, world: str = "town", **how: Any) -> None:
        super().__init__(**{"base_url": "http://127.0.0.1", "verify": _NO_CERTIFICATES, **how})
        self.world = world

    def path(self, rest: str = "") -> str:
        """Return the whole path of the world, or of something below it."""
        return f"/v1/worlds/{self.world}" + (f"/{rest}" if rest else "")

    def _merge_url(self, url: httpx2.URL | str) -> httpx2.URL:
        if isinstance(url, str) and not url.startswith(("/", "http:")):
            url = self.path(url)
        return super()._merge_url(url)


@asynccontextmanager
async def started(database_url: str, **changes: Any) -> AsyncIterator[WorldClient]:
    """Run an application of a test's own for as long as the block runs, without a socket; lend a client of it."""
    app = composition.create_app(settings(**changes), database_url)
    async with app.router.lifespan_context(app), WorldClient(transport=httpx2.ASGITransport(app=app)) as client:
        yield client


@dataclass
class Served:
    """A service that listens on a real socket, in this very process, and the name of a world for the test."""

    url: str
    app: FastAPI
    task: asyncio.Task[None]
    world: str = "town"

    def client(self) -> WorldClient:
        """Make a client of it, to be closed."""
        return WorldClient(base_url=self.url, timeout=60, world=self.world)

    @property
    def services(self) -> Services:
        """What the service's routes are handed."""
        found: Services = self.app.state.services
        return found

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open a bare connection."""
        parts = urlsplit(self.url)
        return await asyncio.open_connection(parts.hostname, parts.port)

    async def stop(self) -> None:
        """Stop the service as a signal does, and wait for its end."""
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task


class _Brisk:
    """asyncio as uvicorn sees it, which looks every 0.1 s whether it is to stop, and then waits as long: 5 ms here."""

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    @staticmethod
    async def sleep(seconds: float) -> None:
        await asyncio.sleep(seconds / 20)


@asynccontextmanager
async def serving(database_url: str, **changes: Any) -> AsyncIterator[Served]:
    """Serve for as long as the block runs. Signals are for the tests' own process, which the service leaves them to."""
    made: list[FastAPI] = []
    create = composition.create_app
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[str] = loop.create_future()

    def keep(*arguments: Any, **keywords: Any) -> FastAPI:
        made.append(create(*arguments, **keywords))
        return made[-1]

    with mock.patch.object(uvicorn.server, "asyncio", _Brisk()):
        with (
            mock.patch.object(composition, "create_app", keep),
            mock.patch.object(composition, "_signals", nullcontext),
        ):
            task = loop.create_task(composition.serve(settings(**changes), database_url, ready=ready.set_result))
            first: set[asyncio.Future[Any]] = {task, ready}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
        served = Served(ready.result(), made[0], task)
        try:
            yield served
        finally:
            await served.stop()


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    id: int
    event: str
    data: bytes

    @property
    def n(self) -> Any:
        """What the draft's payload carried."""
        return orjson.loads(self.data)["payload"].get("n")


class Tail:
    """Reads server-sent events from an open response."""

    def __init__(self, response: httpx2.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def block(self) -> list[str]:
        """Return the lines of the next event or comment; nothing at the end of the stream."""
        lines: list[str] = []
        async for line in self._lines:
            if not line:
                break
            lines.append(line)
        return lines

    async def events(self, count: int) -> list[Event]:
        """Return the next events; comments are passed over."""
        found: list[Event] = []
        while len(found) < count:
            lines = await self.block()
            assert lines, "the stream has ended"
            if lines[0].startswith(":"):
                continue
            fields = [line.partition(": ") for line in lines]
            data = "\n".join(value for name, _, value in fields if name == "data")
            named = {name: value for name, _, value in fields}
            found.append(Event(int(named["id"]), named["event"], data.encode()))
        return found


@asynccontextmanager
async def tailing(
    client: httpx2.AsyncClient, world: str, headers: Mapping[str, str] | None = None, **query: Any
) -> AsyncIterator[Tail]:
    """Open a tail, and begin once it is known to follow."""
    async with client.stream("GET", f"/v1/worlds/{world}/tail", params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        tail = Tail(response)
        assert (await tail.block())[0].startswith(": after ")
        yield tail


async def catch_up(services: Services) -> None:
    """Feed the projections until nothing is due."""
    await services.projections.run_until_caught_up(timeout=60)


async def walk_pages(client: httpx2.AsyncClient, url: str, items: str, key: str, says: str) -> list[list[Any]]:
    """Follow rel=next and give a field of every item, page by page; ``says`` is what tells where the next begins."""
    pages = []
    following: str | None = url
    while following is not None:
        response = await client.get(following)
        assert response.status_code == 200, response.text
        page = response.json()
        pages.append([item[key] for item in page[items]])
        following = response.links["next"]["url"] if "next" in response.links else None
        assert page[says] == (pages[-1][-1] if following else None)
    return pages


def shares(request: pytest.FixtureRequest) -> bool:
    """Tell whether the tests of a file share an application: they do where they run on one loop."""
    mark = request.node.get_closest_marker("asyncio")
    return mark is not None and mark.kwargs.get("loop_scope") == "module"
