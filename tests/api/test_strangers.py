"""Strangers on the port: what a connection may hold of the service before its request is whole."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from unittest import mock

import httpx2
import pytest
from websockets.asyncio.client import connect
from worldledger_service.api import wire
from worldledger_service.api.wire import Connections

from tests.waiting import calls_by_turn, wait_for

from .helpers import Served, draft, problem, serving

PATH = "/v1/worlds/town/effects"
_GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_CHUNKED = f"{_POST}Transfer-Encoding: chunked\r\n\r\n".encode()
_KIB = 1024
_MIB = _KIB * _KIB

Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Port:
    """A service with the world ``town``, the bare connections to it, and its table of connections."""

    def __init__(self, served: Served, table: Connections) -> None:
        self.served = served
        self.table = table
        self._open: list[asyncio.StreamWriter] = []

    async def connect(self, sent: bytes = b"", *, host: str | None = None) -> Pair:
        """Open a connection, from an address of this machine if one is given, and send something."""
        port = int(self.served.url.rpartition(":")[2])
        local = None if host is None else (host, 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=local)
        self._open.append(writer)
        writer.write(sent)
        return reader, writer

    async def send(self, *parts: bytes) -> Pair:
        """Open a connection and send parts, each once the one before is out, whatever comes back."""
        pair = await self.connect()
        for part in parts:
            pair[1].write(part)
            await pair[1].drain()
        return pair

    async def several(self, host: str, count: int) -> list[Pair]:
        """Open connections, and wait until they count."""
        before = len(self.table)
        pairs = [await self.connect(host=host) for _ in range(count)]
        await wait_for(lambda: len(self.table) == before + count, "they are all counted")
        return pairs

    @staticmethod
    async def one(pair: Pair, first: bytes = b"") -> httpx2.Response:
        """Read an answer."""
        head = first + await pair[0].readuntil(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines if line)]
        length = next(int(value) for name, value in headers if name == "content-length")
        return httpx2.Response(int(status.split()[1]), headers=headers, content=await pair[0].readexactly(length))

    async def good(self, pair: Pair, sent: bytes = b"") -> None:
        """Send something, and read an answer that is no refusal."""
        pair[1].write(sent)
        answer = await self.one(pair)
        assert answer.status_code in {200, 201}, answer.text

    async def last(self, pair: Pair) -> httpx2.Response | None:
        """Read an answer after which the connection ends, or nothing but its end."""
        first = await pair[0].read(1)
        answer = await self.one(pair, first) if first else None
        assert answer is None or answer.headers["connection"] == "close"
        assert await pair[0].read() == b""
        pair[1].close()
        return answer

    async def refused(self, pair: Pair, status: int, code: str, **members: Any) -> None:
        """Read a problem after which the connection ends."""
        answer = await self.last(pair)
        assert answer is not None
        problem(answer, status, code, **members)
        assert (status == 503) == ("retry-after" in answer.headers)

    async def close(self) -> None:
        """Close every connection, and check that nothing is left of them."""
        for writer in self._open:
            writer.close()
        await wait_for(lambda: (len(self.table), self.table.body_bytes) == (0, 0), "nothing is counted any more")


@asynccontextmanager
async def port(database_url: str, **settings: Any) -> AsyncIterator[Port]:
    """Serve with these limits."""
    made: list[Connections] = []

    def keep(*arguments: Any) -> Connections:
        made.append(Connections(*arguments))
        return made[-1]

    with mock.patch.object(wire, "Connections", keep):
        async with serving(database_url, **settings) as served:
            async with httpx2.AsyncClient(base_url=served.url) as client:
                assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
            opened = Port(served, made[0])
            await wait_for(lambda: len(opened.table) == 0, "that client is gone")
            try:
                yield opened
            finally:
                await opened.close()


# -- headers, and time ---------------------------------------------------------------------------------------


async def test_a_header_has_its_bound(database_url: str) -> None:
    """Over 64 KiB it is refused as soon as the bytes are there, whatever they are; exactly so many are taken."""
    most = 64 * _KIB
    long = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: "
    rest = b"x" * (most - len(long) - len(b"\r\n\r\n"))
    body = httpx2.Request("POST", "http://x", json=draft()).content
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    too_large = {
        "one byte more": long + rest + b"x" + b"\r\n\r\n",
        "one header without end": long + b"x" * (_MIB // 2),
        "many headers": _GET[:-2] + b"X: y\r\n" * 20_000,
        "a URL": b"GET /" + b"a" * most + b" HTTP/1.1\r\n\r\n",
        "empty lines": b"\r\n" * most,
        "trailers": _CHUNKED + chunk + b"0\r\n" + b"X: y\r\n" * (most // 6 + 1) + b"\r\n",
        "one long trailer": _CHUNKED + chunk + b"0\r\nX: " + b"y" * most + b"\r\n\r\n",
        "a chunk's extension": _CHUNKED + b"1\r\n{\r\n1;x=" + b"y" * (most + 8 * _KIB) + b"\r\n}\r\n0\r\n\r\n",
    }
    async with port(database_url) as opened:
        await opened.good(await opened.connect(), long + rest + b"\r\n\r\n")
        await opened.good(await opened.connect(), _CHUNKED + chunk + b"0\r\n" + b"X: y\r\n" * (most // 6) + b"\r\n")
        for sent in too_large.values():
            await opened.refused(await opened.send(sent), 431, "header_too_large", limit=most)
        for behind in (long + b"x" * most, b"\r\n" * most):  # what came in one piece with a whole request counts, too
            pair = await opened.send(_GET + behind[: most - 8 * _KIB])
            await opened.good(pair)
            pair[1].write(behind[: 16 * _KIB] if behind.isspace() else b"x" * (16 * _KIB) + b"\r\n\r\n")
            await opened.refused(pair, 431, "header_too_large", limit=most)


async def test_a_request_comes_in_time(database_url: str) -> None:
    """A header, the first 1 KiB of a body and each further one have their time; what is late is answered and closed."""
    declared = f"{_POST}Content-Length: 9000\r\n\r\n".encode()
    async with port(database_url, header_timeout=0.2, body_timeout=0.2) as opened:
        assert await opened.last(await opened.connect()) is None, "who asks nothing is not answered"
        assert await opened.last(await opened.connect(b"\r\n")) is None
        for sent in (b"GET /livez HT", declared, declared + b"x" * 5000, _CHUNKED + b"1\r\n{\r\n"):
            await opened.refused(await opened.connect(sent), 408, "request_too_slow", recovery="retry")
        pair = await opened.connect()
        await opened.good(pair, _GET)
        pair[1].write(_GET[:20])
        await opened.refused(pair, 408, "request_too_slow")
        dripping = await opened.connect(declared)
        drip = asyncio.create_task(_drip(dripping[1]))
        await opened.refused(dripping, 408, "request_too_slow")
        drip.cancel()
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:
            assert (await client.post(PATH, json=draft("x" * 9000))).status_code == 201


async def _drip(writer: asyncio.StreamWriter) -> None:
    """Send a byte every now and then."""
    while not writer.is_closing():
        writer.write(b"x")
        await asyncio.sleep(0.01)


async def test_a_refused_sender_is_not_listened_to_for_long(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who sends on after 431 or 408 can read the answer; after 1 MiB, or the time for reading it, nothing is read."""
    monkeypatch.setattr(wire, "_LINGER_PAUSE_SECONDS", 0.2)
    declared = f"{_POST}Content-Length: 9000\r\n\r\n".encode()
    most = 64 * _MIB  # with all that the buffers of both sides hold
    async with port(database_url, body_timeout=0.2) as opened:
        for sent, status, code in (
            (b"\r\n" * (64 * _KIB), 431, "header_too_large"),
            (declared, 408, "request_too_slow"),
        ):
            pair = await opened.connect(sent)
            problem(await opened.one(pair), status, code)
            assert await _send_on(pair[1], most) < most
        monkeypatch.setattr(wire, "_SHORT_LINGER", wire._SHORT_LINGER._replace(seconds=0.2))
        pair = await opened.connect(declared)
        drip = asyncio.create_task(_drip(pair[1]))
        await opened.one(pair)
        async with asyncio.timeout(10):
            await drip


async def _send_on(writer: asyncio.StreamWriter, most: int) -> int:
    """Send until the connection is closed or that many bytes are out, and return how many are."""
    sent, piece = 0, b"x" * (64 * _KIB)
    with suppress(ConnectionError):
        while sent < most:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
    return sent


async def test_an_idle_connection_is_closed(database_url: str) -> None:
    """After `keep_alive`, without a word; one that waits for an answer is not idle, however long that takes."""
    async with port(database_url, keep_alive=0.1, header_timeout=0.1, body_timeout=0.1) as opened:
        following = await opened.connect(b"GET /v1/worlds/town/tail?after_seq=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await following[0].readuntil(b'"WorldCreated"')
        idle = await opened.connect()
        await opened.good(idle, _GET)
        assert await idle[0].read() == b""
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:
            assert (await client.post(PATH, json=draft("news"))).status_code == 201
        await following[0].readuntil(b'"news"')


# -- how many ------------------------------------------------------------------------------------------------


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every address of this machine but 127.0.0.1 be another's."""
    monkeypatch.setattr(wire, "counted_as", lambda host: (host, host == "127.0.0.1"))


@pytest.mark.usefixtures("strangers")
async def test_an_address_has_so_many_connections(database_url: str) -> None:
    """Beyond that it is told so; idle ones make room first; others, this machine and WebSockets are not concerned."""
    async with port(database_url, max_connections_per_address=2, forwarded_allow_ips="127.0.0.1") as opened:
        held = await opened.several("127.0.0.2", 2)
        for _ in range(3):
            await opened.refused(await opened.connect(host="127.0.0.2"), 503, "overloaded", recovery="retry_with_delay")
        await opened.several("127.0.0.3", 1)
        await opened.several("127.0.0.1", 5)
        for pair in held:
            await opened.good(pair, _GET)
        await opened.good(await opened.connect(host="127.0.0.2"), _GET)
        assert await held[0][0].read() == b"", "the longest idle one has made room"
        await opened.good(held[1], _GET)
        game = {"game_id": "g", "white": {"agent_id": "w"}, "black": {"agent_id": "b"}}
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:
            assert (await client.post("/v1/games", json=game)).status_code == 201
        url = opened.served.url.replace("http", "ws", 1) + "/v1/games/g/watch"
        for each in [await connect(url, proxy=None, local_addr=("127.0.0.4", 0)) for _ in range(4)]:
            await each.close()


@pytest.mark.usefixtures("strangers")
async def test_a_proxys_clients_are_counted_by_themselves(database_url: str) -> None:
    """What a proxy hands on counts for the address that it names, once that is known; the proxy itself is exempt."""
    part = f"{_POST}Content-Length: 9\r\nX-Forwarded-For: 203.0.113.%d\r\n\r\n".encode()
    async with port(database_url, max_connections_per_address=2, forwarded_allow_ips="127.0.0.2") as opened:
        first, second, *_ = await opened.several("127.0.0.2", 4)
        for pair in (first, second):
            pair[1].write(part % 7)
        await wait_for(lambda: sum(opened.table.addresses().values()) == 2, "both are counted")
        await opened.refused(await opened.connect(part % 7, host="127.0.0.2"), 503, "overloaded")
        assert opened.table.addresses() == {"203.0.113.7": 2}
        other = await opened.connect((part % 8) + b"{}       ", host="127.0.0.2")
        assert (await opened.one(other)).status_code == 422


@pytest.mark.usefixtures("strangers")
async def test_there_are_so_many_connections_in_all(database_url: str) -> None:
    """Beyond that idle ones make room, then nobody gets in, except this machine, for which a stranger has to go."""
    async with port(database_url, max_connections=4) as opened:
        idle = await opened.connect(host="127.0.0.9")
        await opened.good(idle, _GET)
        strange = [(await opened.several(f"127.0.0.{n}", 1))[0] for n in range(2, 5)]
        more = await opened.connect(host="127.0.0.5")
        assert await idle[0].read() == b""
        await opened.refused(await opened.connect(host="127.0.0.6"), 503, "overloaded")
        await opened.good(await opened.connect(), _GET)
        await opened.refused(strange[0], 503, "overloaded")
        await opened.good(more, _GET)


@pytest.mark.usefixtures("strangers")
async def test_what_was_refused_counts_until_it_is_gone(database_url: str) -> None:
    """It takes room as others do, and is the first to go; metrics tell how many connections are in each state."""
    large = f"{_POST}Content-Length: {2 * _MIB}\r\n\r\n".encode()
    async with port(
        database_url, max_body_bytes=_MIB, max_connections_per_address=2, max_connections=4, body_timeout=1000
    ) as opened:
        idle = await opened.connect(host="127.0.0.2")
        await opened.good(idle, _GET)
        refused = [await opened.connect(large, host=f"127.0.0.{host}") for host in (2, 3, 3)]
        await wait_for(lambda: opened.table.states()["lingering"] == 3, "they linger")
        assert opened.table.addresses() == {"127.0.0.2": 2, "127.0.0.3": 2}
        (silent,) = await opened.several("127.0.0.2", 1)
        await opened.refused(refused[0], 413, "body_too_large")
        assert opened.table.states() == {"waiting": 1, "idle": 1, "lingering": 2}
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:  # for which the next one goes
            lines = (await client.get("/metrics")).text.splitlines()
        prefix = "worldledger_http_connections{state="
        found = {line.removeprefix(prefix) for line in lines if line.startswith(prefix)}
        assert found == {'"waiting"} 1.0', '"idle"} 1.0', '"lingering"} 1.0'}
        await opened.good(silent, _GET)
        await opened.good(idle, _GET)


@pytest.mark.usefixtures("strangers")
async def test_who_finds_no_room_can_read_so(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much was sent, before the refusal or after it; so many are waited for, and no limit is exceeded."""
    monkeypatch.setattr(wire, "MOST_REFUSED", 2)
    async with port(database_url, max_connections_per_address=2, max_connections=3) as opened:
        for host, held, refused in (("127.0.0.2", 2, "127.0.0.2"), ("127.0.0.3", 1, "127.0.0.4")):
            await opened.several(host, held)
            pair = await opened.connect(f"{_POST}Content-Length: 300000\r\n\r\n".encode(), host=refused)
            for _ in range(30):
                pair[1].write(b"x" * 10_000)
                await pair[1].drain()
            await opened.refused(pair, 503, "overloaded")
        await wait_for(lambda: opened.table.states() == {"waiting": 3, "idle": 0, "lingering": 0}, "they are gone")
        for count in (1, 2, 2):
            last = await opened.connect(host="127.0.0.4")
            assert (await opened.one(last)).status_code == 503
            assert opened.table.states() == {"waiting": 3, "idle": 0, "lingering": count}


# -- bodies --------------------------------------------------------------------------------------------------


async def test_a_body_that_is_too_large_is_told_so(database_url: str) -> None:
    """Who sends all of it before it reads can read the answer, on every route; what fits is taken."""
    size = 8 * _MIB
    chunk = b"%x\r\n" % _KIB + b"x" * _KIB + b"\r\n"
    closing = _POST + "Connection: close\r\n"
    async with port(database_url, max_body_bytes=_MIB) as opened:
        for head in (_POST, closing, _POST.replace(PATH, "/nowhere"), _POST.replace("POST", "GET")):
            sent = await opened.send(f"{head}Content-Length: {size}\r\n\r\n".encode(), b"x" * size)
            await opened.refused(sent, 413, "body_too_large", limit=_MIB)
        await opened.refused(await opened.send(_CHUNKED, *[chunk] * 8000), 413, "body_too_large")
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:
            problem(await client.post(PATH, content=b"x" * size), 413, "body_too_large")
            problem(await client.post("/nowhere", content=b"x" * 900_000), 404, "not_found")
            assert (await client.post(PATH, json=draft("x" * 900_000))).status_code == 201


async def test_bodies_share_what_there_is(database_url: str) -> None:
    """What would not fit is refused before it is read, or when it grows; one that is slow makes room."""
    half = 600 * _KIB
    begun = f"{_POST}Content-Length: {half}\r\n\r\n".encode()
    body = httpx2.Request("POST", "http://x", json=draft("x" * (half - 100))).content.ljust(half)
    chunk = _CHUNKED + b"%x\r\n" % half + body
    async with port(database_url, max_body_bytes=1000 * _KIB, max_bodies_bytes=1000 * _KIB) as opened:
        held = await opened.connect(begun + body[:-1])
        await wait_for(lambda: opened.table.body_bytes == half - 1, "it is held")
        for sent in (begun, chunk):
            await opened.refused(await opened.send(sent), 503, "overloaded", recovery="retry_with_delay")
        await opened.good(held, body[-1:])
        await wait_for(lambda: opened.table.body_bytes == 0, "it is let go")
        await opened.good(await opened.connect(), begun + body)
        slow = await opened.connect(begun + body[:-1])
        await wait_for(lambda: opened.table.body_bytes == half - 1, "it is held")
        opened.table.clock = lambda: time.monotonic() + 1000
        await opened.good(await opened.connect(), chunk + b"\r\n0\r\n\r\n")
        await opened.refused(slow, 503, "overloaded")


@pytest.mark.parametrize(("size", "most"), [(1, 2 * (4096 // 6 + 1)), (40, 2 * (128 + 4096 // 46 + 1))])
async def test_a_body_of_very_many_pieces_lets_others_in_between(database_url: str, size: int, most: int) -> None:
    """However small its pieces are, it is read whole, also behind an ended side; not much of it in one turn."""
    body = httpx2.Request("POST", "http://x", json=draft("x" * min(size, 8) * 100 * _KIB)).content
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(each), each) for each in parts)
    async with port(database_url) as opened:
        for ended in (False, True):
            with calls_by_turn(wire.Protocol, "on_body") as calls:
                pair = await opened.connect(_CHUNKED + pieces + b"0\r\n\r\n")
                if ended:
                    pair[1].write_eof()
                answer = await opened.one(pair)
            assert answer.status_code == 201, answer.text
            assert calls.total() >= len(parts)
            assert max(calls.values()) <= most  # what had waited, and what came


async def test_what_is_asked_without_waiting_is_read_bit_by_bit(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many requests of a connection a few wait; all are answered in their order, also behind an ended side."""
    most = 0
    handed = wire.Protocol.on_message_begin

    def begin(self: wire.Protocol) -> None:
        nonlocal most
        most = max(most, len(self.pipeline))
        handed(self)

    monkeypatch.setattr(wire.Protocol, "on_message_begin", begin)
    async with port(database_url) as opened:
        pair = await opened.connect()
        for number in range(3000):
            pair[1].write(f"GET /v1/worlds/w{number} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        pair[1].write(_POST.encode() + b"Content-Length: 3\r\n\r\nx{}")
        pair[1].write_eof()
        for number in range(3000):
            problem(await opened.one(pair), 404, "world_not_found", world_id=f"w{number}")
        problem(await opened.one(pair), 422, "invalid_effect")
    assert most < 64 + 4096 // 18


@pytest.mark.parametrize(
    ("count", "method", "most"), [(24, "on_message_begin", 64 * 8 // 2), (200, "_start_asgi_task", 64)]
)
async def test_many_connections_share_a_turn(database_url: str, count: int, method: str, most: int) -> None:
    """However many ask at once, and however much without waiting, few requests are read and begun in one turn."""
    each = 100 if count < 64 else 1
    async with port(database_url) as opened:
        with calls_by_turn(wire.Protocol, method) as calls:
            pairs = [await opened.connect() for _ in range(count)]
            for _, writer in pairs:
                writer.write(_GET * each)
            for pair in pairs:
                for _ in range(each):
                    assert (await opened.one(pair)).status_code == 200
        assert calls.total() == count * each
        assert max(calls.values()) <= 2 * (most + 1024 // len(_GET))  # what had waited, and what came


async def test_what_waits_for_its_turn_is_answered_before_what_is_refused(database_url: str) -> None:
    """Whole requests have their answers though garbage and the end of the client's side come behind them."""
    async with port(database_url) as opened:
        pairs = [await opened.connect() for _ in range(80)]
        for _, writer in pairs:
            writer.write(_GET * 30 + b"what is this\r\n\r\n")
            writer.write_eof()
        for pair in pairs:
            for _ in range(30):
                assert (await opened.one(pair)).status_code == 200
            problem(await opened.one(pair), 400, "bad_request")


async def test_a_target_has_its_bounds(database_url: str) -> None:
    """A query of very many parameters is refused, and so is a path that no route has."""
    async with port(database_url) as opened:
        await opened.good(await opened.connect(_GET.replace(b"livez", b"livez?" + b"&" * 999)))
        for target in (b"livez?" + b"a&" * 1000, b"v1/worlds/" + b"%41" * 2800):
            await opened.refused(await opened.send(_GET.replace(b"livez", target)), 400, "bad_request")


# -- what is counted -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("strangers")
async def test_what_is_refused_early_is_counted(database_url: str) -> None:
    """Each refusal before a request is whole is counted once, by its code, and not among the requests."""
    long = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (64 * _KIB)
    large = f"{_POST}Content-Length: {2 * _MIB}\r\n\r\n".encode()
    async with port(database_url, max_body_bytes=_MIB, max_connections_per_address=1, body_timeout=0.2) as opened:
        for _ in range(2):
            await opened.refused(await opened.send(long), 431, "header_too_large")
        await opened.refused(await opened.send(large), 413, "body_too_large")
        await opened.refused(await opened.send(_CHUNKED), 408, "request_too_slow")
        await opened.refused(await opened.send(b"what is this\r\n\r\n"), 400, "bad_request")
        await opened.several("127.0.0.2", 1)
        await opened.refused(await opened.connect(host="127.0.0.2"), 503, "overloaded")
        async with httpx2.AsyncClient(base_url=opened.served.url) as client:
            lines = (await client.get("/metrics")).text.splitlines()
    prefix = "worldledger_http_refused_early_total{code="
    assert {line.removeprefix(prefix) for line in lines if line.startswith(prefix)} == {
        '"header_too_large"} 2.0',
        '"body_too_large"} 1.0',
        '"request_too_slow"} 1.0',
        '"bad_request"} 1.0',
        '"overloaded"} 1.0',
    }
    assert not [line for line in lines if line.startswith("worldledger_http_requests_total") and '"200"' not in line][
        1:
    ]
