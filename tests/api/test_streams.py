"""Streams under a microscope: what they hold, when they end, how they fail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import httpx2
import orjson
import pytest
from starlette.types import Message
from worldledger_service.api.reading import _event
from worldledger_service.api.streaming import Stream, StreamAbortedError

from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.chain import StoredEffect

from .helpers import draft, serving, tailing


class Source:
    """Chunks that are counted as they are asked for; it may fail after some, and knows when it was closed."""

    def __init__(self, chunks: int, error: Exception | None = None) -> None:
        self.asked = 0
        self.closed = False
        self._chunks = chunks
        self._error = error

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the chunks."""
        try:
            for number in range(self._chunks):
                self.asked += 1
                yield b"%d" % number
            if self._error is not None:
                raise self._error
        finally:
            self.closed = True


class Connection:
    """The server's side of a request: what was sent, a gate for sending, and the client's leaving."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.open = asyncio.Event()
        self.open.set()
        self.left = asyncio.Event()
        self._asked = False

    async def receive(self) -> Message:
        """Return the request, then nothing until the client leaves."""
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Take a message once the gate is open."""
        await asyncio.sleep(0)
        await self.open.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        """What was sent of the body."""
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def ended(self) -> bool:
        """Whether the body was ended properly."""
        return bool(self.sent) and self.sent[-1].get("more_body") is False


def _run(stream: Stream, connection: Connection) -> asyncio.Task[None]:
    scope: dict[str, Any] = {"type": "http", "path": "/"}
    return asyncio.get_running_loop().create_task(stream(scope, connection.receive, connection.send))


async def test_a_stream_sends_all_and_ends() -> None:
    """A source that ends ends the response."""
    source, connection = Source(5), Connection()
    await _run(Stream(source.chunks(), "text/x", {"A": "b"}), connection)
    assert connection.body == b"01234"
    assert connection.ended
    assert source.closed
    assert (b"a", b"b") in connection.sent[0]["headers"]


async def test_a_slow_client_holds_up_the_source() -> None:
    """A chunk is asked for only once the one before was taken."""
    source, connection = Source(1000), Connection()
    connection.open.clear()
    running = _run(Stream(source.chunks(), "text/x"), connection)
    connection.open.set()
    await wait_for(lambda: source.asked >= 3, "some are sent")
    connection.open.clear()
    sent = len(connection.sent)
    for _ in range(50):
        await asyncio.sleep(0)
    assert source.asked <= sent + 1
    connection.open.set()
    await running
    assert source.asked == 1000


async def test_a_client_that_leaves_closes_the_source() -> None:
    """When the client leaves, the source is closed and nothing more is sent, even amid a stalled chunk."""
    source, connection = Source(10**9), Connection()
    running = _run(Stream(source.chunks(), "text/x"), connection)
    await wait_for(lambda: source.asked >= 3, "some are sent")
    connection.open.clear()
    connection.left.set()
    await running
    assert source.closed
    assert not connection.ended


async def test_a_source_that_fails_gives_no_clean_end() -> None:
    """A failure after the headers is raised on, and the body is not ended."""
    source, connection = Source(3, OSError("disk")), Connection()
    with pytest.raises(StreamAbortedError, match="disk"):
        await _run(Stream(source.chunks(), "text/x"), connection)
    assert connection.body == b"012"
    assert not connection.ended


async def test_a_stopping_service_ends_endless_streams() -> None:
    """Once the service stops, a stream that was told of it ends properly, between two chunks."""
    stopping = asyncio.Event()
    source, connection = Source(10**9), Connection()
    running = _run(Stream(source.chunks(), "text/x", stopping=stopping), connection)
    await wait_for(lambda: source.asked >= 3, "some are sent")
    stopping.set()
    await running
    assert source.closed
    assert connection.ended
    assert connection.body == b"".join(b"%d" % number for number in range(len(connection.sent) - 2))


async def test_a_cancelled_stream_closes_its_source() -> None:
    """A server that cancels the request leaves nothing running."""
    source, connection = Source(10**9), Connection()
    running = _run(Stream(source.chunks(), "text/x"), connection)
    await wait_for(lambda: source.asked >= 3, "some are sent")
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert source.closed
    assert not connection.ended


@pytest.fixture
async def behind_a_proxy(database_url: str) -> AsyncIterator[tuple[Proxy, httpx2.AsyncClient]]:
    """Serve through a proxy that can cut the service off its database; the world holds 15 MB."""
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, read_batch_bytes=100_000) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        await client.post("/v1/worlds", json={"world_id": "town"})
        for _ in range(3):
            response = await client.post("/v1/worlds/town/effects", json=[draft("x" * 100_000)] * 50)
            assert response.status_code == 201
        yield proxy, client


async def test_a_broken_stream_does_not_look_whole(behind_a_proxy: tuple[Proxy, httpx2.AsyncClient]) -> None:
    """When the database goes away in mid-stream, the client is told by an incomplete response; later it works again."""
    proxy, client = behind_a_proxy
    url = "/v1/worlds/town/effects?format=ndjson"
    async with client.stream("GET", url) as response:
        assert response.status_code == 200
        chunks = response.aiter_bytes()
        await anext(chunks)
        proxy.refuse_all()
        proxy.cut_all()
        with pytest.raises(httpx2.RemoteProtocolError):
            async for _ in chunks:
                pass
    proxy.accept_again()
    whole = await client.get(url)
    assert len(whole.content.splitlines()) == 151


async def test_a_client_that_leaves_amid_a_stream_harms_nobody(
    behind_a_proxy: tuple[Proxy, httpx2.AsyncClient],
) -> None:
    """Clients that leave in mid-stream leave the service as it was, with all its connections."""
    _, client = behind_a_proxy
    for _ in range(12):
        async with client.stream("GET", "/v1/worlds/town/effects?format=ndjson") as response:
            await anext(response.aiter_bytes())
    assert (await client.get("/readyz")).status_code == 200
    async with tailing(client, "town", after_seq=150) as tail:
        assert [event.id for event in await tail.events(1)] == [151]


def test_a_text_with_line_ends_cannot_break_the_frame() -> None:
    """A stored text that somebody put line ends into stays one event, and cannot pose as another."""
    forged = b'{"a":\n1,\r\n"b":\r2}\n\nevent: effect\nid: 9\ndata: {}'
    event = _event(StoredEffect(4, forged, b"", "K", "s", 0.0))
    assert event.count(b"\n\n") == 1
    assert b"\r" not in event
    lines = event.rstrip(b"\n").split(b"\n")
    assert lines[:2] == [b"event: effect", b"id: 4"]
    assert all(line.startswith(b"data: ") for line in lines[2:])
    plain = _event(StoredEffect(5, b'{"a":1}', b"", "K", "s", 0.0))
    assert orjson.loads(plain.split(b"data: ")[1]) == {"a": 1}
