"""Questions in SQL over HTTP: their answers as JSON and as Arrow, their bounds, and who asks when all are asking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime
from math import isnan
from typing import Any

import httpx2
import pyarrow as pa
import pytest
import pytest_asyncio
from fastapi import FastAPI
from worldledger_service.api import sql
from worldledger_service.app import create_app
from worldledger_service.database.analytics.asking import Answer, ask

from tests.waiting import wait_for

from .helpers import draft, problem, settings

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bounded(shared_url: str) -> AsyncIterator[FastAPI]:
    """Run an application that gives at most 100 rows."""
    app = create_app(settings(sql_max_rows=100), shared_url)
    async with app.router.lifespan_context(app):
        yield app


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asker(bounded: FastAPI) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to it; the world ``town`` has six effects, and no test adds to them."""
    transport = httpx2.ASGITransport(app=bounded)
    async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1") as made:
        await made.post("/v1/worlds", json={"world_id": "town"})
        await made.post(
            "/v1/worlds/town/effects", json=[draft(n, source_id=f"a{n % 2}", caused_by=n or None) for n in range(5)]
        )
        yield made


async def _arrow(client: httpx2.AsyncClient, **body: Any) -> pa.RecordBatchReader:
    response = await client.post("/v1/sql", json=body, headers=ARROW)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == ARROW["Accept"]
    return pa.ipc.open_stream(response.content)


async def test_an_answer_as_json(asker: httpx2.AsyncClient) -> None:
    """Columns have names and types, rows the values in their order; parameters go by name or by number."""
    query = "select source_id, count(*) as n, null::int as none from effects where kind = :kind group by 1 order by 1"
    response = await asker.post("/v1/sql", json={"query": query, "params": {"kind": "Said"}})
    assert response.json() == {
        "columns": [
            {"name": "source_id", "type": "text"},
            {"name": "n", "type": "bigint"},
            {"name": "none", "type": "integer"},
        ],
        "rows": [["a0", 3, None], ["a1", 2, None]],
        "is_cut": False,
    }
    query = "select $1::int + $2::int as sum, '{\"a\": [1.5]}'::json as doc, 'ä\"' as text where false or $1 = 1"
    assert (await asker.post("/v1/sql", json={"query": query, "params": [1, 2]})).json()["rows"] == [
        [3, {"a": [1.5]}, 'ä"']
    ]
    assert (await asker.post("/v1/sql", json={"query": "select 1 as n where false"})).json()["rows"] == []


async def test_a_number_of_rows_may_have_a_fraction_of_nothing(asker: httpx2.AsyncClient) -> None:
    """2.0 is a whole number, as JSON Schema has it."""
    body = {"query": "select generate_series(1, 5)", "max_rows": 2.0}
    found = (await asker.post("/v1/sql", json=body)).json()
    assert (found["rows"], found["is_cut"]) == ([[1], [2]], True)


async def test_an_answer_as_arrow(asker: httpx2.AsyncClient) -> None:
    """Each type of SQL is the one of Arrow that fits; nulls are nulls; what is of no such type is its text."""
    query = """
        select true as b, 7::smallint as s, 8 as i, 9::bigint as l, 1.5::real as r, 2.5::float8 as d, 3.25 as n,
               'text' as t, '\\x00ff'::bytea as y, timestamptz '2026-01-31 12:00:00.5+00' as at,
               date '2026-01-31' as day, timestamp '2026-01-31 12:00' as local, array[1, null] as list,
               array['a'] as texts, '{"a": 1}'::json as doc, interval '1 day' as span, null::text as nothing, 1 as b
        union all
        select false, null, null, null, null, 'NaN', null, null, null, null, null, null, null, null, null, null, null, 2
        order by 1 desc"""
    table = (await _arrow(asker, query=query)).read_all()
    found, nulls = table.to_pylist()
    assert found.pop("local").isoformat() == "2026-01-31T12:00:00"
    assert [*found.values()] == [
        *(True, 7, 8, 9, 1.5, 2.5, 3.25, "text", b"\x00\xff", datetime(2026, 1, 31, 12, 0, 0, 500000, UTC)),
        *(date(2026, 1, 31), [1, None], ["a"], '{"a": 1}', "P1D", None, 1),
    ]
    assert isnan(nulls.pop("d"))
    assert {name: value for name, value in nulls.items() if value is not None} == {"b": False, "b_2": 2}
    assert str(table.schema.field("at").type) == "timestamp[us, tz=UTC]"
    empty = (await _arrow(asker, query="select world_id, created_at from worlds where false")).read_all()
    assert (empty.num_rows, empty.schema.names) == (0, ["world_id", "created_at"])


async def test_queries_with_names(asker: httpx2.AsyncClient) -> None:
    """The cookbook is listed, with what it takes to ask each query over HTTP."""
    listed = (await asker.get("/v1/queries")).json()["queries"]
    assert len(listed) >= 15
    by_name = {query["name"]: query for query in listed}
    assert by_name["cause-to-effect-lag"]["title"]
    answer = (await asker.post("/v1/sql", json={"name": "cause-to-effect-lag"})).json()
    assert [row[:3] for row in answer["rows"]] == [["Said", "Said", 3], ["WorldCreated", "Said", 1]]
    problem(await asker.post("/v1/sql", json={"name": "no-such"}), 404, "unknown_query")
    refused = await asker.post("/v1/sql", json={"name": "cause-to-effect-lag", "params": {"no_such": 1}})
    problem(refused, 422, "query_refused", parameter="no_such")


async def test_too_many_rows_are_cut(asker: httpx2.AsyncClient) -> None:
    """Of a million rows the first hundred are given, with the word that there are more; fewer where that is asked."""
    query = "select n from generate_series(1, 1000000) n"
    answer = (await asker.post("/v1/sql", json={"query": query})).json()
    assert (answer["rows"], answer["is_cut"]) == ([[n] for n in range(1, 101)], True)
    reader = await _arrow(asker, query=query, max_rows=3)
    rows, said = [], []
    for batch, metadata in reader.iter_batches_with_custom_metadata():
        rows += batch["n"].to_pylist()
        said.append(None if metadata is None else dict(metadata))
    assert (rows, said[-1]) == ([1, 2, 3], {b"worldledger.is_cut": b"true"})


@pytest.mark.parametrize("headers", [{}, ARROW])
async def test_what_is_no_question_is_refused(asker: httpx2.AsyncClient, headers: dict[str, str]) -> None:
    """Writing, other schemas, what goes wrong, and bodies that make no sense get a problem that says why."""

    async def asked(**body: Any) -> httpx2.Response:
        return await asker.post("/v1/sql", json=body, headers=headers)

    problem(await asked(query="select from where"), 422, "query_refused", line=1)
    problem(await asked(query="delete from public.effects"), 422, "query_refused")
    problem(await asked(query="select * from public.effects"), 422, "query_refused")
    problem(await asked(query="select 1 / (n - 90) from generate_series(1, 1000) n"), 422, "query_refused")
    for body in (
        {},
        {"query": "select 1", "x": 1},
        {"query": "select 1", "name": "x"},
        {"query": 1},
        {"query": "select 1", "params": "x"},
    ):
        problem(await asked(**body), 422, "query_refused")
    for most in (-1, True, "5", 2.5):
        problem(await asked(query="select 1", max_rows=most), 422, "query_refused", path="$.max_rows")
    problem(await asked(query="select 1", limit=1), 422, "query_refused", path="$.limit")
    for text in ("{", "[]", '{"query": 1, "query": 2}'):
        answer = await asker.post("/v1/sql", content=text, headers={"Content-Type": "application/json"})
        problem(answer, 422, "query_refused")
    assert (await asked(query="select 1")).status_code == 200


async def test_what_takes_too_long_is_stopped(database_url: str) -> None:
    """A query that does not end is stopped, and says after how long."""
    app = create_app(settings(sql_timeout=0.2), database_url)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as asker,
    ):
        answer = await asker.post("/v1/sql", json={"query": "select pg_sleep(30)::text"})
        problem(answer, 504, "query_timeout", timeout_s=0.2)


async def test_who_comes_when_all_connections_ask_is_told_so(
    asker: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A question beyond those that run at once waits for a while, and is then 503; the log's connections are free."""
    released, running = asyncio.Event(), 0

    @asynccontextmanager
    async def held(*asked: Any, **bounds: Any) -> AsyncIterator[Answer]:
        nonlocal running
        async with ask(*asked, **bounds) as answer:
            running += 1
            await released.wait()
            yield answer

    monkeypatch.setattr(sql, "ask", held)
    slow = [asyncio.create_task(asker.post("/v1/sql", json={"query": "select 1"})) for _ in range(sql.MOST)]
    await wait_for(lambda: running == sql.MOST, "all connections are in use")
    monkeypatch.setattr(sql, "_PATIENCE", 0.01)
    problem(await asker.post("/v1/sql", json={"query": "select 1"}), 503, "overloaded")
    assert (await asker.get("/v1/worlds/town")).status_code == 200
    released.set()
    assert {response.status_code for response in await asyncio.gather(*slow)} == {200}
