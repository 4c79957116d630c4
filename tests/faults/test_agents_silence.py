"""A server that is stopped or frozen: the first who call a service are told soon; nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import httpx2
import psutil
import pytest

from service.database import embedded, schema
from worldledger.config import OrchestratorConfig
from worldledger.intents import Accepted

from .living import ALL, PATIENT, event, intent, judged, living, serving

pytestmark = pytest.mark.slow

#: Seconds for which the store tries, and for which a statement may take: whoever waited for those would wait for ever.
_FOR_EVER: Final = 3600
#: Seconds in which an answer has to come: generous, and little beside the above.
_SOON: Final = 60
_QUOTA: Final = 1000
_TOWN: Final = "/v1/worlds/town"


def _server(home: Path) -> tuple[int, psutil.Process]:
    status = embedded.status(home)
    assert status is not None
    assert status.postmaster_pid is not None
    return status.supervisor_pid, psutil.Process(status.postmaster_pid)


@contextmanager
def frozen(home: Path) -> Iterator[None]:
    """Freeze a server and all of its sessions: nothing fails, and nobody is answered."""
    _, postmaster = _server(home)
    postmaster.suspend()  # first, so that no more of them come
    sessions = postmaster.children(recursive=True)
    for each in sessions:
        with suppress(psutil.NoSuchProcess):
            each.suspend()
    try:
        yield
    finally:
        for each in [*sessions, postmaster]:
            with suppress(psutil.NoSuchProcess):
                each.resume()


@contextmanager
def stopped(home: Path) -> Iterator[None]:
    """Kill a server, and keep its supervisor from starting it again."""
    supervisor, postmaster = _server(home)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        for each in [postmaster, *postmaster.children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        yield
    finally:
        os.kill(supervisor, signal.SIGCONT)


@asynccontextmanager
async def _calling(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    limits = httpx2.Limits(max_connections=200)
    async with httpx2.AsyncClient(base_url=url, timeout=_SOON, limits=limits) as http:
        yield http


def _refused(answer: httpx2.Response, *codes: str) -> bool:
    """Check that an answer says when to come again; tell whether what was sent may be under way."""
    assert answer.status_code == 503, answer.text
    assert int(answer.headers["Retry-After"]) >= 1
    problem = answer.json()
    assert problem["code"] in codes
    assert problem["recovery"] == "retry_with_delay"
    return bool(problem.get("outcome") == "unknown")


async def _until_accepted(http: httpx2.AsyncClient, wanted: dict[str, Any]) -> dict[str, Any]:
    while True:
        answer = await http.post(f"{_TOWN}/intents", json=wanted)
        if answer.status_code in {200, 201}:
            found: dict[str, Any] = answer.json()
            return found
        _refused(answer, "store_unavailable", "circuit_open")
        await asyncio.sleep(0.05)


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """Give the address of a server of this test's own."""
    with embedded.attach(home) as server:
        asyncio.run(schema.upgrade(server.url()))
        yield server.url()


@pytest.mark.parametrize("out_of_order", [frozen, stopped])
async def test_the_first_who_call(url: str, home: Path, tmp_path: Path, out_of_order: Callable[[Path], Any]) -> None:
    """Fifty at once, and whoever reads, are answered while the server is away; each intent is one effect afterwards."""
    config = OrchestratorConfig(staleness_threshold=PATIENT, intents_per_s=1e-9, intents_burst=_QUOTA)
    settings: dict[str, Any] = {"append_deadline": _FOR_EVER, "command_timeout": _FOR_EVER}
    async with serving(url, tmp_path, **settings) as service, living(service) as world:
        await world.create_world(orchestrator=config)
        ada = await world.register_agent("ada", ALL)
        await world.broadcast_event(event("before"))
        await asyncio.wait_for(ada.next_observation(), 60)
        intents = [intent("ada", f"r-{n}", "Speak", text=f"{n}") for n in range(50)]
        async with _calling(service.url) as http:
            with out_of_order(home):
                # Whatever is answered in this block is answered while the server is away.
                first = await asyncio.gather(*(http.post(f"{_TOWN}/intents", json=each) for each in intents))
                assert any(_refused(answer, "store_unavailable", "circuit_open") for answer in first)
                again = await http.post(f"{_TOWN}/intents", json=intents[0])
                assert _refused(again, "store_unavailable")
                late = intent("ada", "late", "Speak", text="late")
                assert not _refused(await http.post(f"{_TOWN}/intents", json=late), "circuit_open")
                draft = {**event("told"), "req_id": "told"}
                assert not _refused(await http.post(f"{_TOWN}/effects", json=draft), "circuit_open")
                for path in ("agents/bea/view", "agents/ada/view?at_seq=2", "agents/bea/observations"):
                    _refused(await http.get(f"{_TOWN}/{path}"), "store_unavailable")
                new = {"agent_id": "bea"}
                assert not _refused(await http.post(f"{_TOWN}/agents", json=new), "circuit_open")
                for path in ("agents", "agents/ada", "agents/ada/view", "agents/ada/observations"):
                    assert (await http.get(f"{_TOWN}/{path}")).status_code == 200
                begun = await http.post(f"{_TOWN}/agents/ada/generations", json={"req_id": "thought"})
                assert begun.status_code == 201
                assert (await http.get("/readyz")).status_code == 503
            told = [await _until_accepted(http, each) for each in (*intents, late)]
            last = await http.post(f"{_TOWN}/intents", json=intent("ada", "last", "Speak", text="last"))
            assert last.status_code == 201
            assert f'"intents";r={_QUOTA - len(told) - 1}' in last.headers["RateLimit"]
        ada.close()
    accepted = [Accepted(each["uuid"], global_seq=each["global_seq"], req_id=each["req_id"]) for each in told]
    effects = await judged(url, "town", accepted)
    spoken = [effect["req_id"] for effect in effects if effect["kind"] == "Speak"]
    assert sorted(map(str, spoken)) == sorted([*(each.req_id for each in accepted), "last"])
