"""Rounds of social-RL runs over HTTP: posted whole, once; read again; and the cues that follow from them."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
from worldledger_social_rl.api import shapes as rounds_shapes

from tests.social_runs import ALICE, BEN, COACH, EFFECTS, adaptation, feedback, message, round_of

from .helpers import WorldClient, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

ROUNDS = "rounds"


async def create(client: WorldClient, **config: Any) -> None:
    """Create the client's world, a run."""
    body = {"world_id": client.world, "ruleset": "social_rl", "time_authority": "client", "config": config}
    response = await client.post("/v1/worlds", json={**body, "orchestrator": {"staleness_threshold": 1_000_000}})
    assert response.status_code == 201, response.text


async def append(client: WorldClient, kind: str, **payload: Any) -> httpx2.Response:
    """Append one effect as whoever runs the experiment."""
    body = {"kind": kind, "payload": payload, "source_id": "coach", "schema_version": "1.0.0"}
    return await client.post("effects", json=body)


async def intend(client: WorldClient, who: str, req_id: str, kind: str, **payload: Any) -> httpx2.Response:
    """Submit an agent's intent to have such an effect."""
    body = {"kind": "Custom", "agent_id": who, "req_id": req_id, "context_seq": 0}
    return await client.post("intents", json={**body, "payload": {"kind": kind, **payload}})


async def effects(client: WorldClient) -> list[dict[str, Any]]:
    """Return the world's effects."""
    found: list[dict[str, Any]] = (await client.get("effects", params={"limit": 1000})).json()["effects"]
    return found


async def test_a_round_is_one_unit(client: WorldClient) -> None:
    """A round becomes its effects in order, at its messages' times; an adaptation names the feedback that caused it."""
    await create(client)
    response = await client.post(ROUNDS, json=round_of(1))
    assert (response.status_code, response.headers["location"]) == (201, client.path(f"{ROUNDS}/1"))
    rounds_shapes.RoundReceipt.model_validate_json(response.content)
    log = await effects(client)
    last = (await client.get("")).json()["head_checksum"]
    receipt = {"world_id": client.world, "round_number": 1, "first_seq": 2, "last_seq": 10, "effects": EFFECTS}
    assert response.json() == {**receipt, "checksum": last, "replayed": False}
    kinds = ["RoundStarted", *["MessageEmitted"] * 3, *["FeedbackRecorded"] * 2, "PolicyAdapted"]
    assert [effect["kind"] for effect in log[1:]] == [*kinds, "RoundSynthesised", "RoundEnded"]
    assert [effect["source_id"] for effect in log[1:]] == ["coach", ALICE, BEN, COACH, *["coach"] * 5]
    assert log[7]["caused_by"] == 6
    assert log[5]["payload"] == feedback(ALICE, 1)
    assert [effect["sim_time"] for effect in log[1:5]] == [1_700_001_001.0, *(1_700_001_000.0 + n for n in (1, 2, 3))]


async def test_a_round_is_there_once(client: WorldClient) -> None:
    """The same round again, by whatever key and however late, is answered as the first time; another is refused."""
    await create(client)
    first = (await client.post(ROUNDS, json=round_of(1))).json()
    assert (await client.post(ROUNDS, json=round_of(2), headers={"Idempotency-Key": "two"})).status_code == 201
    head = (await client.get("")).json()["head_seq"]
    for headers in ({}, {"Idempotency-Key": "other"}):
        again = await client.post(ROUNDS, json=round_of(1), headers=headers)
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.json() == {**first, "replayed": True}
    told = {"round_number": 2, "last_round": 2, "expected": 3}
    found = problem(await client.post(ROUNDS, json=round_of(2, synthesis="")), 409, "round_conflict", **told)
    assert found["detail"] == "round 2 is there, with another content; the next is round 3"
    taken = await client.post(ROUNDS, json=round_of(3), headers={"Idempotency-Key": "two"})
    problem(taken, 422, "request_conflict", req_id="two", global_seq=11)
    assert (await client.get("")).json()["head_seq"] == head


async def test_many_at_the_same_time(client: WorldClient) -> None:
    """Of those who post the same round at once one writes it, and all have its receipt; of different ones one wins."""
    await create(client)
    posts = [client.post(ROUNDS, json=round_of(1)) for _ in range(5)]
    posts += [client.post(ROUNDS, json=round_of(1, synthesis=str(n))) for n in range(3)]
    answers = await asyncio.gather(*posts)
    assert len(await effects(client)) == 1 + EFFECTS
    written = [answer for answer in answers if answer.status_code == 201]
    assert len(written) == 1
    for answer in answers:
        if answer.status_code == 409:
            problem(answer, 409, "round_conflict")
        else:
            assert {**answer.json(), "replayed": False} == written[0].json()


async def test_only_the_next_round(client: WorldClient) -> None:
    """A round that is not the next one is refused, and told is which one that is; so is any while one runs."""
    await create(client)
    found = problem(await client.post(ROUNDS, json=round_of(3)), 409, "round_conflict", expected=1, last_round=0)
    assert found["detail"] == "the first round is round 1, not round 3"
    assert (await append(client, "RoundStarted", round_number=1)).status_code == 201
    for number in (1, 2):
        refused = await client.post(ROUNDS, json=round_of(number))
        assert "running" in problem(refused, 409, "round_conflict", last_round=1)["detail"]
    assert (await append(client, "RoundEnded", round_number=1)).status_code == 201
    problem(await client.post(ROUNDS, json=round_of(3)), 409, "round_conflict", expected=2)
    assert (await client.post(ROUNDS, json=round_of(2))).status_code == 201


async def test_everything_that_is_wrong_is_told(client: WorldClient) -> None:
    """A round that is not as documented is 422 with the path of each problem, and nothing of it is written."""
    await create(client)
    wrong = round_of(1, mood="good")
    wrong["messages"][0] |= {"agent_id": "Alice", "turn_number": 0}
    wrong["messages"][1] |= {"round_number": 2}
    wrong["feedback"][ALICE]["engagement"] = 1.5
    wrong["feedback"]["Owner+Dora"] = feedback("Owner+Dora", 1)
    wrong["policy_adaptations"].append(adaptation(BEN, 1, "adjust_intensity", intensity=2))
    found = problem(await client.post(ROUNDS, json=wrong), 422, "invalid_run")
    assert [each["path"] for each in found["problems"]] == [
        "$.mood",
        "$.messages[0].agent_id",
        "$.messages[0].turn_number",
        "$.messages[1].round_number",
        '$.feedback["Worker+Alice"].engagement',
        '$.feedback["Worker+Alice"]',
        '$.feedback["Owner+Dora"]',
        "$.policy_adaptations[0].agent_id",
        "$.policy_adaptations[1].intensity",
    ]
    assert (await client.get("")).json()["head_seq"] == 1


_NO_ROUNDS = [
    (b"[]", "$", "an object"),
    (b'{"round_number": 1, "round_number": 1}', "$", "stands twice"),
    (b'{"round_number": 1, "messages": [], "duration_seconds": NaN}', "$.duration_seconds", "not a finite"),
    (b'{"round_number": 1,', "$", "line 1 column 20"),
    (b'{"round_number": 1, "messages": [], "synthesis": "\\u0000"}', "$.synthesis", "NUL"),
]


async def test_what_is_no_round(client: WorldClient, subtests: pytest.Subtests) -> None:
    """What is no JSON, or JSON that no log can hold, is refused with its place."""
    await create(client)
    for body, path, words in _NO_ROUNDS:
        with subtests.test(body=body):
            response = await client.post(ROUNDS, content=body, headers={"Content-Type": "application/json"})
            found = problem(response, 422, "invalid_run")
            assert found["problems"][0]["path"] == path
            assert words in found["detail"]


async def test_a_round_that_is_too_large(client: WorldClient) -> None:
    """A message over the limit of an effect is named; so is a round of more effects than one request may write."""
    await create(client)
    big = round_of(1)
    big["messages"][1]["content"] = "x" * (1 << 20)
    found = problem(await client.post(ROUNDS, json=big), 422, "invalid_run")
    assert [each["path"] for each in found["problems"]] == ["$.messages[1]"]
    long = round_of(1, messages=[message(BEN if turn == 1 else ALICE, 1, turn) for turn in range(1, 1001)])
    assert "at most 1000" in problem(await client.post(ROUNDS, json=long), 422, "invalid_run")["detail"]


async def test_a_world_that_takes_rounds_as_they_are(client: WorldClient) -> None:
    """Where the configuration is not strict, odd rounds and gaps are taken, and come back as they were sent."""
    await create(client, strict=False)
    odd = {"round_number": 4, "messages": [{"agent_id": "Alice", "text": 7}], "feedback": [], "mood": "good"}
    assert (await client.post(ROUNDS, json=odd)).status_code == 201
    assert (await client.get(f"{ROUNDS}/4")).json()["result"] == odd
    assert (await client.post(ROUNDS, json=odd)).status_code == 200
    problem(await client.post(ROUNDS, json=round_of(3)), 409, "round_conflict", expected=5)
    nobody = round_of(5, messages=[message(ALICE, 5, 1), {"content": "Who am I?"}])
    found = problem(await client.post(ROUNDS, json=nobody), 422, "invalid_run")
    assert [each["path"] for each in found["problems"]] == ["$.messages[1].agent_id"]


_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"feedback": {"q": 3}}, "$.feedback.q"),
    ({"feedback": {"": {"engagement": 1}}}, '$.feedback[""]'),
    ({"messages": [7]}, "$.messages[0]"),
    ({"policy_adaptations": [[]]}, "$.policy_adaptations[0]"),
    ({"policy_adaptations": [{"agent_id": 5}]}, "$.policy_adaptations[0].agent_id"),
    ({"round_number": -1}, "$.round_number"),
    ({"round_number": -1, "messages": [{"agent_id": "A", "round_number": -1}]}, "$.round_number"),
]


async def test_paths_are_those_of_the_request(client: WorldClient, subtests: pytest.Subtests) -> None:
    """What a lenient world cannot take is named by its place in the body, not in an effect that it would have made."""
    await create(client, strict=False)
    for change, path in _REFUSED:
        with subtests.test(change=change):
            body = {"round_number": 1, "messages": [], **change}
            found = problem(await client.post(ROUNDS, json=body), 422, "invalid_run")
            assert [each["path"] for each in found["problems"]] == [path]


async def test_a_deep_field_is_named_by_its_place(client: WorldClient) -> None:
    """In the effect it stands deeper, in a member that the body does not have."""
    await create(client, strict=False)
    deep: Any = 1
    for _ in range(98):
        deep = [deep]
    body = {"round_number": 1, "messages": [], "mood": deep}
    found = problem(await client.post(ROUNDS, json=body), 422, "invalid_run")
    assert [each["path"] for each in found["problems"]] == ["$.mood" + "[0]" * 97]


async def test_a_strict_world_takes_no_time_that_there_is_not(client: WorldClient) -> None:
    """A timestamp has the form of ISO 8601, and is a day and a time."""
    await create(client)
    meta = {"experiment_id": "e", "prar_run_id": "p", "framework": "f", "framework_option": "A", "model": "m"}
    wrong = round_of(1, meta={**meta, "timestamp": "2025-99-99T99:99:99"})
    found = problem(await client.post(ROUNDS, json=wrong), 422, "invalid_run")
    assert [each["path"] for each in found["problems"]] == ["$.meta.timestamp"]


async def test_nobody_takes_the_name_of_a_round_s_file(client: WorldClient) -> None:
    """Neither a coach by an intent nor an artifact: their effects would stand for the round in an export."""
    await create(client, agents=[COACH])
    assert (await client.post(ROUNDS, json=round_of(1))).status_code == 201
    head = {"framework_option": "A", "framework_name": "Labour", "timestamp": "2026-01-01T00:00:00"}
    state = {**head, "policies": [], "source_run_id": "prar", "social_rl_version": "0.2.0"}
    for name in ("round1_social_rl.json", "meta.json"):
        refused = await intend(client, COACH, f"c {name}", "PolicyStateRecorded", **state, name=name)
        problem(refused, 422, "illegal_effect", path="$.payload.name", rule="not_for_agents")
        refused = await append(client, "ArtifactRecorded", name=name, content="gone")
        problem(refused, 422, "illegal_effect", path="$.payload.name", rule="name")
    assert (await intend(client, COACH, "c", "PolicyStateRecorded", **state)).status_code == 201


async def test_rounds_go_on_in_a_fork(client: WorldClient) -> None:
    """A fork's next round is the one after the fork point; those of before can be neither posted nor skipped over."""
    await create(client, strict=True)
    for number in (1, 2, 3):
        await client.post(ROUNDS, json=round_of(number))
    fork = {"world_id": "fork", "fork_of": {"world_id": client.world, "at": "round:2"}}
    assert (await client.post("/v1/worlds", json=fork)).status_code == 201
    rounds = "/v1/worlds/fork/rounds"
    told = {"last_round": 2, "expected": 3}
    found = problem(await client.post(rounds, json=round_of(2)), 409, "round_conflict", round_number=2, **told)
    assert found["detail"] == "round 2 is from before the fork, and cannot be posted here; the next is round 3"
    problem(await client.post(rounds, json=round_of(4)), 409, "round_conflict", round_number=4, **told)
    posted = await client.post(rounds, json=round_of(3, synthesis="otherwise"))
    assert (posted.status_code, posted.json()["first_seq"]) == (201, 3)
    assert [each["round_number"] for each in (await client.get(rounds)).json()["rounds"]] == [3]
    assert (await client.get(f"{rounds}/3")).json()["result"] == round_of(3, synthesis="otherwise")
    assert (await client.get("/v1/worlds/fork/state", params={"at": "round:1"})).json()["world_id"] == client.world


async def test_rounds_are_listed_and_read(client: WorldClient) -> None:
    """Rounds are given page by page with their places, and one by one as they were posted; who has one gets a 304."""
    await create(client)
    for number in (1, 2, 3):
        await client.post(ROUNDS, json=round_of(number))
    first = (await client.get(ROUNDS, params={"limit": 2})).json()
    rounds_shapes.RoundPage.model_validate(first)
    assert [(each["round_number"], each["first_seq"], each["last_seq"]) for each in first["rounds"]] == [
        (1, 2, 10),
        (2, 11, 19),
    ]
    assert first["next_after_seq"] == 11
    second = await client.get(ROUNDS, params={"limit": 2, "after_seq": 11})
    assert second.json()["next_after_seq"] is None
    assert "link" not in second.headers
    (third,) = second.json()["rounds"]
    counts = {"messages": 3, "agents": 3, "feedback": 2, "adaptations": 1, "duration_seconds": 12.5}
    assert {name: third[name] for name in counts} == counts
    one = await client.get(f"{ROUNDS}/3")
    rounds_shapes.Round.model_validate_json(one.content)
    assert one.json() == {"world_id": client.world, **third, "checksum": one.json()["checksum"], "result": round_of(3)}
    again = await client.get(f"{ROUNDS}/3", headers={"If-None-Match": one.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    found = problem(await client.get(f"{ROUNDS}/4"), 404, "moment_not_found", round_number=4, head_seq=28)
    assert found["detail"] == f"world {client.world!r} has no round 4; its last is 3"
    problem(await client.get(f"{ROUNDS}/x"), 422, "invalid_parameter")


async def test_a_round_that_is_played(client: WorldClient) -> None:
    """While a round runs agents speak for themselves and a coach gives feedback, by intents; nobody else may."""
    await create(client, agents=[ALICE, BEN, COACH])
    said = message(ALICE, 1, 1)
    problem(await intend(client, ALICE, "a0", "MessageEmitted", **said), 422, "illegal_effect")  # no round runs
    await append(client, "RoundStarted", round_number=1)
    assert (await intend(client, ALICE, "a1", "MessageEmitted", **said)).status_code == 201
    remark = message(COACH, 1, 2, "Look at Ben.", internal=True)
    assert (await intend(client, COACH, "c1", "MessageEmitted", **remark)).status_code == 201
    assert (await intend(client, COACH, "c2", "FeedbackRecorded", **feedback(ALICE, 1))).status_code == 201
    assert (await intend(client, COACH, "c3", "PolicyAdapted", **adaptation(ALICE, 1))).status_code == 201
    for req_id, kind, payload in (
        ("b1", "MessageEmitted", message(ALICE, 1, 3)),
        ("b2", "FeedbackRecorded", feedback(ALICE, 1)),
        ("b3", "RoundEnded", {"round_number": 1}),
    ):
        problem(await intend(client, BEN, req_id, kind, **payload), 422, "illegal_effect")
    mute = {"agent_id": "Worker+Mute", "permissions": ["submit_intent"]}
    assert (await client.post("agents", json=mute)).status_code == 201
    refused = await intend(client, "Worker+Mute", "m1", "MessageEmitted", **message("Worker+Mute", 1, 4))
    problem(refused, 403, "permission_denied")
    assert (await append(client, "FeedbackRecorded", **feedback(BEN, 1))).status_code == 201
    assert (await append(client, "ArtifactRecorded", name="log.json", content=[1])).status_code == 201
    running = (await client.get(f"{ROUNDS}/1")).json()
    assert (running["status"], running["ended_seq"], running["messages"]) == ("open", None, 2)
    assert [said["agent_id"] for said in running["result"]["messages"]] == [ALICE, COACH]
    assert list(running["result"]["feedback"]) == [ALICE, BEN]
    await append(client, "RoundEnded", round_number=1, duration_seconds=3.0)
    assert (await client.get(f"{ROUNDS}/1")).json()["status"] == "ended"
    assert (await client.post(ROUNDS, json=round_of(2))).status_code == 201


async def test_the_policy_at_any_moment(client: WorldClient) -> None:
    """Each agent's cues follow from adaptations and from its role's policy, at any seq; who knows them gets a 304."""
    await create(client)
    cue = {"cue_id": "greet", "active": True, "intensity": 0.5, "last_triggered": None}
    roles = [{"role": "Worker", "cues_active": ["greet"], "cue_states": {"greet": cue}, "feedback_snapshot": None}]
    head = {"framework_option": "A", "framework_name": "Labour", "timestamp": "2026-01-01T00:00:00"}
    state = {**head, "policies": roles, "source_run_id": "prar", "social_rl_version": "0.2.0"}
    assert (await append(client, "PolicyStateRecorded", **state)).status_code == 201
    await client.post(ROUNDS, json=round_of(1))
    adaptations = [
        adaptation(ALICE, 2, "adjust_intensity", intensity=0.3),
        adaptation(BEN, 2, "deactivate_cue", "greet"),
    ]
    await client.post(ROUNDS, json=round_of(2, policy_adaptations=adaptations))
    now = await client.get("policy")
    rounds_shapes.Policy.model_validate_json(now.content)
    greet = {"active": True, "intensity": 0.5, "since_round": 1}
    assert now.json()["agents"] == {
        COACH: {"role": "Coach", "name": "Carla", "cues": {}},
        ALICE: {
            "role": "Worker",
            "name": "Alice",
            "cues": {"greet": greet, "ask": {"active": True, "intensity": 0.3, "since_round": 1}},
        },
        BEN: {"role": "Worker", "name": "Ben", "cues": {"greet": {**greet, "active": False, "since_round": 2}}},
    }
    assert (now.json()["round_number"], now.json()["round_open"]) == (2, False)
    assert (now.json()["roles"]["Worker"], now.json()["policy_state"]["source_run_id"]) == (roles[0], "prar")
    before = (await client.get("policy", params={"at_seq": 11})).json()
    assert before["agents"][ALICE]["cues"]["ask"]["intensity"] == 1.0
    assert before["agents"][BEN]["cues"] == {"greet": greet}
    empty = (await client.get("policy", params={"at_seq": 1})).json()
    assert (empty["agents"], empty["roles"], empty["round_number"]) == ({}, {}, None)
    again = await client.get("policy", headers={"If-None-Match": now.headers["etag"]})
    assert again.status_code == 304
    problem(await client.get("policy", params={"at_seq": 99}), 404, "moment_not_found")


async def test_other_worlds_have_no_rounds(client: WorldClient) -> None:
    """Worlds of another ruleset have neither rounds nor policies, whatever their logs say."""
    await client.post("/v1/worlds", json={"world_id": client.world})
    await append(client, "RoundStarted", round_number=1)
    for path in (ROUNDS, f"{ROUNDS}/1", "policy"):
        problem(await client.get(path), 404, "moment_not_found")
    problem(await client.post(ROUNDS, json=round_of(1)), 409, "round_conflict")
    problem(await client.get("/v1/worlds/nowhere/rounds"), 404, "world_not_found")
    problem(await client.post("/v1/worlds/nowhere/rounds", json=round_of(1)), 404, "world_not_found")
