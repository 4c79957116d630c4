"""The whole OpenAPI document, tried with whatever it allows and with what it does not: nothing answers with a 5xx."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import httpx2
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

from .chess import FOOLS_MATE, catch_up, mate, moved, new_game, started
from .helpers import serving
from .living import new_world, of, register, speak

if TYPE_CHECKING:
    from tests.conftest import Servers

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_DOCUMENT: Final = create_app(Settings(), "postgresql://nobody@localhost/nothing").openapi()
OPERATIONS: Final = sorted(
    f"{method.upper()} {path}" for path, item in _DOCUMENT["paths"].items() for method in _METHODS if method in item
)
#: Examples of each operation: with --thorough, and without.
MANY, FEW = 60, 8
#: What is there, so that a path does not always lead to nothing.
_THERE: Final = {
    "world": "town",
    "agent_id": "alice",
    "req_id": "g1",
    "game_id": "g1",
    "seq": 2,
    "name": "games",
    "round_number": 1,
}


def _cases(operation: Any) -> st.SearchStrategy[Case[Any]]:
    """Return cases that the document allows, with names of what is there or not, and cases that it forbids."""
    named = {each.name for each in operation.path_parameters}
    there = {name: value for name, value in _THERE.items() if name in named}
    if "game_id" in there and operation.method == "post":
        there["game_id"] = "live"
    if operation.tags == ["rounds"]:
        there["world"] = "run"
    found = [operation.as_strategy(path_parameters=there), operation.as_strategy()]
    if operation.path_parameters or operation.query or operation.headers or operation.body:
        found.append(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    return st.one_of(found)


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


def _try(label: str, url: str, examples: int) -> None:
    """Try an operation with so many examples; an answer need only begin, as some have no end."""
    schema = schemathesis.openapi.from_dict(_DOCUMENT)
    method, path = label.split()
    operation = schema[path][method]
    tried = 0

    with requests.Session() as session:

        @hypothesis.settings(
            max_examples=examples, database=None, deadline=None, suppress_health_check=list(HealthCheck)
        )
        @hypothesis.seed(4)
        @given(case=_cases(operation))
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


@pytest.fixture(scope="module")
def filled(servers: Servers) -> Iterator[str]:
    """Make the name of a database with worlds, agents, games and runs in it, which each test clones."""
    url = servers.create("embedded", servers.template("embedded"))
    asyncio.run(_fill(url))
    yield urlsplit(url).path[1:]
    servers.drop("embedded", url)


async def _fill(url: str) -> None:
    async with serving(url, projections=False) as served:
        async with httpx2.AsyncClient(base_url=served.url, timeout=60) as client:
            await new_world(client)
            await register(client, "alice", "bob")
            await speak(client, "r1")
            await client.post(of("alice", "generations"), json={"req_id": "g1"})
            moves = [moved(uci, 0.5 + n) for n, uci in enumerate(FOOLS_MATE)]
            await new_game(client, "g1", started(), *moves, mate(), experiment="trial")
            await client.post("/v1/worlds", json={"world_id": "run", "ruleset": "social_rl"})
            await client.post("/v1/worlds/run/rounds", json=round_of(1))
            live = {"game_id": "live", "white": {"agent_id": "alice"}, "black": {"agent_id": "bob"}}
            await client.post("/v1/games", json={**live, "max_illegal": 1000})
        await catch_up(served.services)


@pytest.fixture(scope="module")
def share(servers: Servers, filled: str) -> Iterator[Callable[[bool], str]]:
    """Return a function that gives the address of a service that many tests share, with projections fed or not."""
    found: dict[bool, str] = {}
    with ExitStack() as stack:

        def shared(projections: bool) -> str:
            if projections not in found:
                url = servers.create("embedded", filled)
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
        async with httpx2.AsyncClient(base_url=served.url, timeout=60) as client:  # it lives only where it was begun
            await client.post(of("alice", "generations"), json={"req_id": "g1"})
        yield served.url


@pytest.mark.slow
@pytest.mark.parametrize("label", OPERATIONS)
def test_no_example_makes_the_service_fail(
    servers: Servers, filled: str, share: Callable[[bool], str], label: str, thorough: bool
) -> None:
    """Requests made from the document, right and wrong ones, are all answered without a 5xx.

    Operations that only read share a service, and so do those that work on projections.
    """
    examples = MANY if thorough else FEW
    of_projections = "/projections" in label
    if of_projections or label.startswith("GET "):
        _try(label, share(of_projections), examples)
        return
    database_url = servers.create("embedded", filled)
    try:
        with _in_thread(database_url, projections=False) as url:
            _try(label, url, examples)
    finally:
        servers.drop("embedded", database_url)
