"""Starting: how long it takes to import the client, and until a service answers that it is ready."""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import time

from benchmarks.harness import Goal, Report, say
from benchmarks.http import free_port, until_alive

ROUNDS = 15
STARTS = 5
#: The client's import over that of what it stands on.
MOST = 1.3

IMPORTS = {
    "client": "import worldledger.client",
    "peers": "import asyncio, httpx2, pydantic",
    # Of pydantic, the import alone loads next to nothing: the rest comes with the first model of any program.
    "peers with a model": """
import asyncio, httpx2
from pydantic import BaseModel, ConfigDict, Field

class Model(BaseModel):
    model_config = ConfigDict(defer_build=True)
    number: int = Field(ge=1)
""",
}


async def run(report: Report, url: str) -> None:
    """Measure both, each in processes of its own."""
    say("starting")
    seconds = await asyncio.to_thread(_imports)
    client = statistics.median(seconds["client"])
    peers = statistics.median(seconds["peers"])
    report.note(Goal("import of the client over asyncio, httpx2 and pydantic", client / peers, MOST, at_least=False))
    model = statistics.median(seconds["peers with a model"])
    report.tell("import of the client over asyncio, httpx2 and a model of pydantic", client / model, "")
    report.tell("import of the client", client * 1000, "ms")
    starts = [await _start(url) for _ in range(STARTS + 1)][1:]
    report.tell("serve: from the start of the program until it is ready", statistics.median(starts), "s")


def _imports() -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {name: [] for name in IMPORTS}
    for number in range(-1, ROUNDS):
        for name, code in IMPORTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", code], check=True)
            if number >= 0:
                seconds[name].append(time.perf_counter() - start)
    return seconds


async def _start(url: str) -> float:
    port = free_port()
    start = time.perf_counter()
    command = ["-m", "worldledger_service.cli", "serve", "--database-url", url, "--port", str(port)]
    server = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
    try:
        await until_alive(port)
        return time.perf_counter() - start
    finally:
        server.terminate()
        await server.wait()
