"""Forks over HTTP: worlds that go on from another one's state."""

from __future__ import annotations

import httpx2

from .helpers import draft, problem


async def _world(client: httpx2.AsyncClient) -> None:
    """Make a world with an entity, which becomes richer with each of ten effects."""
    assert (await client.post("/v1/worlds", json={"world_id": "w", "time_authority": "client"})).status_code == 201
    drafts = [
        draft(kind="EntityCreated", payload={"entity_id": "alice", "entity_data": {"gold": 0}}, sim_time=0.0),
        *(
            draft(
                kind="EntityUpdated",
                payload={"entity_id": "alice", "patch": [{"op": "replace", "path": "/gold", "value": n}]},
                sim_time=float(n),
            )
            for n in range(1, 11)
        ),
    ]
    assert (await client.post("/v1/worlds/w/effects", json=drafts)).status_code == 201


async def test_a_fork_is_made_once(client: httpx2.AsyncClient) -> None:
    """A fork answers 201 with the world, and the same request again 200 with the same one; its past is the parent's."""
    await _world(client)
    body = {"fork_of": {"world_id": "w", "at": "sim:4", "changes": {"alice/gold": 100}}, "experiment": "rich"}
    made = await client.post("/v1/worlds", json=body)
    assert (made.status_code, made.headers["location"]) == (201, "/v1/worlds/w~6")
    assert (made.json()["experiment"], made.json()["sim_time"], made.json()["head_seq"]) == ("rich", 4.0, 3)
    again = await client.post("/v1/worlds", json=body)
    assert (again.status_code, again.json()) == (200, made.json())

    def gold(state: httpx2.Response) -> tuple[str, int, int]:
        told = state.json()
        return told["world_id"], told["global_seq"], told["state"]["entities"]["alice"]["gold"]

    assert gold(await client.get("/v1/worlds/w~6/state")) == ("w~6", 3, 100)
    assert gold(await client.get("/v1/worlds/w~6/state?at=2")) == ("w~6", 2, 4)
    assert gold(await client.get("/v1/worlds/w~6/state?at=sim:3")) == ("w", 5, 3)
    assert gold(await client.get("/v1/worlds/w~6/state?at=parent:4")) == ("w", 4, 2)
    told = (await client.get("/v1/worlds/w~6/diff?from=parent:2&to=head")).json()
    assert {"op": "replace", "path": "/entities/alice/gold", "value": 100} in told["patch"]
    problem(await client.get("/v1/worlds/w~6/state?at=parent:7"), 404, "moment_not_found")
    problem(await client.get("/v1/worlds/w/state?at=parent:1"), 404, "moment_not_found")


async def test_a_list_of_worlds_and_a_world_say_what_is_a_fork_of_what(client: httpx2.AsyncClient) -> None:
    """A fork in the list names its parent, the effect that it goes on from, and its depth; other worlds name none."""
    await _world(client)
    for name, parent in (("x", {"world_id": "w", "at": "seq:6"}), ("y", {"world_id": "x"})):
        assert (await client.post("/v1/worlds", json={"world_id": name, "fork_of": parent})).status_code == 201
    listed = {world["world_id"]: world for world in (await client.get("/v1/worlds?order=effects")).json()["worlds"]}
    w, x, y = (listed[name] for name in "wxy")
    assert w["fork_of"] is None
    assert x["fork_of"] == {"world_id": "w", "world_uuid": w["world_uuid"], "global_seq": 6, "depth": 1}
    assert (await client.get("/v1/worlds/x")).json()["fork_of"] == x["fork_of"]
    assert (await client.get("/v1/worlds/w")).json()["fork_of"] is None
    assert y["fork_of"] == {
        "world_id": "x",
        "world_uuid": x["world_uuid"],
        "global_seq": x["head_seq"],
        "depth": 2,
    }


async def test_agents_go_on_in_a_fork(client: httpx2.AsyncClient) -> None:
    """An agent of the parent sees in the fork what it saw, and acts there; what it saw before can be asked for, too."""
    await _world(client)
    assert (await client.post("/v1/worlds/w/agents", json={"agent_id": "bob"})).status_code == 201
    assert (await client.post("/v1/worlds", json={"world_id": "f", "fork_of": {"world_id": "w"}})).status_code == 201
    before = (await client.get("/v1/worlds/w/agents/bob/view")).json()
    view = (await client.get("/v1/worlds/f/agents/bob/view")).json()
    assert view["visible_entities"] == before["visible_entities"]
    assert view["view_seq"] == 1
    assert (await client.get("/v1/worlds/f/agents")).json()["agents"][0]["registered_seq"] == 1
    intent = {
        "kind": "Speak",
        "payload": {"text": "still here"},
        "context_seq": 2,
        "req_id": "r1",
        "agent_id": "bob",
        "priority": 0,
        "schema_version": "1.0.0",
    }
    answered = await client.post("/v1/worlds/f/intents", json=intent)
    assert answered.status_code == 201, answered.text
    past = (await client.get("/v1/worlds/f/agents/bob/view?at=parent:13")).json()
    assert past["visible_entities"]["alice"]["gold"] == 10
    assert (await client.get("/v1/worlds/w")).json()["head_seq"] == 13


async def test_forks_that_cannot_be_made(client: httpx2.AsyncClient) -> None:
    """Whatever is wrong with a fork is told where it is, and no world is left."""
    await _world(client)
    of_w = {"world_id": "w"}
    problem(await client.post("/v1/worlds", json={"fork_of": {"world_id": "nobody"}}), 404, "world_not_found")
    problem(await client.post("/v1/worlds", json={"fork_of": of_w | {"at": "13"}}), 404, "moment_not_found")
    for more, path in (
        ({"fork_of": of_w | {"at": "yesterday"}}, "$.fork_of.at"),
        ({"fork_of": of_w | {"bogus": 1}}, "$.fork_of.bogus"),
        ({"fork_of": of_w, "ruleset": "social_rl"}, "$.ruleset"),
        ({"fork_of": of_w | {"changes": {"carol/gold": 1}}}, "$.changes.carol/gold"),
    ):
        problem(await client.post("/v1/worlds", json={"world_id": "f"} | more), 422, "invalid_config", path=path)
    problem(await client.post("/v1/worlds", json={"world_id": "w", "fork_of": of_w}), 409, "world_exists")
    assert [each["world_id"] for each in (await client.get("/v1/worlds")).json()["worlds"]] == ["w"]


async def test_verification_goes_back_to_the_ancestors(client: httpx2.AsyncClient) -> None:
    """A fork is verified with what it has inherited, which is told ancestor by ancestor; ``own`` leaves it out."""
    await _world(client)
    for name, of in (("f", "w"), ("g", "f")):
        assert (
            await client.post("/v1/worlds", json={"world_id": name, "fork_of": {"world_id": of}})
        ).status_code == 201
    point = (await client.get("/v1/worlds/f")).json()
    found = (await client.get("/v1/worlds/g/verification")).json()
    assert (found["verified"], found["effects"]) == (True, 2)
    assert [(part["world_id"], part["state"], part["effects"]) for part in found["inherited"]] == [
        ("f", "verified", 2),
        ("w", "verified", 12),
    ]
    assert (found["inherited"][0]["until_seq"], found["inherited"][0]["until_checksum"]) == (2, point["head_checksum"])
    own = (await client.get("/v1/worlds/g/verification", params={"own": "true"})).json()
    assert [(part["world_id"], part["state"], part["effects"]) for part in own["inherited"]] == [("f", "left out", 0)]
