"""The law of what agents are answered, over HTTP and the WebSocket: two worlds that differ in what A cannot see.

Both have the same number, kinds and times of effects. A sends both the same, and is answered by the same bytes: its
intents, its routes, its socket. Names of worlds and uuids are the only things that are told apart. The law for
generated worlds is in tests/rules/test_answering.py.
"""

from __future__ import annotations

import re
from typing import Any

import httpx2
import pytest

from .helpers import Served, draft
from .living import socket_of

KEY = "0123456789abcdef0123456789abcdef"


def created(name: str, *position: float, **data: Any) -> dict[str, Any]:
    """Make the draft of an entity."""
    payload: dict[str, Any] = {"entity_id": name, "entity_data": data}
    return draft(kind="EntityCreated", payload=payload | ({"position": list(position)} if position else {}))


def custom(kind: str, **payload: Any) -> dict[str, Any]:
    """Make an intent of a kind of its own."""
    return {"kind": "Custom", "payload": {"kind": kind, **payload}}


def patch(kind: str, *operations: tuple[Any, ...], **payload: Any) -> dict[str, Any]:
    """Make an intent that patches."""
    names = ("op", "path", "value")
    return custom(kind, patch=[dict(zip(names, each, strict=False)) for each in operations], **payload)


def sandbox(gold: int, x: float, key: str, secret: Any) -> dict[str, Any]:
    """Return a sandbox: A sees as far as 50, and no field called secret."""
    policy = {"name": "default", "config": {"distance_limit": 50, "field_visibility": {"secret": False}}}
    return {
        "world": {"ruleset": "sandbox"},
        "policy": policy,
        "before": [
            created("A", 0, 0, secret=secret, hp=3),
            created("near", 1, 1, hp=1, secret={key: gold}),
            created(key, x, 0, gold=gold),
            draft(kind="Explosion", payload={"position": [x, 0, 0], "by": key}),
            draft(kind="Speak", payload={"text": key, "private": True, "target_id": "near"}, source_id=key),
            draft(kind="Move", payload={"agent_id": "A", "to": [2, 2]}, source_id=key),
        ],
    }


SANDBOX_INTENTS = [
    {"kind": "Move", "payload": {"to": [5, 5], "from": [0, 0]}},
    {"kind": "Move", "payload": {"to": [5, 5], "from": [2, 2]}},
    custom("EntityCreated", entity_id="near", entity_data={}),
    patch("EntityUpdated", ("remove", "/secret/nothing"), ("remove", "/hp/x"), entity_id="near"),
    patch("EntityUpdated", ("test", "/secret/gold", 7), ("replace", "/position", "x"), entity_id="near"),
    patch("EntityUpdated", ("test", "/secret/nothing", 7), entity_id="near"),
    patch("EntityUpdated", ("remove", "/hp"), entity_id="nobody"),
    custom("EntityRemoved", entity_id="nobody"),
    {"kind": "Speak", "payload": {"text": "hello", "private": True}},
    {"kind": "Speak", "payload": {"text": "hello"}},
]


def simulation(note: str, plan: list[int], other: float, until: int) -> dict[str, Any]:
    """Return a simulation whose A is external of itself, and of nobody else."""
    variables = {
        "gold": {"type": "float", "default": 1},
        "note": {"type": "str"},
        "plan": {"type": "list", "item_type": "int", "max_length": 5},
        "position": {"type": "tuple", "item_types": ["float", "float"], "default": [0, 0]},
    }
    config = {
        "simulation": {"name": "s"},
        "agents": [
            {"name": "A", "state": {"note": note, "plan": plan, "position": [other, 4]}},
            {"name": "B", "state": {"gold": other}},
        ],
        "state_variables": {"agent_vars": variables},
        "observability": {
            "enabled": True,
            "variable_visibility": {"external": ["gold"], "internal": ["note", "plan", "position"]},
            "matrix": [["A", "A", "external", 0.0]],
        },
    }
    changed = {"agent_id": "B", "patch": [{"op": "replace", "path": "/gold", "value": other + 1}]}
    return {
        "world": {"ruleset": "simulation", "config": config},
        "policy": None,
        "before": [
            draft(kind="TurnStarted", payload={}, source_id="engine"),
            draft(kind="AgentStateChanged", payload=changed, source_id="engine"),
            draft(kind="AgentPaused", payload={"agent_id": "A", "turns": until}, source_id="engine"),
        ],
    }


SIMULATION_INTENTS = [
    {"kind": "Move", "payload": {"to": [5, 5], "from": [9, 9]}},
    patch("AgentStateChanged", ("replace", "/gold", 2)),
    patch("AgentStateChanged", ("remove", "/note/x"), ("replace", "/gold", "x")),
    patch("AgentStateChanged", ("add", "/plan/9", 1)),
    patch("AgentStateChanged", ("test", "/note", "x")),
    patch("AgentStateChanged", ("replace", "/gold", 2), agent_id="B"),
    custom("TurnEnded"),
    custom("ReasoningRecorded", reasoning="so"),
]

PAIRS = {
    "sandbox": (sandbox(7, 1000.0, "ghost", "a"), sandbox(12345, 60.0, "other", [1, 2, 3]), SANDBOX_INTENTS),
    "simulation": (simulation("", [1, 2, 3], 33.0, 2), simulation("long", [], 5.5, 3), SIMULATION_INTENTS),
}


def _plain(data: bytes | str, world: str) -> str:
    text = data.decode() if isinstance(data, bytes) else data
    text = text.replace(f"/worlds/{world}/", "/worlds/W/").replace(f'"world_id":"{world}"', '"world_id":"W"')
    return re.sub(r'"uuid":"[0-9a-f]{32}"', '"uuid":"U"', text)


async def _play(client: httpx2.AsyncClient, served: Served, name: str, told: dict[str, Any], intents: list[Any]) -> Any:
    """Have A live in a world; return all that it is answered."""
    how = {"staleness_threshold": 1000, "record_rejections": True, "intents_per_s": 1000.0}
    created = await client.post(
        "/v1/worlds", json={"world_id": name, "time_authority": "client", "orchestrator": how, **told["world"]}
    )
    assert created.status_code == 201, created.text
    base = f"/v1/worlds/{name}"
    for each in told["before"]:
        posted = await client.post(f"{base}/effects", json=each)
        assert posted.status_code == 201, posted.text
    said: list[str] = []

    def hear(response: httpx2.Response) -> None:
        said.append(f"{response.status_code} {_plain(response.content, name)}")

    if told["policy"] is not None:
        hear(await client.post(f"{base}/agents", json={"agent_id": "A", "policy": told["policy"]}))
    view = (await client.get(f"{base}/agents/A/view")).json()
    made = [{**each, "agent_id": "A", "context_seq": view["view_seq"]} for each in intents]
    for number, each in enumerate(made):
        for _ in range(2):
            hear(await client.post(f"{base}/intents", json={**each, "req_id": f"r{number}"}))
    for atomic in (True, False):
        body = {"intents": [{**each, "req_id": f"{atomic}{at}"} for at, each in enumerate(made[2:])], "atomic": atomic}
        hear(await client.post(f"{base}/intents", json=body))
    hear(await client.post(f"{base}/agents/A/generations", json={"req_id": "g"}))
    for path in (
        "",
        "/view",
        "/view?at_seq=9999",
        "/events",
        "/observations?after=2",
        "/generations/g",
        "/generations/x",
    ):
        if told["policy"] is not None or path:  # whose policy has the world's own key
            hear(await client.get(f"{base}/agents/A{path}"))
    heard: list[str] = []
    async with socket_of(served, "A", query="?view_seq=4", world=name) as opened:
        asked: list[tuple[str, dict[str, Any]]] = [
            *(("intent", {"intent": {**each, "req_id": f"w{number}"}}) for number, each in enumerate(made)),
            ("view", {"at_seq": 9999}),
            ("generation", {"req_id": "h"}),
        ]
        for number, (kind, body) in enumerate(asked):
            await opened.send(kind, **body, id=number)
            while not heard or f'"id":{number},' not in heard[-1]:
                heard.append(_plain(await opened.connection.recv(), name))
    return said, sorted(each for each in heard if '"type":"observation"' not in each)


@pytest.mark.parametrize("which", PAIRS)
async def test_what_a_cannot_see_it_is_not_told(which: str, remote: httpx2.AsyncClient, served: Served) -> None:
    """Every answer is the same, to the byte; the operators of the two worlds are told of each refusal in full."""
    one, other, intents = PAIRS[which]
    answers = [await _play(remote, served, name, told, intents) for name, told in (("one", one), ("two", other))]
    assert answers[0][0] == answers[1][0]
    assert answers[0][1] == answers[1][1]
    assert any('"rule":"hidden"' in each for each in answers[0][0])
    logs = []
    for name in ("one", "two"):
        effects = (await remote.get(f"/v1/worlds/{name}/effects", params={"kind": "IntentRejected"})).json()["effects"]
        logs.append([effect["payload"]["rule"] for effect in effects])
        assert "hidden" not in logs[-1]
    assert len(logs[0]) == len(logs[1])
