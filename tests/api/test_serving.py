"""Starting and stopping the service: addresses, signals, what waits, what cannot begin."""

from __future__ import annotations

import asyncio
import gc
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import asyncpg
import httpx2
import pytest
from fastapi import FastAPI
from worldledger_service import app as composition
from worldledger_service.app import serve
from worldledger_service.listening import ListenError
from worldledger_service.running import gc_paused

from tests.cli.helpers import Running
from tests.faults.helpers import free_port
from tests.store.helpers import holding_head, wait_for_waiters
from tests.store.proxy import Proxy
from tests.waiting import wait_for
from worldledger.errors import SchemaVersionError, StoreUnavailableError

from .helpers import Served, draft, problem, serving, settings, tailing

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]

PATH = "/v1/worlds/town/effects"


@asynccontextmanager
async def closing_connection(url: str) -> AsyncIterator[Connection]:
    """Lend a connection of our own."""
    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


_PROGRAM = """
import logging
import sys
import structlog
from worldledger_service.app import run
from worldledger_service.settings import Settings
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
run(Settings(port=0, pool_size=2), sys.argv[1], ready=lambda url: print(url, flush=True))
print("stopped", flush=True)
"""


async def test_it_listens_where_it_is_told(database_url: str) -> None:
    """The URL that is told is the one that answers, for addresses and names."""
    for host, begins in (("127.0.0.1", "http://127.0.0.1:"), ("localhost", "http://localhost:")):
        async with serving(database_url, host=host) as served, httpx2.AsyncClient(base_url=served.url) as client:
            assert served.url.startswith(begins)
            assert (await client.get("/readyz")).json()["status"] == "ready"


async def test_requests_have_their_turns_beside_computations(database_url: str) -> None:
    """While it serves, a thread that computes gives way soon, and the garbage collector is seldom in the way."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    try:
        sys.setswitchinterval(0.005)
        gc.set_threshold(700, 10, 10)
        async with serving(database_url):
            assert sys.getswitchinterval() < 0.002
            assert gc.get_threshold()[0] >= 10_000
    finally:
        sys.setswitchinterval(interval)
        gc.set_threshold(*threshold)


def test_a_silent_database_keeps_no_stop_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends at most 8 s after the stop began, by a clock of ours, if its database answers just once more."""
    now, answers = 0.0, iter([True, False])
    ends: list[int | str] = []

    def pass_by(seconds: float) -> None:
        nonlocal now
        now += seconds

    async def asked(_: str) -> bool:
        pass_by(composition._ANSWER_SECONDS)  # each takes as long as it may
        return next(answers)

    monkeypatch.setattr("worldledger_service.app.time.sleep", pass_by)
    monkeypatch.setattr(composition, "_answers", asked)
    monkeypatch.setattr("worldledger_service.app.os._exit", ends.append)
    composition._end_if_silent("postgresql://nobody@localhost/nothing", lambda: ends.append("requests"))
    assert ends == ["requests", 1]
    assert now <= 8


async def test_a_taken_port_is_a_clear_error(database_url: str) -> None:
    """A port in use is named, before the database is touched, and nothing is left open."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ListenError, match=f"port {port}.*another program uses it") as caught:
            await serve(settings(port=port), database_url)
    assert caught.value.details == {"host": "127.0.0.1", "port": port}


async def test_an_address_that_is_not_ours_is_a_clear_error(database_url: str) -> None:
    """An address of another machine, or none at all, cannot be listened on."""
    for host in ("192.0.2.1", "no such host"):
        with pytest.raises(ListenError, match="cannot listen on"):
            await serve(settings(host=host), database_url)


async def test_an_absent_database_is_a_clear_error() -> None:
    """Without a database nothing is served: the error names it, and the port is free again."""
    nobody, port = free_port(), free_port()
    ready: list[str] = []
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="cannot be reached"):
            await serve(settings(port=port), f"postgresql://postgres@127.0.0.1:{nobody}/none", ready=ready.append)
    assert ready == []


async def _ask_early(port: int, step: str) -> None:
    """Ask a service that is not ready: it is alive, and says at once what it waits for."""
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        assert (await client.get("/livez")).json() == {"status": "alive"}
        for answer in (await client.get("/readyz"), await client.post(PATH, json=draft())):
            found = problem(answer, 503, "starting", recovery="retry_with_delay")
            assert found["detail"] == f"the service is starting: {step}"
            assert int(answer.headers["retry-after"]) > 0


async def test_a_database_that_starts_up_is_waited_for(database_url: str) -> None:
    """The service begins once it answers; until then it is not ready, and says why."""
    async with Proxy(database_url).running() as proxy:
        proxy.start_up()
        port = free_port()

        async def end() -> None:
            await wait_for(lambda: (proxy.told_to_wait or 0) >= 3, "it is asked again")
            try:
                await _ask_early(port, "it connects to the database")
            finally:
                proxy.accept_again()

        ending = asyncio.create_task(end())
        async with serving(proxy.url, port=port) as served, httpx2.AsyncClient(base_url=served.url) as client:
            await ending
            assert (await client.get("/readyz")).status_code == 200


async def test_requests_are_answered_while_the_service_is_put_together(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What takes its time at the start keeps nobody waiting who asks whether the service is ready."""
    create, port = composition.create_app, free_port()
    begun, go_on = threading.Event(), threading.Event()

    def slowly(*arguments: Any, **keywords: Any) -> FastAPI:
        begun.set()
        assert go_on.wait(100)
        return create(*arguments, **keywords)

    async def ask() -> None:
        await wait_for(begun.is_set, "it is put together")
        try:
            await _ask_early(port, "it loads its parts")
        finally:
            go_on.set()

    monkeypatch.setattr(composition, "create_app", slowly)
    asking = asyncio.create_task(ask())
    async with serving(database_url, port=port) as served, httpx2.AsyncClient(base_url=served.url) as client:
        await asking
        assert (await client.get("/readyz")).status_code == 200


async def test_a_database_without_tables_is_a_clear_error(empty_database_url: str) -> None:
    """A database that was never migrated says what to run."""
    with pytest.raises(SchemaVersionError, match="worldledger db upgrade"):
        await serve(settings(), empty_database_url)


async def test_a_failing_start_stops_again(database_url: str) -> None:
    """If whoever is told of the start fails, the service stops in good order and the error comes out."""

    def fail(url: str) -> None:
        raise ZeroDivisionError(url)

    with pytest.raises(ZeroDivisionError, match="http://127"):
        await serve(settings(), database_url, ready=fail)


async def test_tails_end_cleanly_when_it_stops(served: Served, remote: httpx2.AsyncClient) -> None:
    """A stopping service ends open tails properly; nothing is cut off."""
    async with tailing(remote, "town") as one, tailing(remote, "town", after_seq=0) as two:
        assert [event.id for event in await two.events(1)] == [1]
        stopping = asyncio.create_task(served.stop())
        assert await one.block() == []
        assert await two.block() == []
        await stopping


async def test_what_waits_is_written_when_it_stops(
    database_url: str, served: Served, remote: httpx2.AsyncClient
) -> None:
    """Appends under way when the service stops are written and answered."""
    async with closing_connection(database_url) as admin, holding_head(database_url, "town"):
        posts = [asyncio.create_task(remote.post(PATH, json=draft(0)))]
        await wait_for_waiters(admin)
        posts += [asyncio.create_task(remote.post(PATH, json=draft(n))) for n in range(1, 8)]
        await wait_for(lambda: served.services.store.waiting == 7, "the others wait behind")
        stopping = asyncio.create_task(served.stop())
        await served.services.stopping.wait()
    responses = await asyncio.gather(*posts)
    await stopping
    assert {response.status_code for response in responses} == {201}
    assert sorted(response.json()["global_seq"] for response in responses) == list(range(2, 10))
    async with serving(database_url) as again, httpx2.AsyncClient(base_url=again.url) as client:
        verified = (await client.get("/v1/worlds/town/verification")).json()
        assert (verified["verified"], verified["effects"]) == (True, 9)


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.thorough)])
async def test_a_signal_stops_it_in_good_order(database_url: str, number: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM and SIGINT let the program go on after serving, tails ended and exit code 0."""
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    with Running(database_url, program=program) as running:
        async with httpx2.AsyncClient(base_url=running.line(), timeout=60) as client:
            assert (await client.post("/v1/worlds", json={"world_id": "town"})).status_code == 201
            async with tailing(client, "town") as tail:
                running.process.send_signal(number)
                assert await tail.block() == []
        assert running.end() == (0, "stopped\n", "")


# That a feeder which fails is started again and again, test_feeding has, too.
@pytest.mark.parametrize("projections", [False, pytest.param(True, marks=pytest.mark.thorough)])
async def test_it_recovers_from_an_outage_by_itself(database_url: str, projections: bool) -> None:
    """While the database is away appends and readiness are 503 with Retry-After; then all works again."""
    async with (
        Proxy(database_url).running() as proxy,
        serving(proxy.url, append_deadline=0.3, projections=projections) as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        await client.post("/v1/worlds", json={"world_id": "town"})
        assert (await client.post(PATH, json=draft(req_id="before"))).status_code == 201
        for round_ in range(2):
            proxy.refuse_all()
            proxy.cut_all()
            paths = ["/readyz", "/v1/worlds", "/v1/worlds/town", PATH, "/v1/worlds/town/state", "/v1/projections"]
            responses = [await client.get(path) for path in paths]
            responses += [await client.post("/v1/projections/entities/pause")]
            responses += [await client.post(PATH, json=draft(req_id=f"r{round_}"))]
            responses += [await client.post("/v1/worlds/other/effects", json=draft())]
            for response in responses:
                found = problem(response, 503, "store_unavailable", recovery="retry_with_delay")
                assert int(response.headers["retry-after"]) > 0
                assert "127.0.0.1" not in response.text, "addresses are for the operator"
                assert "postgres" not in found["detail"]
            assert (await client.get("/livez")).json() == {"status": "alive"}
            assert (await client.get("/metrics")).status_code == 200
            proxy.accept_again()
            assert (await client.get("/readyz")).status_code == 200
            assert (await client.post(PATH, json=draft(req_id=f"r{round_}"))).status_code in {200, 201}
            assert (await client.get("/v1/projections")).status_code == 200
        verified = (await client.get("/v1/worlds/town/verification")).json()
        assert (verified["verified"], verified["effects"]) == (True, 4)


def test_as_many_connections_as_the_process_may_have() -> None:
    """A process asks for the files that it may have, whatever its shell allows at first."""
    said = subprocess.run(
        [sys.executable, "-c", _ALLOWED], check=True, capture_output=True, text=True, timeout=120
    ).stdout
    assert said.split() == ["512", "512"]


_ALLOWED = """
import resource
from worldledger_service.running import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 512))
allow_files()
print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""


def test_the_collector_pauses_as_long_as_anybody_asks() -> None:
    """Blocks in several threads may overlap: the collector looks again at the end of the last one."""
    with gc_paused():
        with gc_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
