"""Compressed answers: for clients that take gzip, where it pays."""

from __future__ import annotations

import gzip
from typing import Any

import httpx2

from .helpers import Served, draft, tailing

GZIP = {"Accept-Encoding": "br, gzip"}
PLAIN = {"Accept-Encoding": "identity"}


async def _raw(client: httpx2.AsyncClient, path: str, headers: dict[str, str]) -> tuple[httpx2.Response, bytes]:
    async with client.stream("GET", path, headers=headers) as response:
        return response, b"".join([chunk async for chunk in response.aiter_raw()])


async def _fill(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/v1/worlds", json={"world_id": "w"})).status_code == 201
    drafts: list[dict[str, Any]] = [draft(kind="Speak", payload={"text": f"word {n}"}) for n in range(200)]
    assert (await client.post("/v1/worlds/w/effects", json=drafts)).status_code == 201


async def test_large_answers_are_compressed(served: Served, remote: httpx2.AsyncClient) -> None:
    """A client that takes gzip gets large answers so, one that does not gets them as they are; small ones never."""
    await _fill(remote)
    for path in ("effects", "frames", "density", "state"):
        plain, body = await _raw(remote, f"/v1/worlds/w/{path}", PLAIN)
        assert "content-encoding" not in plain.headers
        response, packed = await _raw(remote, f"/v1/worlds/w/{path}", GZIP)
        if len(body) < 1024:
            assert ("content-encoding" in response.headers, packed) == (False, body)
            continue
        assert response.headers["content-encoding"] == "gzip", path
        assert "Accept-Encoding" in response.headers["vary"]
        assert int(response.headers["content-length"]) == len(packed) < len(body)
        assert gzip.decompress(packed) == body
        assert response.headers.get("etag") == plain.headers.get("etag")
        head = await remote.head(f"/v1/worlds/w/{path}", headers=GZIP)
        assert (head.headers["content-length"], head.content) == (response.headers["content-length"], b"")
    small, _ = await _raw(remote, "/v1/worlds/w", GZIP)
    assert "content-encoding" not in small.headers


async def test_what_writes_answer_is_sent_as_it_is(served: Served, remote: httpx2.AsyncClient) -> None:
    """Receipts are never compressed, for they are many; the answer to a question in SQL is."""
    await _fill(remote)
    receipts = await remote.post("/v1/worlds/w/effects", json=[draft()] * 100, headers=GZIP)
    assert (receipts.status_code, "content-encoding" in receipts.headers) == (201, False)
    rows = await remote.post("/v1/sql", json={"query": "select * from analytics.effects"}, headers=GZIP)
    assert rows.headers["content-encoding"] == "gzip"


async def test_what_is_known_is_not_sent_again(served: Served, remote: httpx2.AsyncClient) -> None:
    """The ETag of a compressed answer holds for the next request."""
    await _fill(remote)
    first = await remote.get("/v1/worlds/w/frames", headers=GZIP)
    again = await remote.get("/v1/worlds/w/frames", headers={**GZIP, "If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_streams_are_sent_as_they_are(served: Served, remote: httpx2.AsyncClient) -> None:
    """Lines and events come as soon as they are there, not in a buffer of what compresses them."""
    await _fill(remote)
    for path in ("/v1/worlds/w/effects?format=ndjson", "/v1/worlds/w/search?q=word", "/v1/effects"):
        response, body = await _raw(remote, path, {**GZIP, "Accept": "application/x-ndjson"})
        assert "content-encoding" not in response.headers, path
        assert len(body.splitlines()) > 100
    async with tailing(remote, "w", after_seq=200) as tail:
        assert (await tail.events(1))[0].id == 201
