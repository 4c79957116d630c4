"""Over HTTP: single effects from sixteen clients against a route that echoes, and a thousand at once."""

from __future__ import annotations

import asyncio
import socket
import sys
import time
from typing import Any
from urllib.request import urlopen

import orjson
from worldledger_service.store import Store

from benchmarks.harness import Figure, Report, draft, say
from benchmarks.million import command
from worldledger.genesis import NewWorld

SERVER = """
import gc
import sys
from typing import Any
import uvicorn
from fastapi import FastAPI
from worldledger_service.app import create_app
from worldledger_service.running import relax_gc
from worldledger_service.settings import Settings

app = create_app(Settings(), sys.argv[1])
echo = FastAPI()

@echo.get("/readyz")
async def readyz() -> dict[str, str]:
    return {}

@echo.post("/echo")
async def echo_it(body: Any = __import__("fastapi").Body()) -> Any:
    return body

gc.freeze()  # the collector as `worldledger serve` has it, for both
relax_gc(20_000)
uvicorn.run(app if sys.argv[3] == "log" else echo, host="127.0.0.1", port=int(sys.argv[2]), log_level="error",
            access_log=False, loop="uvloop", http="httptools")
"""


async def run(report: Report, url: str, store: Store) -> None:
    """Measure posting over HTTP; server and clients have a process each."""
    say("HTTP")
    await store.create_world(NewWorld(world_id="http"))
    await store.create_world(NewWorld(world_id="in-process"))
    log = await store.log("in-process")
    one = orjson.dumps(draft(1))
    thousand = orjson.dumps([draft(index) for index in range(1000)])
    # The service would else feed its projections from all that the other benchmarks have left here meanwhile.
    # (A world whose rows a benchmark wrote by itself may be parked.)
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url], allowed=1)
    ports = {"log": free_port(), "echo": free_port()}
    servers = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, url, str(port), what)
        for what, port in ports.items()
    ]
    try:
        for port in ports.values():
            await until_alive(port)
        path = "/v1/worlds/http/effects"

        async def in_process() -> int:
            for _ in range(20):
                await log.append_all(orjson.loads(thousand))
            return 20_000

        await _measure(
            report,
            {
                "HTTP echo, 16 clients": lambda: _load(ports["echo"], "/echo", 16, 4000, one),
                "HTTP append, 16 clients": lambda: _load(ports["log"], path, 16, 4000, one),
                "HTTP append, 1,000 at once": lambda: _load(ports["log"], path, 1, 20, thousand, 1000),
                "in process, 1,000 at once": lambda: _timed(in_process),
            },
        )
    finally:
        for server in servers:
            server.terminate()
            await server.wait()
    report.ratio("HTTP append over echo, 16 clients", "HTTP append, 16 clients", "HTTP echo, 16 clients", 0.5)
    report.ratio("HTTP 1,000 at once over in process", "HTTP append, 1,000 at once", "in process, 1,000 at once", 0.5)


async def _measure(report: Report, works: dict[str, Any], rounds: int = 5) -> None:
    for name, work in works.items():
        await work()
        report.figures[name] = Figure(name)
    for _ in range(rounds):
        for name, work in works.items():
            report.figures[name].rates.append(await work())
    for name in works:
        say(f"  {name}: {report.figures[name].rate:,.0f}/s")


async def _timed(work: Any) -> float:
    start = time.perf_counter()
    count = await work()
    return float(count / (time.perf_counter() - start))


async def _load(port: int, path: str, connections: int, requests: int, body: bytes, each: int = 1) -> float:
    arguments = ["127.0.0.1", str(port), path, str(connections), str(requests)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.load",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate(body)
    if process.returncode:
        raise RuntimeError("the load failed")
    return requests * each / float(output)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def until_alive(port: int) -> None:
    for _ in range(300):
        try:
            with await asyncio.to_thread(urlopen, f"http://127.0.0.1:{port}/readyz", timeout=2):
                return
        except OSError:
            await asyncio.sleep(0.05)
    raise RuntimeError("the server did not come up")
