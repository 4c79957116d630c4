"""Submitting intents over HTTP: what is accepted, what is refused and how, one and several at once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from .helpers import JSON, WorldClient, problem, started
from .living import INTENTS, intent, new_world, of, register, settle, speak

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _head(client: WorldClient) -> int:
    found: int = (await client.get("")).json()["head_seq"]
    return found


async def test_an_accepted_intent_is_an_effect(town: WorldClient) -> None:
    """The answer names the effect, which says who it is of and from which view it was made."""
    response = await town.post(INTENTS, json=intent("r1", 3, priority=2))
    assert response.status_code == 201
    found = response.json()
    assert found == {"agent_id": "alice", "req_id": "r1", "global_seq": 4, "uuid": found["uuid"], "replayed": False}
    effect = (await town.get(response.headers["location"])).json()
    assert effect["uuid"] == found["uuid"]
    assert (effect["kind"], effect["source_id"], effect["req_id"], effect["priority"]) == ("Speak", "alice", "r1", 2)
    assert effect["source_metadata"] == {"context_seq": 2, "intent": "Speak"}  # bob's registration was not shown


async def test_an_intent_is_accepted_once(town: WorldClient) -> None:
    """The same again is answered as the first time; another body under its req_id is refused."""
    first = await town.post(INTENTS, json=intent("r1", 3))
    again = await town.post(INTENTS, json=intent("r1", 4))
    assert again.status_code == 200
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {**first.json(), "replayed": True}
    other = await town.post(INTENTS, json=intent("r1", 3, payload={"text": "something else"}))
    problem(other, 422, "request_conflict", req_id="r1")
    assert await _head(town) == 4


async def test_the_key_may_be_a_header(town: WorldClient) -> None:
    """Idempotency-Key is the req_id; one that contradicts the body, or comes with a list, is refused."""
    body = intent("r1", 3)
    del body["req_id"]
    key = {"Idempotency-Key": '"turn-1"'}
    assert (await town.post(INTENTS, json=body, headers=key)).json()["req_id"] == "turn-1"
    assert (await town.post(INTENTS, json=body, headers=key)).status_code == 200
    for refused in (intent("r1", 3), {"intents": [body]}, [body]):
        response = await town.post(INTENTS, json=refused, headers=key)
        problem(response, 422, "invalid_parameter", parameter="Idempotency-Key")


async def test_a_list_is_answered_one_by_one(town: WorldClient) -> None:
    """Each intent of a list has its own outcome, in its place."""
    several = [intent("r1", 3), intent("r2", 3, agent_id="nobody"), intent("r3", 3, "bob"), {"kind": "Sing"}]
    response = await town.post(INTENTS, json={"intents": several})
    assert response.status_code == 200
    first, second, third, fourth = response.json()["results"]
    assert (first["req_id"], first["replayed"], third["agent_id"]) == ("r1", False, "bob")
    assert (second["status"], second["code"], second["agent_id"]) == (404, "unknown_agent", "nobody")
    assert (fourth["status"], fourth["code"], fourth["path"]) == (422, "invalid_intent", "$.kind")
    assert fourth["instance"] == town.path(INTENTS)
    assert await _head(town) == 5


async def test_a_bare_list_is_a_list(town: WorldClient) -> None:
    """A list without an object around it is one that is not atomic; the same again is answered as the first time."""
    several: list[Any] = [intent("r1", 3), intent("r2", 3, agent_id="nobody"), intent("r3", 3, "bob"), 7]
    response = await town.post(INTENTS, json=several)
    assert response.status_code == 200
    results = response.json()["results"]
    assert [each.get("global_seq") or each["code"] for each in results] == [4, "unknown_agent", 5, "invalid_intent"]
    again = await town.post(INTENTS, json={"intents": [several[0], several[2]], "atomic": False})
    assert [each["uuid"] for each in again.json()["results"]] == [results[0]["uuid"], results[2]["uuid"]]
    replayed = await town.post(INTENTS, json=[several[0]])
    assert (replayed.status_code, replayed.headers["idempotency-replayed"]) == (200, "true")
    assert await _head(town) == 5


async def test_an_atomic_list_is_accepted_whole(town: WorldClient) -> None:
    """Of an atomic list all become effects in their order, and the same list again is answered as the first time."""
    several = {"intents": [intent(f"r{n}", 3, ("alice", "bob")[n % 2]) for n in range(10)], "atomic": True}
    response = await town.post(INTENTS, json=several)
    assert response.status_code == 201
    results = response.json()["results"]
    assert [result["global_seq"] for result in results] == list(range(4, 14))
    again = await town.post(INTENTS, json=several)
    assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
    assert [result["uuid"] for result in again.json()["results"]] == [result["uuid"] for result in results]


_WRONG: list[tuple[dict[str, Any], int, str]] = [
    ({"agent_id": "nobody"}, 404, "unknown_agent"),
    ({"payload": {}}, 422, "invalid_intent"),
    ({"kind": "Move", "payload": {"to": [1, 2], "from": [5, 5]}}, 409, "intent_conflict"),
]


async def test_an_atomic_list_is_refused_whole(town: WorldClient, subtests: pytest.Subtests) -> None:
    """One refusal refuses the list; it names the index, and nothing is written."""
    await town.post(INTENTS, json=intent("at", 3, kind="Move", payload={"to": [0, 0]}))
    for wrong, status, code in _WRONG:
        with subtests.test(code):
            several = [intent("r0", 3), intent("r1", 3), {**intent("r2", 3), **wrong}]
            problem(await town.post(INTENTS, json={"intents": several, "atomic": True}), status, code, index=2)
            assert await _head(town) == 4


_UNREADABLE: dict[str, tuple[bytes, str, int | None]] = {
    "no JSON": (b"{", "$", None),
    "a list": (b"[]", "$", None),
    "a number": (b"7", "$", None),
    "nothing in it": (b"{}", "$.kind", None),
    "no intents": (b'{"intents": []}', "$.intents", None),
    "intents that are none": (b'{"intents": {}}', "$.intents", None),
    "a mode that is none": (b'{"intents": [{}], "atomic": 1}', "$.atomic", None),
    "an unknown field": (b'{"intents": [{}], "all": true}', "$.all", None),
    "a key that stands twice": (b'{"kind": "Speak", "kind": "Move"}', "$", None),
    "such a key in a list": (b'{"intents": [{}, {"payload": {"a": 1, "a": 2}}]}', "$.payload", 1),
    "such a key in a bare list": (b'[{}, {"payload": {"a": 1, "a": 2}}]', "$.payload", 1),
    "too many in a bare list": (orjson.dumps([{}] * 1001), "$", None),
    "too many": (orjson.dumps({"intents": [{}] * 1001}), "$.intents", None),
    "an odd number in a list": (b'{"intents": [{"kind": "Speak", "context_seq": 1e999}], "atomic": true}', "", 0),
}


async def test_what_is_no_intent_is_refused(town: WorldClient, subtests: pytest.Subtests) -> None:
    """A body that is no intent, nor a list of them, is refused by the place of what is wrong."""
    for what, (body, path, index) in _UNREADABLE.items():
        with subtests.test(what):
            found = problem(await town.post(INTENTS, content=body, headers=JSON), 422, "invalid_intent", index=index)
            assert found["path"].startswith(path)
            assert await _head(town) == 3


async def test_each_refusal_has_its_answer(client: WorldClient) -> None:
    """A stale view, a missing permission, a conflict and a reserved kind are told apart, each with what to do."""
    await new_world(client, staleness_threshold=0)
    await register(client, "alice")
    await register(client, "bob", permissions=["submit_intent", "intent:move"])
    await speak(client, "r1", context_seq=3)
    news = {"kind": "MessageEmitted", "payload": {"text": "news"}, "source_id": "eve", "schema_version": "1.0.0"}
    seq = (await client.post("effects", json=news)).json()["global_seq"]
    assert (await client.get(of("alice", "view"))).json()["view_seq"] == seq
    stale = await client.post(INTENTS, json=intent("r2", 3))
    named = {"setting": "world", "staleness_threshold": 0, "interrupt_policy": "always"}
    problem(stale, 409, "stale_context", recovery="regenerate", expected_seq=seq, actual_seq=3, **named)
    denied = await client.post(INTENTS, json=intent("r3", seq, "bob"))
    problem(denied, 403, "permission_denied", permission="intent:speak", recovery="abort")
    moved = await client.post(INTENTS, json=intent("r4", seq, "bob", kind="Move", payload={"to": [1, 2]}))
    assert moved.status_code == 201, moved.text
    seq = moved.json()["global_seq"]
    wrong = {"to": [3, 3], "from": [9, 9]}
    conflict = await client.post(INTENTS, json=intent("r5", seq, "bob", kind="Move", payload=wrong))
    found = problem(conflict, 409, "intent_conflict", recovery="modify_intent")
    assert found["conflicting_effects"] == []
    reserved = await client.post(INTENTS, json=intent("r6", seq, kind="Custom", payload={"kind": "WorldEnds"}))
    problem(reserved, 422, "reserved_kind")
    unknown = await client.post("/v1/worlds/nowhere/intents", json=intent("r7"))
    problem(unknown, 404, "world_not_found")
    assert await _head(client) == seq


async def test_a_conflict_names_what_it_conflicts_with(town: WorldClient) -> None:
    """The effects since the intent's view that concern its agent are told."""
    first = await town.post(INTENTS, json=intent("r1", 3, kind="Move", payload={"to": [1, 2]}))
    seq = first.json()["global_seq"]
    second = await town.post(INTENTS, json=intent("r2", seq, kind="Move", payload={"to": [5, 5], "from": [1, 2]}))
    third = await town.post(INTENTS, json=intent("r3", seq, kind="Move", payload={"to": [2, 2], "from": [1, 2]}))
    found = problem(third, 409, "intent_conflict")
    effect = {"global_seq": second.json()["global_seq"], "kind": "Move", "source_id": "alice"}
    assert found["conflicting_effects"] == [effect]


async def test_quotas_are_told_in_headers(client: WorldClient) -> None:
    """Where a world sets quotas, each answer says what is left; beyond them it is 429 and says when to come again."""
    await new_world(client, intents_per_s=0.001, intents_burst=2, token_budget=100)
    await register(client, "alice", "bob")
    first = await client.post(INTENTS, json=intent("r1", payload={"text": "a", "token_count": 30}))
    assert first.headers["ratelimit-policy"] == '"intents";q=2;w=2000, "tokens";q=100;w=60'
    intents, tokens = first.headers["ratelimit"].split(", ")
    assert intents.startswith('"intents";r=1;t=')
    assert tokens.startswith('"tokens";r=70;t=')
    dear = await client.post(INTENTS, json=intent("r2", payload={"text": "a", "token_count": 101}))
    problem(dear, 429, "quota_exceeded", quota_type="tokens", limit=100, recovery="defer")
    assert "retry-after" not in dear.headers, "waiting will not help"
    await speak(client, "r3")
    over = await client.post(INTENTS, json=intent("r4"))
    found = problem(over, 429, "quota_exceeded", quota_type="intents", agent_id="alice")
    assert int(over.headers["retry-after"]) >= found["retry_after_s"] > 900
    assert over.headers["ratelimit"].startswith('"intents";r=0;t=')
    listed = (await client.post(INTENTS, json={"intents": [intent("r5"), intent("r6", agent_id="bob")]})).json()
    assert [result.get("code") for result in listed["results"]] == ["quota_exceeded", None]
    assert listed["results"][0]["retry_after_s"] > 900


async def test_intents_are_counted(own_url: str) -> None:
    """The metrics tell how many intents were accepted, and how many rejected by which code."""
    async with started(own_url) as town:
        await settle(town)
        await speak(town, "r1")
        several = [intent("r2"), intent("r3", agent_id="nobody"), intent("r4", kind="Sing")]
        await town.post(INTENTS, json={"intents": several})
        await town.post(INTENTS, json=intent("r5", agent_id="nobody"))
        found = {
            (sample.name, sample.labels.get("code")): sample.value
            for family in text_string_to_metric_families((await town.get("/metrics")).text)
            for sample in family.samples
        }
    assert found["worldledger_intents_accepted_total", None] == 2
    assert found["worldledger_intents_rejected_total", "unknown_agent"] == 2
    assert found["worldledger_intents_rejected_total", "invalid_intent"] == 1
    assert found["worldledger_intents_waiting", None] == 0
    assert found["worldledger_worlds_open", None] == 1
    assert found["worldledger_memory_attached_agents", None] >= 1
