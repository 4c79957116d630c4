"""What a model's generation used over HTTP, and the lease of an agent: each an effect."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from .helpers import WorldClient, problem
from .living import new_world, of, register

pytestmark = pytest.mark.asyncio(loop_scope="module")

REPORT = of("alice", "generations", "g", "report")
LEASE = of("alice", "lease")


@pytest_asyncio.fixture(loop_scope="module")
async def town(client: WorldClient) -> WorldClient:
    """Return a client of a world in which alice lives."""
    await new_world(client)
    await register(client, "alice")
    return client


async def _effects(client: httpx2.AsyncClient, kind: str) -> list[dict[str, Any]]:
    found = (await client.get("effects", params={"kind": kind, "limit": 1000})).json()["effects"]
    return list(found)


async def test_a_generation_says_by_what_it_is_made(town: WorldClient) -> None:
    """What is said of the model stands in the effect that begins it; too much of it is refused."""
    model = {"name": "tiny", "parameters": {"temperature": 0.5}, "seed": 7}
    assert (await town.post(of("alice", "generations"), json={"req_id": "g", "model": model})).status_code == 201
    (started,) = await _effects(town, "GenerationStarted")
    assert started["payload"]["model"] == model
    large = {"req_id": "h", "model": {"name": "x" * 20_000}}
    problem(await town.post(of("alice", "generations"), json=large), 422, "invalid_intent", path="$.model")


async def test_a_report_ends_its_generation(town: WorldClient) -> None:
    """The report is durable when it is answered, after its texts and after the end that it tells of."""
    await town.post(of("alice", "generations"), json={"req_id": "g"})
    texts = [{"part": "prompt", "text": "Well?", "salt": "s"}, {"part": "output", "text": "No."}]
    report = {"outcome": "acted", "tokens_in": 3, "tokens_out": 1, "price": 0.5, "currency": "EUR", "texts": texts}
    answer = await town.post(REPORT, json=report)
    assert (answer.status_code, answer.json()["replayed"]) == (201, False)
    effects = (await town.get("effects?limit=1000")).json()["effects"][-4:]
    assert [effect["kind"] for effect in effects] == [
        "GenerationFinished",
        "GenerationText",
        "GenerationText",
        "GenerationReported",
    ]
    whose = {"agent_id": "alice", "req_id": "g"}
    assert effects[1]["payload"] == {**texts[0], **whose}
    assert effects[3]["payload"] == {
        "outcome": "acted", "tokens_in": 3, "tokens_out": 1, "price": 0.5, "currency": "EUR", **whose,
    }  # fmt: skip
    assert effects[3]["global_seq"] == answer.json()["global_seq"]


async def test_a_generation_has_one_report(town: WorldClient) -> None:
    """The same again is the same effect; another one is refused."""
    report = {"outcome": "silent", "texts": [{"part": "output", "text": ""}]}
    first = await town.post(REPORT, json=report)
    again = await town.post(REPORT, json=report)
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == {**first.json(), "replayed": True}
    problem(await town.post(REPORT, json={"outcome": "acted"}), 422, "request_conflict")


async def test_a_lost_generation_is_cancelled(town: WorldClient) -> None:
    """A generation whose program has gone does not go on."""
    generation = (await town.post(of("alice", "generations"), json={"req_id": "g"})).headers["location"]
    assert (await town.post(REPORT, json={"outcome": "lost"})).status_code == 201
    found = (await town.get(generation)).json()
    assert (found["cancelled"], found["reason"]) == (True, "lost")


@pytest.mark.parametrize(
    ("part", "path", "known"),
    [
        (
            {"texts": [{"part": "output", "text": ""}, {"part": "output", "text": "", "odd": 1}]},
            "texts[1]",
            "calls, part",
        ),
        ({"intents": [{"kind": "Speak", "odd": 1}]}, "intents[0]", "code, global_seq"),
        ({"error": {"code": "c", "message": "m", "odd": 1}}, "error", "code, message"),
    ],
)
async def test_an_unknown_field_of_a_part_is_named(
    town: WorldClient, part: dict[str, Any], path: str, known: str
) -> None:
    """With those that the part has, also within a list."""
    refused = problem(await town.post(REPORT, json={"outcome": "acted", **part}), 422, "invalid_effect")
    assert refused["path"] == f"$.{path}.odd"
    assert f"unknown field; {path} has {known}" in refused["detail"]


@pytest.mark.parametrize(
    "report", [{}, {"outcome": "odd"}, {"outcome": "acted", "tokens_out": -1}, {"outcome": "acted", "more": 1}]
)
async def test_a_report_that_says_something_else_is_refused(town: WorldClient, report: dict[str, Any]) -> None:
    """Its members are those that are documented."""
    problem(await town.post(REPORT, json=report), 422, "invalid_effect")
    assert await _effects(town, "GenerationReported") == []


async def test_nobody_observes_what_models_used(town: WorldClient) -> None:
    """Texts and reports are for who reads the log: no agent is shown them, and they interrupt none."""
    await register(town, "bob")
    await town.post(REPORT, json={"outcome": "acted", "texts": [{"part": "output", "text": "a secret"}]})
    await town.post(LEASE, json={"holder": "here", "seconds": 60})
    assert (await town.get(of("bob", "events"))).json()["events"] == []


async def test_an_agent_is_leased_to_one_program(town: WorldClient) -> None:
    """Another one is refused until the lease is given back or known to be of a program that has ended."""
    first = await town.post(LEASE, json={"holder": "here", "seconds": 60})
    assert (first.status_code, first.json()["holder"], first.json()["number"]) == (200, "here", 1)
    refused = problem(await town.post(LEASE, json={"holder": "there", "seconds": 60}), 409, "agent_leased")
    assert (refused["holder"], refused["agent_id"]) == ("here", "alice")
    assert 0 < refused["retry_after_s"] <= 60
    renewed = await town.post(LEASE, json={"holder": "here", "seconds": 60})
    assert renewed.json()["number"] == 2
    taken = await town.post(LEASE, json={"holder": "there", "seconds": 60, "instead_of": "here"})
    assert (taken.json()["holder"], taken.json()["number"]) == ("there", 3)
    given = await town.post(LEASE, json={"holder": "there", "seconds": 0})
    assert given.json()["until"] == 0
    again = await town.post(LEASE, json={"holder": "here", "seconds": 60})
    assert again.json()["number"] == 5
    assert len(await _effects(town, "GenerationLeased")) == 5


async def test_of_many_programs_one_gets_the_agent(town: WorldClient) -> None:
    """Where several ask at the same time, all but one are refused."""
    asking = (town.post(LEASE, json={"holder": f"p{n}", "seconds": 60}) for n in range(8))
    answers = await asyncio.gather(*asking)
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    assert len(await _effects(town, "GenerationLeased")) == 1


async def test_a_lease_ends_by_itself(town: WorldClient) -> None:
    """When its time is over another program may have the agent."""
    await town.post(LEASE, json={"holder": "here", "seconds": 0.001})
    await asyncio.sleep(0.01)
    assert (await town.post(LEASE, json={"holder": "there", "seconds": 60})).json()["holder"] == "there"


async def test_an_agent_that_is_not_there_has_neither(town: WorldClient) -> None:
    """Both need a registered agent."""
    problem(await town.post(of("zoe", "lease"), json={"holder": "here", "seconds": 1}), 404, "unknown_agent")
    lost = await town.post(of("zoe", "generations", "g", "report"), json={"outcome": "lost"})
    problem(lost, 404, "unknown_agent")
