"""Clients that go away before they have their answers, on the service's own event loop."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

import httpx2
import pytest
from structlog.testing import capture_logs
from uvicorn.protocols.http.flow_control import FlowControl
from worldledger_service.api import wire
from worldledger_service.api.wire import Protocol

from tests.schema.helpers import connected
from tests.store.helpers import holding_head, wait_for_waiters

from .helpers import Served, draft, serving

PATH = "/v1/worlds/town/effects"
_GET = b"GET /v1/worlds HTTP/1.1\r\nHost: localhost\r\n\r\n"
_POST = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


async def _leave(served: Served, sent: bytes, when: Callable[[asyncio.StreamReader], Awaitable[Any]]) -> None:
    """Send something, wait, break off the connection, and wait until the service knows."""
    known = asyncio.Event()
    lost, ended = Protocol.connection_lost, Protocol.eof_received

    def note_lost(protocol: Protocol, error: Exception | None) -> None:
        lost(protocol, error)
        known.set()

    def note_ended(protocol: Protocol) -> bool:
        known.set()
        return ended(protocol)

    with (
        mock.patch.object(Protocol, "connection_lost", note_lost),
        mock.patch.object(Protocol, "eof_received", note_ended),
    ):
        reader, writer = await served.connect()
        writer.write(sent)
        await when(reader)
        writer.transport.abort()
        await known.wait()


async def test_a_client_that_leaves_is_no_error(database_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever it has asked for, one after the other or all at once, and wherever it is: nothing of it is an error."""
    caplog.set_level(logging.WARNING)
    body = httpx2.Request("POST", "http://x", json=draft()).content
    append = f"{_POST}Content-Length: {len(body)}\r\n\r\n".encode() + body
    with capture_logs() as said:
        async with (
            serving(database_url) as served,
            httpx2.AsyncClient(base_url=served.url) as client,
            connected(database_url) as admin,
        ):
            assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
            await _leave(served, _GET * 2000, lambda reader: reader.readexactly(300))
            for behind in (b"", _GET, append):
                async with holding_head(database_url, "town"):
                    await _leave(served, append + behind, lambda _: wait_for_waiters(admin))
            async with holding_head(database_url, "town"):
                reader, writer = await served.connect()
                writer.write(append + _GET)
                await wait_for_waiters(admin)
                writer.write(b"garbage\r\n\r\n")
            assert re.findall(rb"HTTP/1\.1 (\d+)", await reader.read()) == [b"201", b"200", b"400"]
            writer.close()
            async with holding_head(database_url, "town"):
                reader, writer = await served.connect()
                writer.write(append + _GET)
                writer.write_eof()
                await wait_for_waiters(admin)
            assert re.findall(rb"HTTP/1\.1 (\d+)", await reader.read()) == [b"201", b"200"]
            writer.close()
            while (await client.get("/v1/worlds/town")).json()["head_seq"] < 6:
                await asyncio.sleep(0.002)
            reader, writer = await served.connect()
            head = f"{_POST}Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n"
            writer.write(head.encode() + b"zz\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
            writer.close()
    assert said == []
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("GET", "/v1/effects", ""),
        ("GET", "/v1/effects?format=arrow", ""),
        ("GET", "/v1/worlds/town/effects", ""),
        ("GET", "/v1/worlds/town/effects?format=ndjson", ""),
        ("GET", "/v1/worlds/town/tail?after_seq=0", ""),
        ("POST", "/v1/sql", """{"query":"select repeat('x', 100000) from generate_series(1, 100)"}"""),
    ],
)
async def test_a_client_that_reads_nothing_holds_up_no_stop(
    database_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: str,
) -> None:
    """Whatever it does not read, a stop cuts it off, long before requests are given up, and says nothing of it."""
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(wire, "_STOPPING_SECONDS", 0.1, raising=False)
    paused = asyncio.Event()
    pause = FlowControl.pause_writing

    def note(flow: FlowControl) -> None:
        pause(flow)
        paused.set()

    monkeypatch.setattr(FlowControl, "pause_writing", note)
    large = draft(payload={"text": "x" * 900_000})
    with capture_logs() as said:
        async with serving(database_url) as served:
            async with httpx2.AsyncClient(base_url=served.url, timeout=60) as client:
                assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
                for _ in range(12):
                    assert (await client.post(PATH, json=large)).status_code == 201
            silent = socket.socket()
            silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            with silent:
                silent.connect((urlsplit(served.url).hostname, urlsplit(served.url).port))
                head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                silent.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
                await paused.wait()
                await served.stop()
    assert said == []
    assert [record.getMessage() for record in caplog.records] == []
