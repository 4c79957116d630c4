"""A database that answers nobody, and one that only takes long: what every reading route says."""

from __future__ import annotations

import asyncio

import asyncpg
import httpx2
import pytest
from worldledger_service.app import create_app
from worldledger_service.settings import Settings
from worldledger_service.store.outages import Outages

from tests.store.helpers import holding_head
from tests.store.proxy import Proxy

from .helpers import draft, problem, serving

#: What the paths of routes are filled with: there is no such thing in memory.
_THERE = {"world": "town", "agent_id": "a", "req_id": "r", "game_id": "g", "seq": "1", "round_number": "1", "turn": "1"}
#: Routes that do not ask the database, or say so in their own way.
_APART = ("/livez", "/readyz", "/metrics", "/v1/queries", "/v1/schemas", "/v1/sessions", "/openenv")


#: Routes that need more than a path, and those that are none of HTTP's alone.
_ASKING = ("/ws", "/watch", "/diff", "/compare", "/compare/moments", "/search")


def _reads() -> list[str]:
    """Return the path of every route that reads the log or what was made of it."""
    paths = create_app(Settings(), "postgresql://nobody@localhost/nothing").openapi()["paths"]
    found = [
        path.format(**_THERE, name="games")
        for path, methods in paths.items()
        if "get" in methods and not path.startswith(_APART) and not path.endswith(_ASKING)
    ]
    return [
        *found,
        "/v1/worlds/town/diff?from_seq=1&to_seq=1",
        "/v1/worlds/town/search?q=x",
        "/v1/compare?world=town&world=other",
        "/v1/compare/moments?a=town&b=town",
        "/v1/worlds/town/effects?format=ndjson",
        "/v1/worlds?experiment=x",
        "/v1/effects?world=town",
    ]


async def test_reads_do_not_wait_for_a_silent_database(database_url: str) -> None:
    """Every route that reads is 503 within the patience, and works again once the database answers."""
    silent = {"outage_patience": 0.3, "command_timeout": 3600, "append_deadline": 3600}
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, **silent) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        assert (await client.post("/v1/sql", json={"query": "select 1"})).status_code == 200
        proxy.freeze()
        reads = _reads()
        assert len(reads) > 25
        asked = [client.get(path) for path in reads]
        asked += [client.post("/v1/sql", json={"query": "select 1"}), client.post("/v1/worlds/town/snapshots")]
        asked += [client.post("/v1/worlds", json={"world_id": "other"})]
        answers = await asyncio.gather(*asked)
        alive = await client.get("/livez")
        proxy.thaw()  # before anything is compared: a frozen database would hold up the end
        for path, answer in zip([*reads, "sql", "snapshots", "worlds"], answers, strict=True):
            assert answer.status_code == 503, (path, answer.text)
            assert int(answer.headers["retry-after"]) >= 1
        assert alive.status_code == 200
        while (answer := await client.get("/v1/worlds/town")).status_code == 503:
            problem(answer, 503, "store_unavailable")
        assert answer.status_code == 200


async def test_an_append_without_a_req_id_waits_until_its_deadline_alone(database_url: str) -> None:
    """With statements and callers that wait for an hour, a frozen database is told of at the append's own deadline."""
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, append_deadline=0.2, command_timeout=3600, outage_patience=3600) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        assert (await client.post("/v1/worlds/town/effects", json=draft(1))).status_code == 201
        proxy.freeze()
        for body in (draft(2), [draft(3), draft(4, req_id="r")]):
            answer = await client.post("/v1/worlds/town/effects", json=body)
            assert problem(answer, 503, "store_unavailable")["outcome"] == "unknown"
        proxy.thaw()
        while (await client.get("/v1/worlds/town")).json()["head_seq"] < 5:
            await asyncio.sleep(0.02)
        effects = (await client.get("/v1/worlds/town/effects?kind=Said")).json()["effects"]
        assert [each["payload"]["n"] for each in effects] == [1, 2, 3, 4]


async def test_what_takes_long_is_no_silence(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A healthy database in which a statement waits for several times the patience: it is waited for."""
    probed = asyncio.Event()
    probe, probes = Outages._probe, 0

    async def counted(outages: Outages) -> None:
        nonlocal probes
        await probe(outages)
        probes += 1
        if probes == 5:
            probed.set()

    monkeypatch.setattr(Outages, "_probe", counted)
    async with (
        serving(database_url, outage_patience=0.2) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        async with holding_head(database_url, "town"):
            waiting = asyncio.create_task(client.post("/v1/worlds/town/effects", json=draft(1, req_id="r")))
            await probed.wait()
        answer = await waiting
        assert answer.status_code == 201, answer.text


async def test_a_database_that_refuses_to_write_is_not_ready(database_url: str) -> None:
    """From the write that it refused on until one succeeds, readiness says so."""
    async with (
        serving(database_url) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
        admin = await asyncpg.connect(database_url)
        name = await admin.fetchval("select current_database()")
        for read_only in ("on", "off"):
            await admin.execute(f'alter database "{name}" set default_transaction_read_only = {read_only}')
            await admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where datname = current_database() and pid <> pg_backend_pid()"
            )
            posts = [("/v1/worlds/town/effects", draft(1)), ("/v1/worlds", {"world_id": f"new-{read_only}"})]
            for path, body in posts if read_only == "on" else posts[:1]:
                answer = await client.post(path, json=body)
                if read_only == "on":
                    problem(answer, 503, "store_unavailable")
                    found = problem(await client.get("/readyz"), 503, "writes_refused")
                    assert found["detail"] == "the database takes no writes: it is read-only"
                else:
                    assert answer.status_code == 201
                    assert (await client.get("/readyz")).status_code == 200
            assert (await client.get("/v1/worlds/town")).status_code == 200
        await admin.close()
