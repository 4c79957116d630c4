"""Registering agents over HTTP: what is written, what is refused, who is found."""

from __future__ import annotations

from typing import Any

import pytest

from .helpers import JSON, WorldClient, problem, started
from .living import AGENTS, new_world, of, register, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Ids that a careless router would take for something else.
ODD = ("a/b", "a/view", "a b", "ä%2Fö", "a?b#c", '"', "..a", "agents", "é" * 200, "%", "a+b", "ws", "1")


async def test_a_registration_is_an_effect(client: WorldClient, world: str) -> None:
    """A new agent is answered with its policy as stored and its first view; the log tells of it."""
    policy = {"name": "default", "config": {"distance_limit": 50.0, "field_visibility": {"secret": False}}}
    response = await client.post(AGENTS, json={"agent_id": "alice", "policy": policy, "weight": 3})
    assert response.status_code == 201
    assert response.headers["location"] == client.path(of("alice"))
    found = response.json()
    assert (found["agent_id"], found["registered_seq"], found["view_seq"], found["weight"]) == ("alice", 2, 2, 3)
    assert found["policy"]["config"]["distance_limit"] == 50.0
    assert found["policy"]["version"] == 2
    assert "submit_intent" in found["permissions"]
    assert found["view"]["visible_entities"] == {}
    effect = (await client.get("effects/2")).json()
    assert (effect["kind"], effect["source_id"]) == ("AgentRegistered", "worldledger")
    assert effect["payload"]["policy"] == found["policy"]


async def test_the_same_again_writes_nothing(client: WorldClient, world: str) -> None:
    """A repetition is answered 200; a change is another effect, and the agent stays registered since its first."""
    body: dict[str, Any] = {"agent_id": "alice", "policy": {"name": "default"}, "permissions": ["submit_intent"]}
    assert (await client.post(AGENTS, json=body)).status_code == 201
    again = await client.post(AGENTS, json=body)
    assert again.status_code == 200
    assert (await client.get("")).json()["head_seq"] == 2
    changed = await client.post(AGENTS, json={**body, "permissions": ["intent:speak", "submit_intent"]})
    assert (changed.status_code, changed.json()["registered_seq"]) == (201, 2)
    assert changed.json()["permissions"] == ["intent:speak", "submit_intent"]
    assert (await client.get("")).json()["head_seq"] == 3


async def test_registrations_outlive_the_service(client: WorldClient, database_url: str) -> None:
    """Another service on the same database knows the agents, and what the first one writes a moment later."""
    here = client
    async with started(database_url) as there:
        there.world = here.world
        await new_world(here)
        for name in ("alice", "bob", "carol"):
            known = await register(here, name)
            found = await there.get(of(name))
            assert found.status_code == 200, found.text
            assert found.json().items() <= known.items()
            assert (await there.get(of(name, "view"))).json() == known["view"]


async def test_an_agent_may_be_called_anything(client: WorldClient, world: str, subtests: pytest.Subtests) -> None:
    """Whatever characters an id has, the agent is found under it, and so is what belongs to it."""
    for n, agent_id in enumerate(ODD, 1):
        with subtests.test(agent_id=agent_id[:20]):
            response = await client.post(AGENTS, json={"agent_id": agent_id})
            assert response.status_code == 201
            assert response.headers["location"] == client.path(of(agent_id))
            assert (await client.get(response.headers["location"])).json()["agent_id"] == agent_id
            assert (await client.get(of(agent_id, "view"))).json()["agent_id"] == agent_id
            assert (await client.get(of(agent_id, "observations"))).json()["deltas"] == []
            generation = await client.post(of(agent_id, "generations"), json={"req_id": agent_id})
            assert (await client.get(generation.headers["location"])).json()["req_id"] == agent_id
            listed = (await client.get(AGENTS)).json()["agents"]
            assert {each["agent_id"] for each in listed} == {*ODD[:n]}


_REFUSED: dict[str, tuple[Any, str, str]] = {
    "no object": ([], "invalid_effect", "$"),
    "no id": ({}, "invalid_effect", "$.agent_id"),
    "an empty id": ({"agent_id": ""}, "invalid_effect", "$.agent_id"),
    "a long id": ({"agent_id": "a" * 201}, "invalid_effect", "$.agent_id"),
    "an id that is a number": ({"agent_id": 7}, "invalid_effect", "$.agent_id"),
    "a NUL in the id": ({"agent_id": "a\0"}, "invalid_effect", "$.agent_id"),
    "the service's own name": ({"agent_id": "worldledger"}, "reserved_kind", "$.agent_id"),
    "an unknown field": ({"agent_id": "a", "colour": "red"}, "invalid_effect", "$.colour"),
    "a policy that is a name": ({"agent_id": "a", "policy": "default"}, "invalid_policy", "$.policy"),
    "a policy without a name": ({"agent_id": "a", "policy": {}}, "invalid_policy", "$.policy.name"),
    "a setting that is none": (
        {"agent_id": "a", "policy": {"name": "default", "config": {"distance_limit": "far"}}},
        "invalid_policy",
        "$.policy.config.distance_limit",
    ),
    "an unknown setting": (
        {"agent_id": "a", "policy": {"name": "default", "config": {"colour": 1}}},
        "invalid_policy",
        "$.policy.config.colour",
    ),
    "permissions that are one": ({"agent_id": "a", "permissions": "submit_intent"}, "invalid_effect", "$.permissions"),
    "a permission that is none": ({"agent_id": "a", "permissions": [1]}, "invalid_effect", "$.permissions[0]"),
    "no weight": ({"agent_id": "a", "weight": 0}, "invalid_effect", "$.weight"),
    "half a weight": ({"agent_id": "a", "weight": 1.5}, "invalid_effect", "$.weight"),
}


async def test_what_is_no_registration_is_refused(client: WorldClient, world: str, subtests: pytest.Subtests) -> None:
    """A refusal names the place of what is wrong, and nothing is written."""
    for what, (body, code, path) in _REFUSED.items():
        with subtests.test(what):
            problem(await client.post(AGENTS, json=body), 422, code, path=path, recovery="modify_intent")
            assert (await client.get("")).json()["head_seq"] == 1


async def test_an_unknown_policy_is_refused(client: WorldClient, world: str) -> None:
    """A policy that no module has registered is refused, naming those that are known."""
    for policy in ({"name": "nobody's"}, {"name": "default", "version": 99}):
        response = await client.post(AGENTS, json={"agent_id": "a", "policy": policy})
        assert "default" in str(problem(response, 422, "unregistered_policy")["known"])


async def test_a_body_is_read_as_it_arrived(client: WorldClient, world: str) -> None:
    """A key that stands twice is refused, and so is what is not declared as JSON."""
    twice = await client.post(AGENTS, content=b'{"agent_id": "a", "agent_id": "b"}', headers=JSON)
    problem(twice, 422, "invalid_effect", path="$")
    problem(await client.post(AGENTS, content=b'{"agent_id": "a"}'), 415, "unsupported_media_type")


async def test_a_full_world_takes_nobody_in(client: WorldClient) -> None:
    """Beyond `max_agents` a new agent is refused; those who are in may come again."""
    await new_world(client, max_agents=2)
    await register(client, "alice", "bob")
    problem(await client.post(AGENTS, json={"agent_id": "carol"}), 409, "too_many_agents", limit=2, recovery="abort")
    await register(client, "alice", weight=5)


async def test_agents_are_listed_by_name(client: WorldClient, world: str) -> None:
    """A page ends where it should, and leads to the next."""
    await register(client, "carol", "alice", "bob", "Zoë")
    page = await client.get(AGENTS, params={"limit": 2})
    assert [each["agent_id"] for each in page.json()["agents"]] == ["Zoë", "alice"]
    assert page.json()["next_after"] == "alice"
    rest = await client.get(page.headers["link"].partition(">")[0].removeprefix("<"))
    assert [each["agent_id"] for each in rest.json()["agents"]] == ["bob", "carol"]
    assert rest.json()["next_after"] is None
    assert "link" not in rest.headers
    problem(await client.get(AGENTS, params={"after": "a\0"}), 422, "invalid_parameter", parameter="after")


async def test_nobody_is_made_up(client: WorldClient, world: str) -> None:
    """An agent or world that is not there is 404, on every route; an id that cannot be one is 422."""
    await register(client, "alice")
    paths = ["", "/view", "/observations", "/events", "/generations/r", "/generations/r/finish"]
    for path in paths:
        method = "POST" if path.endswith("finish") else "GET"
        problem(await client.request(method, of("nobody") + path), 404, "unknown_agent", agent_id="nobody")
        problem(await client.request(method, f"/v1/worlds/nowhere/agents/a{path}"), 404, "world_not_found")
        for impossible in ("a%00", "a" * 201):
            problem(await client.request(method, f"{AGENTS}/{impossible}{path}"), 422, "invalid_parameter")
    problem(await client.get("/v1/worlds/nowhere/agents"), 404, "world_not_found")
    problem(await client.post("/v1/worlds/nowhere/agents", json={"agent_id": "a"}), 404, "world_not_found")
    problem(await client.post("/v1/worlds/no%20name/agents", json={"agent_id": "a"}), 422, "invalid_name")


async def test_who_comes_back_goes_on_where_it_was(client: WorldClient) -> None:
    """The view in the answer is the one that the agent acknowledged last; what came since follows it."""
    await new_world(client)
    await register(client, "alice", "bob")
    first = await speak(client, "r1")
    second = await speak(client, "r2")
    seen = await client.get(of("bob", "observations"), params={"after": 3})
    assert [delta["view_seq"] for delta in seen.json()["deltas"]] == [first, second]
    await client.get(of("bob", "observations"), params={"after": first})
    back = await register(client, "bob")
    assert back["view_seq"] == first
    assert back["view"] == (await client.get(of("bob", "view"), params={"at_seq": first})).json()
