"""First views and intents over HTTP.

A simulation of 1,000 agents has played 15 turns before anybody looks. Agents come then, for a first view or with
a first intent, while another client asks for small things and is to be answered as ever. Beside them is what they are
measured against: a state of the same world at its head, and a view of an agent that has been there before.
"""

from __future__ import annotations

import asyncio
import random
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any

import orjson
from worldledger_service.store import Store

from benchmarks.harness import Goal, Report, say
from benchmarks.million import command
from benchmarks.states import server
from worldledger.genesis import NewWorld

AGENTS, TURNS, VARIABLES = 1000, 15, 20
#: Agents that come for a view, and those that come with an intent.
COMING = 20
WORLD = "first-views"


async def run(report: Report, url: str, store: Store) -> None:
    """Measure first views and first intents."""
    say("first views")
    await _play(store)
    # The service would else feed its projections from all of that meanwhile.
    await asyncio.to_thread(command, ["project", "--once", "--database-url", url])
    async with server(url) as port:
        await asyncio.to_thread(_ask, report, port)


# -- agents that come ------------------------------------------------------------------------------------------


def _config() -> dict[str, Any]:
    names = [f"a{number}" for number in range(AGENTS)]
    variables = {
        f"v{number}": {"type": "float", "default": 100, "min": 0} if number % 2 else {"type": "int", "default": 50}
        for number in range(VARIABLES)
    }
    shown = list(variables)
    return {
        "simulation": {"name": "first views"},
        "agents": names,
        "state_variables": {"agent_vars": variables},
        "observability": {
            "enabled": True,
            "variable_visibility": {"external": shown[: VARIABLES // 2], "internal": shown[VARIABLES // 2 :]},
            "matrix": [[name, name, "insider", 0.0] for name in names],
            "default": {"level": "external", "noise": 0.1},
        },
    }


async def _play(store: Store) -> None:
    """Let every agent change two variables in each turn."""
    pick = random.Random(1)
    await store.create_world(NewWorld(world_id=WORLD, ruleset="simulation", config=_config()))
    log = await store.log(WORLD)

    def change(number: int) -> Any:
        patch = [
            {"op": "replace", "path": f"/v{pick.randrange(VARIABLES)}", "value": pick.randint(1, 1000)}
            for _ in range(2)
        ]
        return _draft("AgentStateChanged", {"agent_id": f"a{number}", "patch": patch})

    for _ in range(TURNS):
        await log.append_all([_draft("TurnStarted", {})])
        for start in range(0, AGENTS, 500):
            await log.append_all([change(number) for number in range(start, start + 500)])
        await log.append_all([_draft("TurnEnded", {})])


def _draft(kind: str, payload: dict[str, Any]) -> Any:
    return {"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0"}


def _ask(report: Report, port: int) -> None:
    client = HTTPConnection("127.0.0.1", port)
    head = _json(client, "GET", f"/v1/worlds/{WORLD}")["head_seq"]
    state, known, view, intent = f"/v1/worlds/{WORLD}/state", "a0", [], []
    _json(client, "GET", state)
    with _others(port) as alone:
        time.sleep(3.0)
    with _others(port) as beside_states:
        states = [_timed(client, "GET", f"{state}?at_seq={head}") for _ in range(COMING)]
    _json(client, "GET", f"/v1/worlds/{WORLD}/agents/{known}/view")
    views = [_timed(client, "GET", f"/v1/worlds/{WORLD}/agents/{known}/view") for _ in range(COMING)]
    with _others(port) as beside:
        for number in range(1, 1 + COMING):
            view.append(_timed(client, "GET", f"/v1/worlds/{WORLD}/agents/a{number}/view"))
        for number in range(1 + COMING, 1 + 2 * COMING):
            body = {
                "kind": "Custom",
                "agent_id": f"a{number}",
                "req_id": f"first-{number}",
                "context_seq": _json(client, "GET", f"/v1/worlds/{WORLD}")["head_seq"],
                "payload": {"kind": "Waved"},
            }
            intent.append(_timed(client, "POST", f"/v1/worlds/{WORLD}/intents", body))
    allowed = 2 * statistics.median(states) + statistics.median(views)
    for what, times in (("view", view), ("intent", intent)):
        ratio = statistics.median(times) / allowed
        report.note(Goal(f"an agent's first {what} over two states and a view: medians", ratio, 1, at_least=False))
        report.tell(f"an agent's first {what}: median", statistics.median(times) * 1000, "ms")
    report.tell("the state at that seq: median", statistics.median(states) * 1000, "ms")
    report.tell("a view of an agent that is known: median", statistics.median(views) * 1000, "ms")
    p99 = statistics.quantiles(beside, n=100)[98] * 1000
    report.note(Goal("others meanwhile: p99", p99, 100, at_least=False, unit="ms"))
    report.tell("others beside states: p99", statistics.quantiles(beside_states, n=100)[98] * 1000, "ms")
    report.tell("others alone: p99", statistics.quantiles(alone, n=100)[98] * 1000, "ms")


@contextmanager
def _others(port: int) -> Iterator[list[float]]:
    """Ask for a world's record, again and again, from another thread; return the times."""
    times: list[float] = []
    over = threading.Event()

    def ask() -> None:
        client = HTTPConnection("127.0.0.1", port)
        while not over.is_set():
            times.append(_timed(client, "GET", f"/v1/worlds/{WORLD}"))
            over.wait(0.005)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def _timed(client: HTTPConnection, method: str, path: str, body: Any = None) -> float:
    start = time.perf_counter()
    _answer(client, method, path, body)
    return time.perf_counter() - start


def _json(client: HTTPConnection, method: str, path: str) -> Any:
    return orjson.loads(_answer(client, method, path, None))


def _answer(client: HTTPConnection, method: str, path: str, body: Any) -> bytes:
    client.request(method, path, None if body is None else orjson.dumps(body), {"Content-Type": "application/json"})
    answer = client.getresponse()
    read = answer.read()
    assert answer.status < 300, read
    return read
