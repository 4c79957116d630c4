"""Drafts that a world's ruleset refuses."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from .helpers import draft, problem

PATH = "/v1/worlds/town/effects"

_SANDBOX: list[tuple[str, dict[str, Any], str, str]] = [
    ("Move", {"to": [1]}, "payload", "$.payload.to"),
    ("Move", {"to": "there"}, "payload", "$.payload.to"),
    ("Move", {"to": [1, None]}, "payload", "$.payload.to[1]"),
    ("Move", {}, "payload", "$.payload.to"),
    ("Speak", {}, "payload", "$.payload.text"),
    ("EntityCreated", {"entity_id": "gate", "entity_data": {}}, "entity_exists", "$.payload.entity_id"),
    ("EntityUpdated", {"entity_id": "nobody", "patch": []}, "unknown_entity", "$.payload.entity_id"),
    ("EntityUpdated", {"entity_id": "gate", "patch": [{"op": "remove", "path": "/x"}]}, "patch", "$.payload.patch[0]"),
    ("EntityRemoved", {"entity_id": "nobody"}, "unknown_entity", "$.payload.entity_id"),
    ("Interact", {"target_id": "a1"}, "self_interaction", "$.payload.target_id"),
]


async def test_an_illegal_draft_names_its_rule(
    client: httpx2.AsyncClient, world: str, subtests: pytest.Subtests
) -> None:
    """What the ruleset refuses is a 422 with rule and path, in a list with the index, and nothing is written."""
    gate = draft(kind="EntityCreated", payload={"entity_id": "gate", "entity_data": {}})
    assert (await client.post(PATH, json=gate)).status_code == 201
    for kind, payload, rule, path in _SANDBOX:
        with subtests.test(kind=kind, payload=str(payload)):
            bad = draft(kind=kind, payload=payload)
            found = problem(await client.post(PATH, json=bad), 422, "illegal_effect", rule=rule, path=path)
            assert (found["recovery"], found.get("index")) == ("modify_intent", None)
            for drafts, index in (([draft(), draft(), bad], 2), ([bad], 0)):
                response = await client.post(PATH, json=drafts)
                problem(response, 422, "illegal_effect", rule=rule, path=path, index=index)
    assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 2


async def test_a_draft_is_judged_by_those_before_it(client: httpx2.AsyncClient, world: str) -> None:
    """Within a list a draft follows the earlier ones; what they made legal is legal."""
    drafts = [
        draft(kind="EntityCreated", payload={"entity_id": "gate", "entity_data": {"open": False}}),
        draft(kind="EntityUpdated", payload={"entity_id": "gate", "patch": [{"op": "remove", "path": "/open"}]}),
        draft(kind="EntityRemoved", payload={"entity_id": "gate"}),
    ]
    problem(await client.post(PATH, json=drafts[1:]), 422, "illegal_effect", rule="unknown_entity", index=0)
    assert (await client.post(PATH, json=drafts)).status_code == 201
    problem(await client.post(PATH, json=drafts[2]), 422, "illegal_effect", rule="unknown_entity")


async def test_a_refused_draft_does_not_use_up_its_key(client: httpx2.AsyncClient, world: str) -> None:
    """After an illegal draft its req_id is free; and what was accepted is answered again, legal or not by now."""
    create = draft(kind="EntityCreated", payload={"entity_id": "gate", "entity_data": {}}, req_id="r1")
    problem(
        await client.post(PATH, json=draft(kind="EntityRemoved", payload={"entity_id": "gate"}, req_id="r1")),
        422,
        "illegal_effect",
    )
    first = await client.post(PATH, json=create)
    again = await client.post(PATH, json=create)
    assert (first.status_code, again.status_code) == (201, 200)
