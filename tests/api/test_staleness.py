"""Staleness and contexts over HTTP and on a WebSocket."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_service.api import generations

from .helpers import Served, WorldClient, problem
from .living import AGENTS, INTENTS, intent, of, register, settle, socket_of, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")

STALENESS = "staleness"
EFFECTS = "effects"


async def context_of(client: WorldClient, global_seq: int) -> Any:
    """Return the context that the log tells of an intent."""
    return (await client.get(f"{EFFECTS}/{global_seq}")).json()["source_metadata"]["context_seq"]


async def two(client: WorldClient, **orchestrator: Any) -> None:
    """Make the client's world, with alice and bob in it, in which nothing may be stale."""
    await settle(client, **{"staleness_threshold": 0, **orchestrator})


# -- HTTP --------------------------------------------------------------------------------------------------


async def test_an_intent_without_a_context(client: WorldClient) -> None:
    """It is recorded with null where nothing is refused as stale; otherwise 422 says so, with setting and value."""
    await two(client)
    bare = intent("r1")
    del bare["context_seq"]
    found = problem(
        await client.post(INTENTS, json=bare),
        422,
        "invalid_intent",
        path="$.context_seq",
        setting="world",
        staleness_threshold=0,
        interrupt_policy="always",
    )
    assert "the world's staleness_threshold is 0" in found["detail"]
    accepted = await client.post(INTENTS, json={**bare, "staleness_threshold": None})
    assert accepted.status_code == 201
    assert await context_of(client, accepted.json()["global_seq"]) is None


async def test_settings_are_read_and_set(client: WorldClient) -> None:
    """PUT writes an effect and leaves out what it does not name; GET tells what holds, and refusals name it."""
    await two(client)
    usual = {"staleness_threshold": 0, "interrupt_policy": "always", "max_staleness_threshold": None}
    assert (await client.get(STALENESS)).json() == usual
    answer = (await client.put(STALENESS, json={"staleness_threshold": 2, "max_staleness_threshold": 5})).json()
    assert answer == {**usual, "staleness_threshold": 2, "max_staleness_threshold": 5, "global_seq": 4}
    await client.put(STALENESS, json={"interrupt_policy": "only_conflict"})
    assert (await client.get(STALENESS)).json()["interrupt_policy"] == "only_conflict"
    for body, path in (
        ({"staleness_threshold": None}, "$.staleness_threshold"),
        ({"staleness_threshold": 6}, "$.staleness_threshold"),
        ({"max_staleness_threshold": 1}, "$.staleness_threshold"),
        ({"max_staleness_threshold": -1}, "$.max_staleness_threshold"),
        ({"interrupt_policy": "never"}, "$.interrupt_policy"),
        ({"threshold": 1}, "$.threshold"),
        ({}, "$"),
    ):
        problem(await client.put(STALENESS, json=body), 422, "invalid_effect", path=path)
    problem(await client.get("/v1/worlds/nowhere/staleness"), 404, "world_not_found")


async def test_an_agent_and_a_generation_with_settings_of_their_own(client: WorldClient) -> None:
    """They stand in registration and answer; a generation that goes stale names the setting that decided."""
    await two(client, max_staleness_threshold=3)
    carol = await register(client, "carol", staleness_threshold=1, interrupt_policy="only_conflict")
    assert (carol["staleness_threshold"], carol["interrupt_policy"]) == (1, "only_conflict")
    known = (await client.get(of("carol"))).json()
    assert (known["staleness_threshold"], known["interrupt_policy"]) == (1, "only_conflict")
    assert "staleness_threshold" not in (await client.get(of("alice"))).json()
    body: dict[str, Any] = {"agent_id": "dave", "staleness_threshold": None}
    found = problem(await client.post(AGENTS, json=body), 422, "invalid_effect")
    assert "staleness_threshold null exceeds the world's max_staleness_threshold, 3" in found["detail"]
    body = {"req_id": "g1", "staleness_threshold": 4}
    problem(
        await client.post(of("carol", "generations"), json=body), 422, "invalid_intent", path="$.staleness_threshold"
    )
    stated: dict[str, Any] = {"g1": {"about": ["bob"]}, "g2": {"about": ["eve"]}, "g3": {"staleness_threshold": 3}}
    for req_id, fields in stated.items():
        begun = await client.post(of("carol", "generations"), json={"req_id": req_id, **fields})
        assert begun.status_code == 201
    for n in range(2):
        seq = await speak(client, f"b{n}", "bob", context_seq=100)
    stale = (await client.get(of("carol", "generations", "g1"), params={"wait": 30})).json()
    assert stale["reason"] == f"stale_due_to_effect_{seq}"
    assert {name: stale[name] for name in ("setting", "staleness_threshold", "interrupt_policy")} == {
        "setting": "agent",
        "staleness_threshold": 1,
        "interrupt_policy": "only_conflict",
    }
    for req_id in ("g2", "g3"):
        assert not (await client.get(of("carol", "generations", req_id))).json()["cancelled"]


async def test_a_generation_s_context_is_its_intent_s(client: WorldClient) -> None:
    """An intent that ends a generation, and names no context, was made from what that began with."""
    await two(client, staleness_threshold=5)
    began = (await client.post(of("alice", "generations"), json={"req_id": "g"})).json()["context_seq"]
    await speak(client, "b", "bob", context_seq=3)
    await client.get(of("alice", "view"))
    answer = await client.post(INTENTS, json={**intent("g"), "context_seq": None})
    assert answer.status_code == 201, answer.text
    assert await context_of(client, answer.json()["global_seq"]) == began


async def test_a_context_beyond_the_view_tells_nothing(client: WorldClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies beyond the agent's latest view means that view; no answer says how far the log goes."""
    monkeypatch.setattr(generations, "PATIENCE", 0.05)
    await two(client)
    await client.post(EFFECTS, json={"kind": "SimTick", "payload": {}, "source_id": "alice", "schema_version": "1.0.0"})
    answer = await client.post(INTENTS, json=intent("r1", 10**9))
    assert answer.status_code == 201
    assert await context_of(client, answer.json()["global_seq"]) < answer.json()["global_seq"]
    begun = await client.post(of("alice", "generations"), json={"req_id": "g", "context_seq": 10**9})
    assert begun.json()["context_seq"] == answer.json()["global_seq"]


# -- WebSocket ---------------------------------------------------------------------------------------------


async def test_a_session_has_a_context(served: Served, client: WorldClient) -> None:
    """What a socket has handed out is what an intent without a context was made from; a view of the past is not."""
    await two(client)
    async with socket_of(served) as alice:
        view_seq = (await alice.receive("view"))["view"]["view_seq"]
        own = intent("a1", agent_id=None)
        del own["context_seq"]
        await alice.send("intent", id=1, intent=own)
        first = (await alice.receive("accepted"))["global_seq"]
        assert await context_of(client, first) == view_seq
        seq = await speak(client, "b1", "bob", context_seq=100)
        while (await alice.receive("observation"))["delta"]["view_seq"] < seq:
            pass
        await alice.send("view", id=2, at_seq=view_seq)
        await alice.receive("view")
        await alice.send("intent", id=3, intent={**own, "req_id": "a2"})
        assert await context_of(client, (await alice.receive("accepted"))["global_seq"]) == seq
        await alice.send("intents", id=4, intents=[{**own, "req_id": "a3", "context_seq": None}])
        (result,) = (await alice.receive("results"))["results"]
        assert (result["code"], result["path"]) == ("invalid_intent", "$.context_seq")


async def test_a_session_s_generations(served: Served, client: WorldClient) -> None:
    """A generation begins from what was handed out, its intent has its context, and what stops it is named."""
    await two(client, staleness_threshold=1)
    async with socket_of(served) as alice:
        view_seq = (await alice.receive("view"))["view"]["view_seq"]
        await alice.send("generation", id=1, req_id="g1")
        assert (await alice.receive("generation"))["context_seq"] == view_seq
        await alice.send("generation", id=2, req_id="g2", staleness_threshold=0, about=["bob"])
        await alice.receive("generation")
        seq = await speak(client, "b1", "bob", context_seq=100)
        cancelled = await alice.receive("cancelled")
        assert cancelled == {
            "type": "cancelled",
            "req_id": "g2",
            "reason": f"stale_due_to_effect_{seq}",
            "setting": "generation",
            "staleness_threshold": 0,
            "interrupt_policy": "always",
        }
        own = intent("g1", agent_id=None)
        del own["context_seq"]
        await alice.send("intent", id=3, intent=own)
        assert await context_of(client, (await alice.receive("accepted"))["global_seq"]) == view_seq


async def test_no_message_tells_where_the_log_ends(served: Served, client: WorldClient) -> None:
    """Neither the welcome nor a problem, in its members or its words."""
    await two(client)
    tick = {"kind": "GenericTick", "payload": {}, "source_id": "alice", "schema_version": "1.0.0"}
    await client.post(EFFECTS, json=[tick] * 300)
    head = (await client.get("")).json()["head_seq"]
    async with socket_of(served, query="?view_seq=3") as alice:
        assert alice.hello.keys() == {"type", "world_id", "agent_id", "view_seq", "protocol"}
        for n, body in enumerate(({"at_seq": 10**9}, {"at_seq": head + 1})):
            await alice.send("view", id=n, **body)
            told = (await alice.receive("error"))["problem"]
            assert told["code"] == "moment_not_found"
            assert "head_seq" not in told
            assert str(head) not in told["detail"].replace(str(body["at_seq"]), "")
