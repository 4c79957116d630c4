"""Effects of many worlds in one stream: as Arrow, and as the stored lines."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import httpx2
import orjson
import polars as pl
import pyarrow as pa
import pytest
import worldledger_service.api.reading
from structlog.testing import capture_logs
from worldledger_service.arrow import pool

from worldledger.errors import ExtraMissingError

from .helpers import Served, draft, problem

ARROW = "application/vnd.apache.arrow.stream"


async def _fill(client: httpx2.AsyncClient) -> None:
    for name, experiment in (("a", "trial"), ("b", None), ("c", "trial")):
        new = {"world_id": name, "experiment": experiment}
        assert (await client.post("/v1/worlds", json=new)).status_code == 201
        drafts = [draft(n, kind="Said" if n % 2 else "Moved", source_id=f"a{n % 3}") for n in range(6)]
        assert (await client.post(f"/v1/worlds/{name}/effects", json=drafts)).status_code == 201


async def _arrow(client: httpx2.AsyncClient, **query: Any) -> pa.Table:
    response = await client.get("/v1/effects", params=query, headers={"Accept": f"{ARROW}, application/problem+json"})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == ARROW
    return pa.ipc.open_stream(response.content).read_all()


async def test_arrow_and_lines_are_the_same_effects(client: httpx2.AsyncClient) -> None:
    """By either way the same effects come in the same order, narrowed down by world, experiment, kind and source."""
    await _fill(client)
    asked: tuple[tuple[dict[str, str | int], int], ...] = (
        ({}, 21),
        ({"experiment": "trial"}, 14),
        ({"experiment": "trial", "world": "b"}, 0),
        ({"world": "b", "after_seq": 2, "until_seq": 5}, 3),
        ({"kind": "Said", "source_id": "a1"}, 3),
        ({"experiment": "nobody's"}, 0),
    )
    for query, count in asked:
        table = await _arrow(client, **query)
        lines = (await client.get("/v1/effects", params=query)).content.splitlines()
        effects = [*map(orjson.loads, lines)]
        assert table.num_rows == len(effects) == count, query
        assert table["uuid"].to_pylist() == [effect["uuid"] for effect in effects]
        assert table["payload"].to_pylist() == [
            orjson.dumps(effect["payload"], option=orjson.OPT_SORT_KEYS).decode() for effect in effects
        ]


async def test_other_readers_understand_the_stream(client: httpx2.AsyncClient) -> None:
    """The reader of polars, which knows no pyarrow, reads the same."""
    await _fill(client)
    response = await client.get("/v1/effects", params={"format": "arrow"})
    frame = pl.read_ipc_stream(response.content)
    kinds = frame.group_by(pl.col("kind").cast(pl.String)).len().sort("kind").rows()
    assert kinds == [("Moved", 9), ("Said", 9), ("WorldCreated", 3)]


async def test_what_of_one_world_was_read_is_said(client: httpx2.AsyncClient) -> None:
    """Worldledger-Through is the position that verification takes, of the head or of an earlier effect."""
    await _fill(client)
    world = (await client.get("/v1/worlds/a")).json()
    response = await client.get("/v1/effects?world=a")
    assert response.headers["worldledger-through"] == f"{world['head_seq']}:{world['head_checksum']}"
    earlier = await client.get("/v1/effects?world=a&until_seq=3&format=arrow")
    checksum = (await client.get("/v1/worlds/a/effects/3")).headers["worldledger-checksum"]
    assert earlier.headers["worldledger-through"] == f"3:{checksum}"
    assert pa.ipc.open_stream(earlier.content).read_all()["checksum"][-1].as_py().hex() == checksum


async def test_what_cannot_be_asked_is_refused(client: httpx2.AsyncClient) -> None:
    """A world that is not there, a seq without a world, one beyond the head, and words that nothing can be called."""
    await _fill(client)
    problem(await client.get("/v1/effects?world=nowhere"), 404, "world_not_found")
    for parameter in ("after_seq", "until_seq"):
        problem(await client.get(f"/v1/effects?{parameter}=3"), 422, "invalid_parameter", parameter=parameter)
    problem(await client.get("/v1/effects?world=a&after_seq=99"), 409, "position_ahead", head_seq=7)
    for query in ("kind=%00", "experiment=%00", "source_id=a%00", "format=csv", "worlds=a"):
        problem(await client.get(f"/v1/effects?{query}"), 422, "invalid_parameter")


async def test_a_service_without_arrow_says_what_to_install(
    client: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the extra is missing, Arrow is 501 with the command that installs it, and lines are given as ever."""
    await _fill(client)

    def missing() -> None:
        raise ExtraMissingError.of("pyarrow", "analytics")

    monkeypatch.setattr("worldledger_service.arrow.pool.needed", missing)
    refused = problem(await client.get("/v1/effects?format=arrow"), 501, "extra_missing", extra="analytics")
    assert "pip install 'worldledger[analytics]'" in refused["detail"]
    assert (await client.get("/v1/effects")).status_code == 200
    error = ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.lib")
    with pytest.raises(ExtraMissingError), pool.needed():
        raise error


async def test_a_service_that_stops_cuts_the_stream(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream that is under way when the service stops has no proper end, holds up no stop, and is no error."""
    read = worldledger_service.api.reading._arrow_lines

    async def held(*asked: Any) -> AsyncGenerator[bytes, None]:
        async for chunk in read(*asked):
            yield chunk
            await asyncio.Event().wait()

    monkeypatch.setattr(worldledger_service.api.reading, "_arrow_lines", held)
    async with httpx2.AsyncClient(base_url=served.url, timeout=60) as client:
        await _fill(client)
        async with client.stream("GET", "/v1/effects") as response:
            lines = response.aiter_lines()
            assert orjson.loads(await anext(lines))["world_id"] == "a"
            with capture_logs() as said:
                stopping = asyncio.create_task(served.stop())
                with pytest.raises(httpx2.RemoteProtocolError):
                    async for _ in lines:
                        pass
                await asyncio.wait_for(stopping, 100)
    assert said == []
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
