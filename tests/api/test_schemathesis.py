"""The whole OpenAPI document, tried with whatever it allows and with what it does not: nothing answers with a 5xx."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from schemathesis import Case, GenerationMode
from worldledger_service.app import create_app
from worldledger_service.settings import Settings

from tests.social_runs import round_of
from worldledger.kinds import installed

from .helpers import WorldClient, catch_up, serving
from .living import of, settle, speak

if TYPE_CHECKING:
    from tests.conftest import Servers

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_DOCUMENT: Final = create_app(Settings(), "postgresql://nobody@localhost/nothing").openapi()
OPERATIONS: Final = sorted(
    f"{method.upper()} {path}" for path, item in _DOCUMENT["paths"].items() for method in _METHODS if method in item
)
#: Examples of each operation: with --thorough, and without, where reads take the same steps with one another.
MANY, FEW, FEW_OF_READS = 60, 4, 3
_SCHEMA: Final = schemathesis.openapi.from_dict(_DOCUMENT)
_numbers: Final = itertools.count(1)


def _cases(operation: Any, suffix: str) -> st.SearchStrategy[Case[Any]]:
    """Return cases that the document allows, with names of what is there or not, and cases that it forbids."""
    named = {each.name for each in operation.path_parameters}
    there = {name: value for name, value in _there(operation, suffix).items() if name in named}
    found = [operation.as_strategy(path_parameters=there), operation.as_strategy()]
    if operation.path_parameters or operation.query or operation.headers or operation.body:
        found.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    return st.one_of(found)


def _there(operation: Any, suffix: str) -> dict[str, Any]:
    """Return names of what is there, so that a path does not always lead to nothing; see `_furnish`."""
    return {
        "world": {"rounds": "run", "recordings": "tape"}.get((operation.tags or [""])[0], "town") + suffix,
        "agent_id": "alice",
        "req_id": "g1",
        "game_id": "live" + suffix if operation.method == "post" else "g1",
        "seq": 2,
        "name": "entities",
        "round_number": 1,
    }


def _shortened(case: Case[Any]) -> Case[Any]:
    """Return a case that waits for nothing long."""
    query = case.query
    if query and str(query.get("wait", "")).replace(".", "").isdigit():
        case.query = {**query, "wait": min(float(query["wait"]), 0.01)}
    return case


def _is_bound(refused: dict[str, Any]) -> bool:
    """Tell whether a parameter was refused for its size: too large, too small, too long or too short."""
    words = ("a whole number from", "must be at least", "must be at most", "must have at", "must not be empty")
    return refused["code"] == "invalid_parameter" and any(each in refused["detail"] for each in words)


def _try(label: str, url: str, examples: int, suffix: str = "") -> None:
    """Try an operation with so many examples; an answer need only begin, as some have no end."""
    method, path = label.split()
    operation = _SCHEMA[path][method]
    tried = 0

    with requests.Session() as session:

        @hypothesis.settings(
            max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @hypothesis.seed(4)
        @given(case=_cases(operation, suffix))
        def attempt(case: Case[Any]) -> None:
            nonlocal tried
            sent = _shortened(case).as_transport_kwargs(base_url=url)
            valid = case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
            with session.request(**sent, stream=True, timeout=60, allow_redirects=False) as answer:
                tried += 1
                if answer.status_code >= 400:
                    assert answer.headers["content-type"] == "application/problem+json"
                    assert answer.status_code < 500, answer.text
                    assert not (valid and _is_bound(answer.json())), "the document states the bounds of parameters"

        attempt()
    assert tried >= examples * 5 // 6 or not any(
        (operation.path_parameters, operation.query, operation.headers, operation.body)
    )


async def _furnish(client: WorldClient, suffix: str) -> None:
    """Have a world with agents, of which one generates, a run with a round, a recording, and, with chess, a game."""
    await settle(client)
    await client.post(of("alice", "generations"), json={"req_id": "g1"})
    await client.post("/v1/worlds", json={"world_id": f"run{suffix}", "ruleset": "social_rl"})
    await client.post(f"/v1/worlds/run{suffix}/rounds", json=round_of(1))
    await client.post("/v1/worlds", json={"world_id": f"tape{suffix}", "ruleset": "recorder"})
    if "chess" in installed():
        players = {"white": {"agent_id": "alice"}, "black": {"agent_id": "bob"}}
        await client.post("/v1/games", json={**players, "game_id": f"live{suffix}", "max_illegal": 1000})


async def _furnished(url: str, suffix: str) -> None:
    async with WorldClient(base_url=url, timeout=60, world=f"town{suffix}") as client:
        await _furnish(client, suffix)


@pytest.fixture(scope="module")
def share(servers: Servers) -> Iterator[Callable[[bool], str]]:
    """Return a function that gives the address of a service that many tests share, with projections fed or not."""
    found: dict[bool, str] = {}
    with ExitStack() as stack:

        def shared(projections: bool) -> str:
            if projections not in found:
                url = servers.create("embedded", servers.template("embedded"))
                stack.callback(servers.drop, "embedded", url)
                found[projections] = stack.enter_context(_in_thread(url, projections=projections))
            return found[projections]

        yield shared


@contextmanager
def _in_thread(database_url: str, *, projections: bool) -> Iterator[str]:
    """Serve in a thread's own loop; return the address."""
    address: Future[str] = Future()
    over = threading.Event()

    async def serve() -> None:
        try:
            async with _served(database_url, projections=projections) as url:
                address.set_result(url)
                await asyncio.to_thread(over.wait)
        except BaseException as error:
            if not address.done():
                address.set_exception(error)
            raise

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(asyncio.run, serve())
        try:
            yield address.result()
        finally:
            over.set()
        serving.result()


@asynccontextmanager
async def _served(database_url: str, *, projections: bool) -> AsyncIterator[str]:
    async with serving(database_url, projections=projections, page_limit=100) as served:
        for name, value in (("patience", 0.01), ("keepalive", 0.05)):
            object.__setattr__(served.services, name, value)
        async with served.client() as client:
            await _furnish(client, "")
            await speak(client, "r1")
            if "chess" in installed():
                from .chess.games import FOOLS_MATE, mate, moved, new_game, started  # noqa: PLC0415 - where it is there

                moves = [moved(uci, 0.5 + n) for n, uci in enumerate(FOOLS_MATE)]
                await new_game(client, "g1", started(), *moves, mate(), experiment="trial")
        if not projections:
            await catch_up(served.services)
        yield served.url


@pytest.mark.slow
@pytest.mark.group("schemathesis")
@pytest.mark.parametrize("label", OPERATIONS)
def test_no_example_makes_the_service_fail(share: Callable[[bool], str], label: str, thorough: bool) -> None:
    """Requests made from the document, right and wrong ones, are all answered without a 5xx.

    The operations share a service, and those that work on projections another; who writes has a world to itself.
    """
    of_projections, reads = "/projections" in label, label.startswith("GET ")
    url, suffix = share(of_projections), ""
    if not (of_projections or reads):
        suffix = f"-{next(_numbers)}"
        asyncio.run(_furnished(url, suffix))
    _try(label, url, MANY if thorough else FEW_OF_READS if reads else FEW, suffix)
