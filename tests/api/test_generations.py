"""Generations over HTTP: begun, cancelled by what happens or by hand, and finished."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio
from worldledger_service.api import generations
from worldledger_service.runtime import Orchestrator

from tests.waiting import wait_for

from .helpers import WorldClient, problem, serving, started
from .living import INTENTS, intent, of, settle, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

GENERATIONS = of("alice", "generations")


@pytest_asyncio.fixture(loop_scope="module")
async def town(client: WorldClient) -> WorldClient:
    """Return a client of a world in which a view is stale as soon as there is another; alice and bob live in it."""
    return await settle(client, staleness_threshold=0)


async def _kinds(client: WorldClient, kinds: int = 0) -> list[dict[str, Any]]:
    """Return the effects about generations, once there are so many: they follow what they tell of."""
    for _ in range(1000):
        effects = (await client.get("effects?limit=1000")).json()["effects"]
        found = [effect for effect in effects if effect["kind"].startswith("Generation")]
        if len(found) >= kinds:
            break
        await asyncio.sleep(0.01)
    return found


async def test_a_generation_begins(town: WorldClient) -> None:
    """It is answered with its view, the latest unless one is named, and an effect follows."""
    response = await town.post(GENERATIONS, json={"req_id": "g/1"})
    assert response.status_code == 201
    assert response.headers["location"] == town.path(of("alice", "generations", "g/1"))
    begun = {"agent_id": "alice", "req_id": "g/1", "context_seq": 2, "cancelled": False, "reason": None}
    assert response.json() == begun
    assert (await town.get(response.headers["location"])).json() == begun
    (started,) = await _kinds(town, 1)
    assert started["kind"] == "GenerationStarted"
    assert started["payload"]["req_id"] == "g/1"
    assert started["payload"]["context_seq"] == 2


async def test_it_is_in_the_log_once_it_is_answered(town: WorldClient) -> None:
    """Whoever is told of a generation finds its beginning in the log, and so does every process."""
    for n in range(5):
        await town.post(GENERATIONS, json={"req_id": f"g{n}"})
        effects = (await town.get("effects?kind=GenerationStarted")).json()["effects"]
        assert [effect["payload"]["req_id"] for effect in effects] == [f"g{each}" for each in range(n + 1)]


async def test_an_outbox_that_is_stuck_is_not_waited_for_long(
    town: WorldClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the beginning cannot be written in time the generation is answered all the same."""
    asked: list[float | None] = []

    async def flush(self: Orchestrator, timeout: float | None = None) -> None:
        asked.append(timeout)

    monkeypatch.setattr(Orchestrator, "flush", flush)
    assert (await town.post(GENERATIONS, json={"req_id": "g"})).status_code == 201
    assert asked == [2.0]


async def test_a_generation_begins_once(town: WorldClient) -> None:
    """The same again is the same generation; from another view it is refused."""
    assert (await town.post(GENERATIONS, json={"req_id": "g", "context_seq": 2})).status_code == 201
    assert (await town.post(GENERATIONS, json={"req_id": "g", "context_seq": 2})).status_code == 200
    problem(await town.post(GENERATIONS, json={"req_id": "g", "context_seq": 1}), 422, "request_conflict", req_id="g")


async def test_what_the_agent_observes_cancels_it(town: WorldClient) -> None:
    """An effect that the agent may observe makes its view stale; whoever waits is told at once, with the reason."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    waiting = asyncio.create_task(town.get(generation, params={"wait": 30}))
    await asyncio.sleep(0)
    seq = await speak(town, "r1", "bob", context_seq=3)
    found = (await waiting).json()
    assert (found["cancelled"], found["reason"]) == (True, f"stale_due_to_effect_{seq}")
    started, cancelled = await _kinds(town, 2)
    assert (started["kind"], cancelled["kind"]) == ("GenerationStarted", "GenerationCancelled")
    assert cancelled["payload"]["reason"] == found["reason"]
    assert cancelled["payload"]["latency_ms"] >= 0


async def test_a_stale_view_is_no_beginning(town: WorldClient) -> None:
    """A generation from a view that is stale already is cancelled when it begins."""
    seq = await speak(town, "r1", "bob", context_seq=3)
    view = (await town.get(of("alice", "observations"), params={"after": 2, "wait": 30})).json()
    assert view["view_seq"] == seq
    found = (await town.post(GENERATIONS, json={"req_id": "g", "context_seq": 2})).json()
    assert (found["cancelled"], found["reason"]) == (True, f"stale_due_to_effect_{seq}")


async def test_it_is_cancelled_by_hand(town: WorldClient) -> None:
    """A client may cancel its generation; doing so again changes nothing."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    for _ in range(2):
        found = await town.delete(generation)
        assert found.status_code == 200
        assert (found.json()["cancelled"], found.json()["reason"]) == (True, "user_requested")
    assert (await town.get(generation)).json() == found.json()
    assert [effect["kind"] for effect in await _kinds(town, 2)] == ["GenerationStarted", "GenerationCancelled"]


async def test_its_intent_ends_it(town: WorldClient) -> None:
    """The intent of a generation's req_id ends it; what comes later cancels nothing."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    seq = await speak(town, "g", context_seq=2)
    await speak(town, "r", "bob", context_seq=seq)
    assert (await town.get(generation)).json()["cancelled"] is False
    assert "GenerationFinished" in [effect["kind"] for effect in await _kinds(town, 2)]


async def test_it_may_end_without_an_intent(town: WorldClient) -> None:
    """A generation that led to nothing is finished; doing so again changes nothing, and it cannot be cancelled then."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    for _ in range(2):
        ended = await town.post(f"{generation}/finish")
        assert (ended.status_code, ended.content) == (204, b"")
    problem(await town.delete(generation), 404, "unknown_generation", req_id="g")


async def test_waiting_ends_without_an_answer(town: WorldClient) -> None:
    """Whoever waits for a cancellation that does not come is answered when the time is over."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    assert (await town.get(generation, params={"wait": 0.01})).json()["cancelled"] is False
    for wait in ("31", "-1", "nan", "soon", "1e9"):
        problem(await town.get(generation, params={"wait": wait}), 422, "invalid_parameter", parameter="wait")


async def test_waiting_ends_with_the_service(own_url: str) -> None:
    """A stopping service answers those who wait."""
    async with serving(own_url) as served, served.client() as client:
        await settle(client)
        generation = (await client.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
        waiting = asyncio.create_task(client.get(generation, params={"wait": 30}))
        await wait_for(lambda: "wait_cancelled" in str(asyncio.all_tasks()), "somebody waits")
        await served.stop()
        assert (await waiting).json()["req_id"] == "g"


async def test_what_is_no_generation_is_refused(town: WorldClient) -> None:
    """Refusals name the place of what is wrong; a generation that nobody began is 404."""
    for body, path in (
        ({}, "$.req_id"),
        ({"req_id": ""}, "$.req_id"),
        ({"req_id": 1}, "$.req_id"),
        ({"req_id": "g", "context_seq": "2"}, "$.context_seq"),
        ({"req_id": "g", "context_seq": -1}, "$.context_seq"),
        ({"req_id": "g", "context_seq": True}, "$.context_seq"),
        ({"req_id": "g", "why": "so"}, "$.why"),
        ([], "$"),
    ):
        problem(await town.post(GENERATIONS, json=body), 422, "invalid_effect", path=path)
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/finish")):
        response = await town.request(method, f"{GENERATIONS}/nothing{path}")
        problem(response, 404, "unknown_generation", req_id="nothing", agent_id="alice")


async def test_a_view_of_the_future_means_the_present_one(town: WorldClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context_seq that the world has not come to, after a moment, is the agent's latest view."""
    monkeypatch.setattr(generations, "PATIENCE", 0.05)
    response = await town.post(GENERATIONS, json={"req_id": "g", "context_seq": 99})
    assert response.status_code == 201
    assert response.json()["context_seq"] == (await town.get(of("alice", "view"))).json()["view_seq"]


async def test_pages_of_other_sites_cancel_nothing(town: WorldClient) -> None:
    """Requests without a body that a page of another site made are refused."""
    generation = (await town.post(GENERATIONS, json={"req_id": "g"})).headers["location"]
    foreign = {"Origin": "https://example.org"}
    problem(await town.delete(generation, headers=foreign), 403, "origin_refused")
    problem(await town.post(f"{generation}/finish", headers=foreign), 403, "origin_refused")
    assert (await town.get(generation)).json()["cancelled"] is False


async def test_cancelled_generations_are_counted(own_url: str) -> None:
    """The metrics tell how many generations run, and how many were cancelled, each once."""
    async with started(own_url) as client:
        await settle(client)
        for n in range(3):
            await client.post(GENERATIONS, json={"req_id": f"g{n}"})
        await client.delete(f"{GENERATIONS}/g0")
        await client.delete(f"{GENERATIONS}/g1")
        for _ in range(2):
            lines = (await client.get("/metrics")).text.splitlines()
            assert "worldledger_generations_cancelled_total 2.0" in lines
            assert "worldledger_memory_live_tokens 1.0" in lines


async def test_an_intent_finds_its_view_stale(town: WorldClient) -> None:
    """What a cancelled generation would have said is refused as stale, and says what to do."""
    seq = await speak(town, "r1", "bob", context_seq=3)
    assert (await town.get(of("alice", "view"))).json()["view_seq"] == seq
    response = await town.post(INTENTS, json=intent("g", 2))
    problem(response, 409, "stale_context", recovery="regenerate", expected_seq=seq)
