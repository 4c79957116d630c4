"""Very large requests, all at once, in a process that has little memory."""

from __future__ import annotations

import asyncio
import json
import resource
from collections.abc import Callable
from pathlib import Path

import httpx2
import orjson
import psutil
import pytest

from .freezing import SOON
from .living import serving

pytestmark = pytest.mark.slow

_MIB = 2**20
#: Bytes of address space that the service may have.
_MEMORY = 900 * _MIB


def _body(n: int) -> bytes:
    """Make 27 MB of drafts: of a text alone orjson asks for twelve times as much."""
    text = "x" * 1_000_000
    drafts = [
        {"kind": "Said", "payload": {"text": text}, "source_id": "a", "schema_version": "1.0.0", "req_id": f"{n}-{at}"}
        for at in range(27)
    ]
    return orjson.dumps(drafts)


def _numbers(n: int) -> bytes:
    """Make 27 MB of drafts full of numbers: orjson asks for 50 times as much as such a text has bytes."""
    numbers = list(range(9000))
    drafts = [
        {
            "kind": "A",
            "payload": {"t": numbers, "n": at},
            "source_id": "a",
            "schema_version": "1.0.0",
            "req_id": f"{n}-{at}",
        }
        for at in range(510)
    ]
    return json.dumps(drafts).encode()


def _one_payload(n: int) -> bytes:
    """Make one draft of 18 MB, of which orjson alone would ask for 2 GB."""
    draft = {"kind": "A", "payload": {"t": [0] * 9_000_000}, "source_id": "a", "schema_version": "1.0.0"}
    return orjson.dumps({**draft, "req_id": f"{n}"})


@pytest.mark.parametrize(("make", "written"), [(_numbers, {201}), (_one_payload, {503})])
async def test_a_large_body_where_memory_is_limited(
    database_url: str, tmp_path: Path, make: Callable[[int], bytes], written: set[int], thorough: bool
) -> None:
    """Alone it is written where there is room for each draft; two at once are answered, and the service lives on.

    test_eight_large_bodies_at_once sends several; two of these only --thorough does.
    """
    async with (
        serving(database_url, tmp_path, max_body_values=10_000_000) as service,
        httpx2.AsyncClient(base_url=service.url, timeout=10 * SOON) as http,
    ):
        psutil.Process(service.pid).rlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        assert (await http.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        address, headers = "/v1/worlds/town/effects", {"Content-Type": "application/json"}
        alone = await http.post(address, content=make(0), headers=headers)
        assert alone.status_code in written, alone.text
        several = range(1, 3) if thorough else ()
        posts = [http.post(address, content=make(n), headers=headers) for n in several]
        for answer in await asyncio.gather(*posts):
            assert answer.status_code in written | {503}, answer.text
            assert answer.status_code == 201 or int(answer.headers["retry-after"]) >= 1
        small = {"kind": "A", "payload": {}, "source_id": "a", "schema_version": "1.0.0"}
        assert (await http.post(address, json=small)).status_code == 201


async def test_eight_large_bodies_at_once(database_url: str, tmp_path: Path) -> None:
    """Each is answered: written, or told to come again; the service lives on, and what was told is so."""
    bodies = [_body(n) for n in range(8)]
    async with (
        serving(database_url, tmp_path) as service,
        httpx2.AsyncClient(base_url=service.url, timeout=10 * SOON) as http,
    ):
        psutil.Process(service.pid).rlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        assert (await http.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        headers = {"Content-Type": "application/json"}
        posts = [http.post("/v1/worlds/town/effects", content=body, headers=headers) for body in bodies]
        answers = await asyncio.gather(*posts)
        for answer in answers:
            assert answer.status_code in {201, 503}, answer.text
            if answer.status_code == 503:
                found = answer.json()
                assert (found["code"], found.get("outcome")) == ("overloaded", None)
                assert int(answer.headers["retry-after"]) >= 1
        written = [answer for answer in answers if answer.status_code == 201]
        assert written
        assert (await http.get("/v1/worlds/town")).json()["head_seq"] == 1 + 27 * len(written)
        again = await http.post("/v1/worlds/town/effects", content=bodies[0], headers=headers)
        assert again.status_code in {200, 201}, again.text
