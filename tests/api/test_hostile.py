"""Requests that mean harm or are merely odd: every answer is a problem, never a 5xx, and the service goes on."""

from __future__ import annotations

import asyncio
import contextlib

import httpx2
import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from .helpers import JSON, Served, draft, problem, serving

PATH = "/v1/worlds/town/effects"
_MIB = 1024 * 1024
_HEAD = "Host: localhost\r\nContent-Type: application/json\r\n"


async def test_unknown_routes_and_methods_are_problems(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """A route that is not there is a 404 problem, a method that is not there a 405 that names the others."""
    for path in (
        "/assets",
        "/assets/x",
        "/v1",
        "/v1/worlds/",
        "/v2/worlds",
        "/v1/worlds/town/effects/1/x",
        "/v1/worlds/a%2Fb",
        "/%00",
    ):
        with subtests.test(path=path):
            problem(await client.get(path), 404, "not_found", instance=path)
    for method, path, allowed in (
        ("DELETE", "/v1/worlds", "GET, HEAD, POST"),
        ("PUT", "/v1/worlds/town", "GET, HEAD"),
        ("PATCH", "/v1/worlds/town/effects", "GET, HEAD, POST"),
        ("DELETE", "/v1/worlds/town/effects/1", "GET, HEAD"),
        ("POST", "/v1/worlds/town/tail", "GET, HEAD"),
        ("OPTIONS", "/livez", "GET, HEAD"),
        ("BREW", "/v1/worlds", "GET, HEAD, POST"),
    ):
        with subtests.test(method=method, path=path):
            response = await client.request(method, path)
            problem(response, 405, "method_not_allowed")
            assert response.headers["allow"] == allowed


async def test_an_unforeseen_error_tells_nothing(app: FastAPI, client: httpx2.AsyncClient) -> None:
    """A bug is a 500 problem without a word about the inside."""

    async def bug(request: Request) -> Response:
        raise ZeroDivisionError(f"secret {request.url}")

    app.router.add_route("/bug", bug)
    response = await client.get("/bug")
    problem(response, 500, "internal_error", instance="/bug")
    assert "secret" not in response.text
    assert "Zero" not in response.text
    assert "Traceback" not in response.text


async def test_a_huge_body_is_refused_unread(database_url: str) -> None:
    """50 MB are refused at the sight of their declared length: the answer comes before any of them."""
    async with serving(database_url, max_body_bytes=_MIB) as served:
        async with httpx2.AsyncClient(base_url=served.url) as client:
            await client.post("/v1/worlds", json={"world_id": "town"})
        reader, writer = await served.connect()
        writer.write(f"POST {PATH} HTTP/1.1\r\n{_HEAD}Content-Length: {50 * _MIB}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 413 ")
        writer.close()


async def test_an_endless_body_is_refused_at_the_limit(database_url: str) -> None:
    """A body of undeclared length is refused once it is over the limit; the service never holds it."""
    async with (
        serving(database_url, max_body_bytes=_MIB) as served,
        httpx2.AsyncClient(base_url=served.url) as client,
    ):
        await client.post("/v1/worlds", json={"world_id": "town"})
        reader, writer = await served.connect()
        writer.write(f"POST {PATH} HTTP/1.1\r\n{_HEAD}Transfer-Encoding: chunked\r\n\r\n".encode())
        answer = asyncio.create_task(reader.readuntil(b"\r\n\r\n"))
        block = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        sent = 0
        while not answer.done() and sent < 800:
            writer.write(block)
            await writer.drain()
            sent += 1
        assert (await answer).startswith(b"HTTP/1.1 413 ")
        writer.close()
        assert (await client.post(PATH, json=draft())).status_code == 201


async def test_50_mb_are_refused_however_they_are_sent(served: Served, remote: httpx2.AsyncClient) -> None:
    """A client that sends all of a body that is too large still gets its answer, and may go on."""
    response = await remote.post(PATH, content=b"[" + b" " * (50 * _MIB) + b"]", headers=JSON)
    problem(response, 413, "body_too_large")
    assert (await remote.post(PATH, json=draft())).status_code == 201


async def test_a_million_small_values_do_not_stop_the_service(served: Served, remote: httpx2.AsyncClient) -> None:
    """While a large body is being judged, others are answered; it is refused for its values' number, or what it is."""
    for count, status, code in ((1_000_000, 413, "too_many_values"), (260_000, 422, "invalid_effect")):
        body = b"[" + b"{}," * count + b"{}]"
        posting = asyncio.create_task(remote.post(PATH, content=body, headers=JSON))
        while not posting.done():
            assert (await remote.get("/livez")).status_code == 200
        problem(await posting, status, code)


async def test_a_client_that_leaves_while_sending_is_forgotten(served: Served, remote: httpx2.AsyncClient) -> None:
    """A connection that ends in the middle of a body writes nothing and harms nobody."""
    for half in (b'{"kind":"Said","payl', b""):
        _, writer = await served.connect()
        writer.write(f"POST {PATH} HTTP/1.1\r\n{_HEAD}Content-Length: 5000\r\n\r\n".encode() + half)
        await writer.drain()
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
    assert (await remote.get("/v1/worlds/town")).json()["head_seq"] == 1


_ALL_SORTS = ["/v1/worlds/town", PATH, f"{PATH}/1", "/v1/worlds/town/verification", "/v1/worlds/town/state?at_seq=1"]
_ALL_SORTS += ["/v1/worlds/town/diff?from_seq=1", "/v1/worlds/town/snapshots", "/v1/projections", "/metrics"]


async def test_odd_headers_do_no_harm(
    client: httpx2.AsyncClient, world: str, subtests: pytest.Subtests, thorough: bool
) -> None:
    """Headers full of nonsense are refused or passed over, never a 5xx."""
    odd = [b"\xff\xfe", b"", b",,,", b'"', b"W/", b"*;q=x", b"9" * 5000, b"\xc3\xa9", b"a=b; c"]
    names = (b"Accept", b"If-None-Match", b"Content-Type", b"Idempotency-Key", b"Last-Event-ID", b"Range")
    for first, name in enumerate(names):
        for n, value in enumerate(odd, first):  # each name at each route, and each value too
            with subtests.test(name=name, value=value[:20]):
                for path in _ALL_SORTS if thorough else [_ALL_SORTS[n % len(_ALL_SORTS)]]:
                    assert (await client.get(path, headers=[(name, value)])).status_code in {200, 304}
                response = await client.post(PATH, json=draft(), headers=[(name, value)])
                assert response.status_code in {200, 201, 415, 422}
