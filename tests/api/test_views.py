"""Views over HTTP: what an agent sees, now and then."""

from __future__ import annotations

import pytest

from worldledger.observation import View

from .helpers import WorldClient, draft, problem
from .living import INTENTS, intent, new_world, of, register, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

EFFECTS = "effects"


async def test_a_view_is_what_the_policy_shows(client: WorldClient) -> None:
    """An agent sees what lies within its distance, less the fields that are hidden; the digest covers just that."""
    await new_world(client)
    policy = {"name": "default", "config": {"distance_limit": 5, "field_visibility": {"gold": False}}}
    await register(client, "alice", policy=policy)
    for name, x in (("alice", 0.0), ("tree", 3.0), ("tower", 50.0)):
        entity = {"entity_id": name, "entity_data": {"gold": 7}, "position": [x, 0.0, 0.0]}
        await client.post(EFFECTS, json=draft(kind="EntityCreated", payload=entity))
    await client.post(EFFECTS, json=draft())
    found = (await client.get(of("alice", "view"))).json()
    assert set(found["visible_entities"]) == {"alice", "tree"}
    assert found["visible_entities"]["tree"] == {"position": [3.0, 0.0, 0.0]}
    again = View.of("alice", found["view_seq"], found["visible_entities"], found["visible_relationships"])
    assert found == again.model_dump()


async def test_a_view_is_the_agent_s_own(client: WorldClient) -> None:
    """A view is kept by the client alone, and is not sent again while it is the same."""
    await new_world(client)
    await register(client, "alice")
    first = await client.get(of("alice", "view"))
    assert first.headers["cache-control"] == "private, no-cache"
    tag = first.headers["etag"]
    assert tag == f'"2:{first.json()["context_digest"][:16]}"'
    same = await client.get(of("alice", "view"), headers={"If-None-Match": tag})
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    await speak(client, "r1")
    other = await client.get(of("alice", "view"), headers={"If-None-Match": tag})
    assert (other.status_code, other.json()["view_seq"]) == (200, 3)
    assert (await client.head(of("alice", "view"))).headers["etag"] == other.headers["etag"]


async def test_a_view_of_the_past_stays_what_it_was(client: WorldClient) -> None:
    """With at_seq the view is the one of then, also of before the agent's last registration."""
    await new_world(client)
    await register(client, "alice")
    views = {2: (await client.get(of("alice", "view"))).json()}
    for n in range(5):
        seq = await speak(client, f"r{n}")
        views[seq] = (await client.get(of("alice", "view"))).json()
    await register(client, "alice", policy={"name": "default", "config": {"field_visibility": {"*": False}}})
    for seq, view in views.items():
        assert view["view_seq"] == seq
        assert (await client.get(of("alice", "view"), params={"at_seq": seq})).json() == view
    now = (await client.get(of("alice", "view"))).json()
    assert now["visible_entities"] == {"alice": {}}


async def test_the_same_view_has_the_same_tag(client: WorldClient) -> None:
    """Asked for by whichever seq, a view has the view_seq and the ETag of the observation that made it."""
    await new_world(client)
    await client.post(EFFECTS, json=draft(0))
    await register(client, "alice")
    await speak(client, "r1")
    unseen = [{**draft(n), "kind": "SimTick", "payload": {"agent_id": "somebody-else"}} for n in range(3)]
    await register(client, "bob", policy={"name": "default", "config": {"relationship_filter": ["friend"]}})
    await client.post(EFFECTS, json=unseen)
    head = (await client.get("")).json()["head_seq"]
    for agent_id in ("alice", "bob"):
        deltas = (await client.get(of(agent_id, "observations"), params={"after": 0})).json()["deltas"]
        known = (await client.get(of(agent_id))).json()["registered_seq"]
        made = [delta["view_seq"] for delta in deltas]
        assert made[0] == known
        tags = {}
        for seq in range(known, head + 1):
            found = await client.get(of(agent_id, "view"), params={"at_seq": seq})
            assert found.json()["view_seq"] == max(each for each in made if each <= seq)
            tags[seq] = found.headers["etag"]
            assert tags[seq] == tags[found.json()["view_seq"]]
        assert (await client.get(of(agent_id, "view"))).headers["etag"] == tags[head]
    assert made == [known] < [head]  # bob has seen nothing at all


async def test_a_moment_that_is_none_is_refused(client: WorldClient) -> None:
    """Beyond the head there is no view yet, before the registration there was none, and text is no moment."""
    await new_world(client)
    await client.post(EFFECTS, json=[draft(n) for n in range(3)])
    await register(client, "alice")
    view = of("alice", "view")
    problem(await client.get(view, params={"at_seq": 6}), 404, "moment_not_found", head_seq=5)
    problem(await client.get(view, params={"at_seq": 2**53 - 1}), 404, "moment_not_found", head_seq=5)
    problem(await client.get(view, params={"at_seq": 4}), 404, "unknown_agent", agent_id="alice")
    assert (await client.get(view, params={"at_seq": 5})).status_code == 200
    for text in ("0", "-1", "1.0", "now", "", "9" * 17):
        problem(await client.get(view, params={"at_seq": text}), 422, "invalid_parameter", parameter="at_seq")
    problem(await client.get(f"{view}?at_seq=1&at_seq=2"), 422, "invalid_parameter", parameter="at_seq")


async def test_what_an_agent_does_is_in_its_view(client: WorldClient) -> None:
    """Once an intent is answered, a view that is asked for at its seq has what it did."""
    await new_world(client)
    await register(client, "alice")
    for n in range(20):
        body = intent(f"r{n}", kind="Move", payload={"to": [n, n]})
        seq = (await client.post(INTENTS, json=body)).json()["global_seq"]
        found = (await client.get(of("alice", "view"), params={"at_seq": seq})).json()
        assert found["visible_entities"]["alice"]["position"] == [float(n), float(n), 0.0]
