"""What is no HTTP: answered like every other error, and kept out of the service's output."""

from __future__ import annotations

import asyncio
import json
import logging
import re

import httpx2
import pytest

from .helpers import Served, draft, problem

PATH = "/v1/worlds/town/effects"
_HEAD = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_CHUNKED = f"{_HEAD}Transfer-Encoding: chunked\r\n"


async def _exchange(served: Served, *parts: bytes) -> list[httpx2.Response]:
    """Send these parts, each once the one before is out, and give the answers until the connection is closed."""
    reader, writer = await served.connect()
    for part in parts:
        writer.write(part)
        await writer.drain()
    answers = []
    while head := await reader.readline():
        lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in lines if line)]
        length = next(int(value) for name, value in headers if name == "content-length")
        answers.append(httpx2.Response(int(head.split()[1]), headers=headers, content=await reader.readexactly(length)))
    writer.close()
    return answers


_HANDSHAKE = (
    b"GET /v1/games/g/watch HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_NO_HTTP: dict[str, tuple[bytes, str]] = {
    "a garbage request line": (b"what is this\r\n\r\n", ""),
    "a TLS client": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), ""),
    "a foreign byte in the URL": (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", ""),
    "a length that is no number": (f"{_HEAD}Content-Length: abc\r\n\r\n".encode(), PATH),
    "a length beside chunks": (f"{_CHUNKED}Content-Length: 3\r\n\r\n".encode(), PATH),
    "a header name with a space": (b"GET /livez HTTP/1.1\r\na b: c\r\n\r\n", "/livez"),
    "a chunk without a size": (f"{_CHUNKED}\r\nzz\r\n".encode(), PATH),
    "another version": (b"GET /livez HTTP/3.0\r\n\r\n", "/livez"),
    "a request without a host": (b"GET /livez HTTP/1.1\r\n\r\n", "/livez"),
    "a request with two": (b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", "/livez"),
    "a handshake without a host": (_HANDSHAKE, "/v1/games/g/watch"),
    "a proxy's request": (b"CONNECT localhost:80 HTTP/1.1\r\n\r\n", "localhost:80"),
}


async def test_what_is_no_http_is_a_problem(
    served: Served,
    remote: httpx2.AsyncClient,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    subtests: pytest.Subtests,
) -> None:
    """It is answered with a 400 problem, the connection is closed, and only a debugger is told."""
    caplog.set_level(logging.DEBUG, "worldledger_service.api.wire")
    for what, (sent, instance) in _NO_HTTP.items():
        caplog.clear()
        with subtests.test(what):
            (answer,) = await _exchange(served, sent)
            found = problem(answer, 400, "bad_request", recovery="modify_intent")
            assert answer.headers["connection"] == "close"
            assert found["instance"] == instance
            assert len(answer.content) < 5000
            logged = [
                each
                for each in caplog.records
                if each.levelno >= logging.INFO or "worldledger_service.api" in each.name
            ]
            assert [each.levelno for each in logged] == [logging.DEBUG]
            assert capfd.readouterr() == ("", "")
            assert (await remote.get("/v1/worlds/town")).json()["head_seq"] == 1


async def test_a_foreign_transfer_coding_is_said(served: Served, remote: httpx2.AsyncClient) -> None:
    """A body in any transfer coding but `chunked` is 501; that one is known by any spelling."""
    body = httpx2.Request("POST", served.url, json=draft()).content
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    for coding in ("gzip, chunked", "identity,chunked", "x" * 9000 + ", chunked"):
        (answer,) = await _exchange(served, f"{_HEAD}Transfer-Encoding: {coding}\r\n\r\n".encode() + sent)
        found = problem(answer, 501, "transfer_coding_unknown", instance=PATH, recovery="modify_intent")
        assert len(found["detail"]) < 300
        assert answer.headers["connection"] == "close"
    closing = f"{_HEAD}Connection: close\r\nTransfer-Encoding: Chunked\r\n\r\n"
    (answer,) = await _exchange(served, closing.encode() + sent)
    assert answer.status_code == 201


async def test_a_garbled_second_request_keeps_the_first_answer(served: Served, remote: httpx2.AsyncClient) -> None:
    """What comes after a good request has no part in its answer."""
    good = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    reader, writer = await served.connect()
    writer.write(good)
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200")
    writer.write(b"garbage\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    writer.close()


_GOOD = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
_BAD: dict[bytes, tuple[int, str]] = {
    b"12": (400, "bad_request"),
    b"garbage\r\n\r\n": (400, "bad_request"),
    f"{_CHUNKED}Content-Length: 3\r\n\r\n".encode(): (400, "bad_request"),
    f"{_CHUNKED}\r\nzz\r\n".encode(): (400, "bad_request"),
    _GOOD[:-2] + b"X: " + b"x" * 72_000: (431, "header_too_large"),
    f"{_HEAD}Content-Length: {10**9}\r\n\r\n".encode(): (413, "body_too_large"),
}


def _append() -> bytes:
    body = httpx2.Request("POST", "http://x", json=draft()).content
    return f"{_HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def test_what_is_good_is_answered_before_what_is_not(served: Served, remote: httpx2.AsyncClient) -> None:
    """Whole requests in front of what is refused have their answers first, and then the refusal comes, once."""
    appended = 0
    for bad, (status, code) in _BAD.items():
        for good, expected in ((_GOOD, [200]), (_append(), [201]), (_append() + _GOOD + _append(), [201, 200, 201])):
            *answers, refusal = await _exchange(served, good + bad)
            assert [each.status_code for each in answers] == expected, bad[:20]
            problem(refusal, status, code)
            assert refusal.headers["connection"] == "close"
            appended += expected.count(201)
    assert (await remote.get("/v1/worlds/town")).json()["head_seq"] == 1 + appended


async def test_garbage_behind_a_stream_ends_it(served: Served, remote: httpx2.AsyncClient) -> None:
    """A stream may have no end, so it is cut; no 400 poses as a part of it."""
    reader, writer = await served.connect()
    writer.write(b"GET /v1/worlds/town/tail HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await reader.readuntil(b": after ")
    writer.write(b"garbage\r\n\r\n")
    assert b"HTTP/1.1" not in await reader.read()
    writer.close()


async def test_a_client_may_end_its_side_first(served: Served, remote: httpx2.AsyncClient) -> None:
    """Whole requests are answered then, half a one is not, and a stream without end has one."""
    lines = b"GET /v1/worlds/town/effects?format=ndjson HTTP/1.1\r\nHost: localhost\r\n\r\n"
    tail = b"GET /v1/worlds/town/tail HTTP/1.1\r\nHost: localhost\r\n\r\n"
    for sent, expected in (
        (_append(), [b"201"]),
        (_append() + _GOOD + _append(), [b"201", b"200", b"201"]),
        (_append() + _append()[:-5], [b"201"]),
        (_GOOD + b"GET /li", [b"200"]),
        (_GOOD[:-2], []),
        (lines, [b"200"]),
        (tail, [b"200"]),
    ):
        reader, writer = await served.connect()
        writer.write(sent)
        writer.write_eof()
        answers = await reader.read()
        assert re.findall(rb"HTTP/1\.1 (\d+)", answers) == expected, sent
        assert sent not in {lines, tail} or answers.endswith(b"\r\n0\r\n\r\n")
        writer.close()
    assert (await remote.get("/v1/worlds/town")).json()["head_seq"] == 1 + 4


async def test_another_protocol_is_declined(
    served: Served, remote: httpx2.AsyncClient, capfd: pytest.CaptureFixture[str]
) -> None:
    """A client that offers HTTP/2 or WebSocket is answered in HTTP/1.1, and nothing is printed."""
    for offered in ("h2c", "websocket"):
        headers = {"Connection": "Upgrade", "Upgrade": offered}
        async with asyncio.timeout(100):
            assert (await remote.get("/livez", headers=headers)).json() == {"status": "alive"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("offered", ["h2c", "websocket"])
@pytest.mark.parametrize("size", [1, 50, 4096], ids=["a byte each", "in pieces", "at once"])
async def test_what_follows_a_declined_offer_is_read(
    served: Served, remote: httpx2.AsyncClient, offered: str, size: int
) -> None:
    """A body belongs to the request that offers another protocol (RFC 9110, 7.8), and so do the requests behind it."""
    town = f"offered-{offered}-{size}"
    await remote.post("/v1/worlds", json={"world_id": town})
    offer = f"Connection: Upgrade\r\nUpgrade: {offered}\r\n"
    head = f"POST /v1/worlds/{town}/effects HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{offer}"
    body = json.dumps(draft()).encode()
    alive = f"GET /livez HTTP/1.1\r\nHost: localhost\r\n{offer}\r\n".encode()
    of_length = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    in_chunks = f"{head}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\nA: b\r\n\r\n"
    inner = f"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(of_length)}\r\n{offer}\r\n".encode()
    sent = alive + of_length + alive + in_chunks + inner + of_length + in_chunks
    sent += (
        f"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close, Upgrade\r\nUpgrade: {offered}\r\n\r\n".encode()
    )
    answers = await _exchange(served, *(sent[at : at + size] for at in range(0, len(sent), size)))
    assert [answer.status_code for answer in answers] == [200, 201, 200, 201, 200, 201, 200]
    assert (await remote.get(f"/v1/worlds/{town}")).json()["head_seq"] == 1 + 3


async def test_a_body_behind_a_declined_offer_has_its_limits(served: Served) -> None:
    """It is refused as any other: where its length cannot be told, and where it is malformed."""
    offer = "Connection: Upgrade\r\nUpgrade: h2c\r\n"
    for framing, expected in (
        ("Content-Length: 999999999999\r\n", 413),
        ("Transfer-Encoding: gzip, chunked\r\n", 501),
        ("Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", 400),
    ):
        answers = await _exchange(served, f"{_HEAD}{offer}{framing}\r\nzz\r\n".encode())
        assert [answer.status_code for answer in answers] == [expected], framing
