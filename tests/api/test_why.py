"""What an effect came of, and what came of it, over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from .helpers import WorldClient, draft, problem
from .living import INTENTS, intent, of, settle, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "effects"


@pytest_asyncio.fixture(loop_scope="module")
async def town(client: WorldClient) -> WorldClient:
    """Return a client of a world that records refusals, in which alice and bob live (effects 2 and 3)."""
    return await settle(client, record_rejections=True)


async def why(client: WorldClient, seq: int, query: str = "") -> dict[str, Any]:
    """Ask why."""
    response = await client.get(f"{PATH}/{seq}/why{query}")
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


def effect(found: dict[str, Any], seq: int) -> dict[str, Any]:
    """Return an effect of an answer."""
    (it,) = (each for each in found["effects"] if each["global_seq"] == seq)
    return dict(it)


def links(found: dict[str, Any], seq: int) -> list[tuple[str, int, list[str]]]:
    """Return an effect's links."""
    return [(link["kind"], link["global_seq"], link["entities"]) for link in effect(found, seq)["links"]]


async def test_the_way_back_to_what_an_agent_had_seen(town: WorldClient) -> None:
    """From an intent's effect to its generation, its refusal, and the effects that made the view that it came of."""
    shops = [("shop", {"figs": 3}), ("gate", {"open": False}), ("bob", {"coins": 9})]
    for name, data in shops:
        made = draft(kind="EntityCreated", payload={"entity_id": name, "entity_data": data})
        assert (await town.post(PATH, json=made)).status_code == 201
    said = await speak(town, "a1")
    while (await town.get(of("bob", "view"))).json()["view_seq"] < said:
        await asyncio.sleep(0.01)
    begun = await town.post(of("bob", "generations"), json={"req_id": "b1"})
    assert begun.status_code == 201
    context_seq = begun.json()["context_seq"]
    assert context_seq == said
    there = {"kind": "Interact", "payload": {"target_id": "gate"}}
    again = {"kind": "Custom", "payload": {"kind": "EntityCreated", "entity_id": "gate", "entity_data": {}}}
    refused = await town.post(INTENTS, json=intent("b1", context_seq, "bob", **again))
    assert refused.status_code == 422, refused.text

    accepted = (await town.post(INTENTS, json=intent("b1", context_seq, "bob", **there))).json()["global_seq"]
    started, rejected = said + 1, said + 2
    found = await why(town, accepted)
    assert {key: found[key] for key in ("world_id", "global_seq", "direction", "depth", "notes")} == {
        "world_id": town.world,
        "global_seq": accepted,
        "direction": "back",
        "depth": 5,
        "notes": [],
    }
    root = effect(found, accepted)
    assert (root["depth"], root["kind"], root["source_id"]) == (0, "Interact", "bob")
    assert root["context"] == {"agent_id": "bob", "view_seq": said}
    assert [link[:2] for link in links(found, accepted)[:2]] == [("request", rejected), ("request", started)]
    context = [link for link in links(found, accepted) if link[0] == "context"]
    assert [link[1] for link in context] == [said, 6, 5]
    assert [set(link[2]) >= {name} for link, name in zip(context, ("alice", "bob", "gate"), strict=True)] == [True] * 3
    assert root["left_out"] == {"context": 1}
    assert effect(found, rejected)["refused"]["code"] == "illegal_effect"
    assert effect(found, started)["kind"] == "GenerationStarted"
    assert effect(found, started)["context"] == {"agent_id": "bob", "view_seq": said}


async def test_a_cancelled_generation_names_what_made_it_stale(client: WorldClient) -> None:
    """The effect that an agent was shown, and that cancelled its generation, is its told cause."""
    await settle(client, staleness_threshold=0)
    await client.post(of("bob", "generations"), json={"req_id": "b1"})
    said = await speak(client, "a1", context_seq=3)

    cancelled: list[int] = []
    for _ in range(1000):
        page = (await client.get(f"{PATH}?kind=GenerationCancelled")).json()
        if cancelled := [each["global_seq"] for each in page["effects"]]:
            break
        await asyncio.sleep(0.01)
    (seq,) = cancelled
    found = await why(client, seq)
    assert ("told", said, []) in links(found, seq)
    assert effect(found, seq)["refused"] == {"code": None, "reason": f"stale_due_to_effect_{said}"}
    forward = await why(client, said, "?direction=forward")
    assert ("told", seq, []) in links(forward, said)


async def test_what_came_of_an_effect(client: WorldClient, world: str) -> None:
    """Forward, the effects that name it are followed, and those that name them."""
    drafts = [draft(0), draft(1, caused_by=2), draft(2, caused_by=3), draft(3)]
    assert (await client.post(PATH, json=drafts)).status_code == 201
    found = await why(client, 2, "?direction=forward")
    assert [each["global_seq"] for each in found["effects"]] == [2, 3, 4]
    assert links(found, 2) == [("told", 3, [])]
    assert (found["head_seq"], found["told_to_seq"]) == (5, 5)
    shallow = await why(client, 2, "?direction=forward&depth=1")
    assert [(each["global_seq"], each["is_expanded"]) for each in shallow["effects"]] == [(2, True), (3, False)]
    alone = await why(client, 2, "?direction=forward&depth=0")
    assert [each["global_seq"] for each in alone["effects"]] == [2]


async def test_what_came_of_an_effect_before_a_fork_point(client: WorldClient, world: str) -> None:
    """`parent:SEQ` names an effect of before the fork point; forward goes on in the fork, and in the parent not."""
    assert (await client.post(PATH, json=[draft(0), draft(1, caused_by=2), draft(2)])).status_code == 201
    made = await client.post("/v1/worlds", json={"world_id": "fork", "fork_of": {"world_id": world, "at": "3"}})
    assert made.status_code == 201
    named = {"inherited_cause": {"world_id": world, "global_seq": 2}}
    said = draft(9, caused_by=1, source_metadata=named)
    assert (await client.post("/v1/worlds/fork/effects", json=said)).status_code == 201
    path = "/v1/worlds/fork/effects/parent:2/why"
    found = (await client.get(f"{path}?direction=forward&depth=1")).json()
    assert [(each["world_id"], each["global_seq"]) for each in found["effects"]] == [
        (world, 2),
        (world, 3),
        ("fork", 3),
    ]
    link = found["effects"][0]["links"][1]
    assert link == {"kind": "told", "world_id": "fork", "global_seq": 3, "checksum": link["checksum"], "entities": []}
    assert link["checksum"] == found["effects"][2]["checksum"]
    assert (found["head_seq"], found["forks"]) == (
        3,
        [{"world_id": "fork", "head_seq": 3, "to_seq": 3, "told_to_seq": 3}],
    )
    back = (await client.get("/v1/worlds/fork/effects/3/why?depth=1")).json()
    assert [(each["world_id"], each["global_seq"]) for each in back["effects"]] == [("fork", 3), (world, 2)]
    assert back["forks"] == []
    assert [each["global_seq"] for each in (await why(client, 2, "?direction=forward"))["effects"]] == [2, 3]
    gone = await client.get("/v1/worlds/fork/effects/parent:4/why")
    problem(gone, 404, "moment_not_found", world_id=world, global_seq=4, fork_point=3)
    problem(await client.get(f"{PATH}/parent:1/why"), 404, "moment_not_found")


async def test_bounds(client: WorldClient, world: str) -> None:
    """Width, limit and window are kept; what is left out is counted by kind."""
    drafts = [draft(0), *(draft(n, caused_by=2) for n in range(9))]
    assert (await client.post(PATH, json=drafts)).status_code == 201
    found = await why(client, 2, "?direction=forward&width=4&limit=3&window=2")
    assert [each["global_seq"] for each in found["effects"]] == [2, 3, 4]
    assert effect(found, 2)["left_out"] == {"told": 7}
    assert (found["from_seq"], found["to_seq"]) == (2, 4)


async def test_what_is_not_there(client: WorldClient, world: str) -> None:
    """A world or an effect that is not there is 404, and the problem names the head."""
    problem(await client.get("/v1/worlds/nowhere/effects/1/why"), 404, "world_not_found")
    problem(await client.get(f"{PATH}/2/why"), 404, "effect_not_found", head_seq=1)


async def test_a_wrong_parameter_is_named(client: WorldClient, world: str) -> None:
    """A parameter out of bounds, given twice or misspelt is 422, and named; so is what is no seq."""
    for query in (
        "direction=sideways",
        "depth=-1",
        "depth=101",
        "depth=x",
        "width=0",
        "limit=0",
        "limit=10001",
        "window=0",
        "window=20001",
        "window=1&window=2",
        "dept=3",
    ):
        name = query.partition("=")[0]
        problem(await client.get(f"{PATH}/1/why?{query}"), 422, "invalid_parameter", parameter=name)
    for seq in ("0", "-1", "x", "1.0", "9007199254740992", "parent:", "parent:0", "parent:head", "1:parent"):
        found = problem(await client.get(f"{PATH}/{seq}/why"), 422, "invalid_parameter", parameter="seq")
        limits = "must be a whole number from 1 to 9007199254740991"
        assert found["detail"] == f"seq: {limits}, or parent: and one for an effect of the parent"
