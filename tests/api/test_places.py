"""Places and private messages over HTTP and the WebSocket: what an agent is told, wherever it looks."""

from __future__ import annotations

import pytest

from .helpers import Served, WorldClient, draft, problem
from .living import AGENTS, INTENTS, intent, of, register, socket_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

EFFECTS = "effects"


async def test_what_happens_far_away_reaches_nobody(served: Served, inhabited: WorldClient) -> None:
    """No delta, no event of the past, no cancelled generation; what happens nearby reaches all of them."""
    await register(inhabited, "alice", policy={"name": "default", "config": {"distance_limit": 50}})
    alice = {"entity_id": "alice", "entity_data": {}, "position": [0, 0]}
    await inhabited.post(EFFECTS, json=draft(kind="EntityCreated", payload=alice))
    async with socket_of(served) as opened:
        await opened.receive("view")
        await opened.send("generation", req_id="g")
        await opened.receive("generation")
        far = await inhabited.post(EFFECTS, json=draft(kind="Explosion", payload={"position": [1000, 0, 0]}))
        assert far.status_code == 201
        near = await inhabited.post(EFFECTS, json=draft(kind="Explosion", payload={"position": [9, 0]}))
        delta = (await opened.receive("observation"))["delta"]
        assert delta["view_seq"] == near.json()["global_seq"]
        assert [event["payload"] for event in delta["events"]] == [{"position": [9, 0]}]
        told = await inhabited.get(of("alice", "generations", "g"))
        assert told.json()["cancelled"] is False  # views age without harm here; the far one is not even seen
    events = (await inhabited.get(of("alice", "events"))).json()["events"]
    assert [event["payload"] for event in events if event["kind"] == "Explosion"] == [{"position": [9, 0]}]


async def test_a_private_message_is_seen_by_two(served: Served, inhabited: WorldClient) -> None:
    """In deltas, views and events of the past; the operator's log has it whole."""
    await register(inhabited, "carol")
    payload = {"text": "psst", "private": True, "target_id": "bob"}
    views = {name: (await inhabited.get(of(name, "view"))).json() for name in ("alice", "bob", "carol")}
    async with socket_of(served, "bob") as bob, socket_of(served, "carol") as carol:
        said = await inhabited.post(INTENTS, json=intent("r1", payload=payload))
        assert said.status_code == 201, said.text
        (event,) = (await bob.receive("observation"))["delta"]["events"]
        assert event["payload"]["text"] == "psst"
        await inhabited.post(EFFECTS, json=draft())
        heard = (await carol.receive("observation"))["delta"]
        assert [event["kind"] for event in heard["events"]] == ["Said"]
    for name, count in (("alice", 1), ("bob", 1), ("carol", 0)):
        events = (await inhabited.get(of(name, "events"), params={"kind": "Speak"})).json()["events"]
        assert len(events) == count
        view = (await inhabited.get(of(name, "view"))).json()
        assert view["visible_entities"] == views[name]["visible_entities"]
    log = (await inhabited.get(f"{EFFECTS}/{said.json()['global_seq']}")).json()
    assert log["payload"] == {**payload, "audience": ["alice", "bob"]}
    again = await inhabited.post(INTENTS, json=intent("r1", payload=payload))
    assert again.headers["idempotency-replayed"] == "true"


async def test_a_private_message_says_whom_it_is_for(inhabited: WorldClient) -> None:
    """Without a target it would be for everybody, so it is refused."""
    for fields in ({"private": True}, {"private": "yes", "target_id": "bob"}):
        refused = await inhabited.post(INTENTS, json=intent("r1", payload={"text": "psst", **fields}))
        problem(refused, 422, "invalid_intent")


async def test_a_cone_is_registered_over_http(inhabited: WorldClient) -> None:
    """The setting comes back as it was sent, every default written out; nonsense is refused with its path."""
    cone = {"angle": 90.0, "range": None, "direction": [1.0, 0.0]}
    found = await register(inhabited, "eve", policy={"name": "default", "config": {"view_cone": cone}})
    assert found["policy"]["version"] == 2
    assert found["policy"]["config"]["view_cone"] == cone
    body = {"agent_id": "eve", "policy": {"name": "default", "config": {"view_cone": {"angle": 900}}}}
    refused = problem(await inhabited.post(AGENTS, json=body), 422, "invalid_policy")
    assert refused["path"] == "$.policy.config.view_cone.angle"
