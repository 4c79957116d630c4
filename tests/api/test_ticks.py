"""Worlds that are ordered by ticks, over HTTP and WebSockets: intents are held, and ticks decide them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio

from .helpers import Served, WorldClient, problem
from .living import INTENTS, intent, register, socket_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIME = "time"
TICKS = "ticks"


async def _ticking(client: WorldClient, authority: str = "unity", **orchestrator: Any) -> None:
    config = {"staleness_threshold": 1_000_000, "view_digest_every": 0, **orchestrator}
    body = {"world_id": client.world, "time_authority": authority, "order": "tick", "orchestrator": config}
    response = await client.post("/v1/worlds", json=body)
    assert response.status_code == 201, response.text
    await register(client, "alice", "bob")
    await register(client, "mute", permissions=["submit_intent"])


@pytest_asyncio.fixture(loop_scope="module")
async def town(client: WorldClient) -> WorldClient:
    """Return a client of a world that is ordered by ticks, in which alice, bob and mute live."""
    await _ticking(client)
    return client


async def _requests(client: WorldClient) -> list[str]:
    """Return the req_ids of what agents did, in the log's order."""
    page = (await client.get("effects", params={"limit": 1000})).json()
    return [effect["req_id"] for effect in page["effects"] if effect["source_id"] in {"alice", "bob", "mute"}]


async def test_an_intent_is_held_and_then_told_of(town: WorldClient) -> None:
    """202 while it is held; after the tick the same again is 200 with its effect, or the problem that refused it."""
    held = await town.post(INTENTS, json=intent("r1"))
    told = {"held": True, "agent_id": "alice", "req_id": "r1", "tick": 1, "order": 1, "replayed": False}
    assert (held.status_code, held.json()) == (202, told)
    assert (await town.post(INTENTS, json=intent("r1"))).json() == {**told, "replayed": True}
    assert (await town.post(INTENTS, json=intent("r1", agent_id="mute"))).status_code == 202
    other = await town.post(INTENTS, json=intent("r1", payload={"text": "else"}))
    problem(other, 422, "request_conflict", req_id="r1")
    tick = await town.post(TIME, json={"adapter": "unity", "sim_time": 1.5})
    assert tick.status_code == 201
    assert {name: tick.json()[name] for name in ("tick", "accepted", "refused")} == {
        "tick": 1,
        "accepted": 1,
        "refused": 1,
    }
    decided = await town.post(INTENTS, json=intent("r1"))
    assert (decided.status_code, decided.headers["idempotency-replayed"]) == (200, "true")
    refused = await town.post(INTENTS, json=intent("r1", agent_id="mute"))
    problem(refused, 403, "permission_denied", agent_id="mute", permission="intent:speak")


async def test_waiting_for_the_tick(town: WorldClient) -> None:
    """With wait the answer comes with the tick: 201, or the problem; where no tick comes in time it is 202."""
    assert (await town.post(INTENTS, json=intent("r0"), params={"wait": "0.01"})).status_code == 202
    waits = [
        asyncio.create_task(town.post(INTENTS, json=intent("r1", agent_id=agent_id), params={"wait": "30"}))
        for agent_id in ("alice", "mute")
    ]
    while (await town.post(INTENTS, json=intent("r1"))).json()["replayed"] is False:
        pass
    while (await town.post(INTENTS, json=intent("r1", agent_id="mute"))).json()["replayed"] is False:
        pass
    await town.post(TIME, json={"adapter": "unity", "sim_time": 1})
    accepted, refused = await asyncio.gather(*waits)
    assert accepted.status_code in {200, 201}
    assert (await town.get(f"effects/{accepted.json()['global_seq']}")).json()["req_id"] == "r1"
    problem(refused, 403, "permission_denied")
    for wrong in ("-1", "1000", "soon", "NaN"):
        answer = await town.post(INTENTS, json=intent("r2"), params={"wait": wrong})
        problem(answer, 422, "invalid_parameter", parameter="wait")


async def test_lists_are_held(town: WorldClient) -> None:
    """A list is 202 with each of its intents held or refused; ordered or not, and atomic, as it says."""
    mixed = [intent("b", agent_id="bob"), intent("a2", order=2), {"kind": "Sing"}, intent("a1", order=1)]
    held = await town.post(INTENTS, json={"intents": mixed})
    assert held.status_code == 202
    assert [each.get("held", each.get("code")) for each in held.json()["results"]] == [
        True,
        True,
        "invalid_intent",
        True,
    ]
    loose = [intent("z", agent_id="bob"), intent("c2", order=9), intent("c1", order=8)]
    await town.post(INTENTS, json={"intents": loose, "ordered": False})
    atomic = {"intents": [intent("x"), intent("y", agent_id="mute")], "atomic": True}
    assert (await town.post(INTENTS, json=atomic)).status_code == 202
    await town.post(TIME, json={"adapter": "unity", "sim_time": 1})
    assert await _requests(town) == ["b", "a2", "a1", "c1", "c2", "z"]
    problem(await town.post(INTENTS, json=atomic), 403, "permission_denied", index=1)
    again = await town.post(INTENTS, json={"intents": [mixed[0], mixed[1]]})
    assert (again.status_code, [each["replayed"] for each in again.json()["results"]]) == (200, [True, True])
    wrong = await town.post(INTENTS, json={"intents": loose, "ordered": 1})
    problem(wrong, 422, "invalid_intent", path="$.ordered")


async def test_a_list_waits_for_the_tick(town: WorldClient) -> None:
    """A list that waits is answered with what became of each, once the tick has decided."""
    values = {"intents": [intent("r1"), intent("r2", agent_id="mute")]}
    waiting = asyncio.create_task(town.post(INTENTS, json=values, params={"wait": "30"}))
    while (await town.post(INTENTS, json=values)).json()["results"][0]["replayed"] is False:
        pass
    await town.post(TIME, json={"adapter": "unity", "sim_time": 1})
    first, second = (await waiting).json()["results"]
    assert (first["req_id"], second["code"]) == ("r1", "permission_denied")


async def test_ticks_are_closed_without_an_adapter(client: WorldClient) -> None:
    """Where no adapter has the authority anybody closes ticks; where one has, it alone; by arrival there are none."""
    await _ticking(client, "wall")
    await client.post(INTENTS, json=intent("r1"))
    closed = await client.post(TICKS, json={"source": "referee"})
    assert closed.status_code == 201
    assert (closed.json()["tick"], closed.json()["accepted"]) == (1, 1)
    effect = (await client.get(closed.headers["location"])).json()
    assert (effect["kind"], effect["payload"]["tick"], effect["source_id"]) == ("WorldTimeSet", 1, "referee")
    await client.put("time-authority", json={"authority": "unity"})
    refused = problem(await client.post(TICKS, json={"source": "referee"}), 422, "time_authority", path="$.source")
    assert "the adapter 'unity' alone closes ticks, not 'referee'" in refused["detail"]
    assert "sim_time" not in refused["detail"]
    problem(await client.post(TICKS, json={"source": 7}), 422, "invalid_effect", path="$.source")
    plain = f"plain-{client.world}"
    await client.post("/v1/worlds", json={"world_id": plain})
    problem(await client.post(f"/v1/worlds/{plain}/ticks", json={"source": "x"}), 422, "invalid_effect")
    problem(await client.post("/v1/worlds/nowhere/ticks", json={"source": "x"}), 404, "world_not_found")


async def test_the_order_stands_in_the_genesis(town: WorldClient) -> None:
    """What a new world is ordered by is arrival or tick, and stands in its genesis."""
    genesis = (await town.get("effects/1")).json()
    assert genesis["payload"]["order"] == "tick"
    for wrong in ("turn", None, 1):
        answer = await town.post("/v1/worlds", json={"world_id": "w", "order": wrong})
        problem(answer, 422, "invalid_config", path="$.order")


async def test_a_socket_is_told_twice(served: Served) -> None:
    """A socket is told that its intent is held, and with the tick that it is accepted or rejected."""
    async with served.client() as client:
        await _ticking(client)
        async with socket_of(served) as alice, socket_of(served, "mute") as mute:
            await alice.send("intent", id=1, intent=intent("r1", agent_id=None))
            held = await alice.receive("held")
            assert held == {
                "type": "held",
                "id": 1,
                "agent_id": "alice",
                "req_id": "r1",
                "tick": 1,
                "order": 1,
                "replayed": False,
            }
            await mute.send("intent", id="m", intent=intent("r1", agent_id=None))
            await mute.receive("held")
            await alice.send("intents", id=2, intents=[intent("r2", agent_id=None), intent("r3", agent_id=None)])
            many = await alice.receive("held")
            assert (many["id"], many["req_id"], many["count"], many["tick"]) == (2, None, 2, 1)
            await alice.send("tick", id=3, adapter="unity", sim_time=1.0)
            told: dict[Any, dict[str, Any]] = {}
            while len(told) < 3:
                message = await alice.receive()
                if "id" in message:
                    told[message["id"]] = message
            assert (told[1]["type"], told[1]["req_id"], told[1]["replayed"]) == ("accepted", "r1", False)
            assert [each["req_id"] for each in told[2]["results"]] == ["r2", "r3"]
            assert (told[3]["tick"], told[3]["accepted"], told[3]["refused"]) == (1, 3, 1)
            rejected = await mute.receive("rejected")
            assert (rejected["id"], rejected["problem"]["code"]) == ("m", "permission_denied")
            await alice.send("close_tick", id=4, source="unity")
            assert (await alice.receive("accepted"))["tick"] == 2
            await alice.send("close_tick", id=5, source=None)
            assert (await alice.receive("error"))["problem"]["path"] == "$.source"


async def test_more_are_held_than_may_be_under_way(served: Served) -> None:
    """What is held does not count as under way: a socket may hold a thousand intents and then tick."""
    async with served.client() as client:
        await _ticking(client)
        async with socket_of(served) as alice:
            for number in range(600):
                await alice.send("intent", id=number, intent=intent(f"r{number}", agent_id=None))
            await alice.send("intents", id="list", intents=[intent(f"l{n}", agent_id=None) for n in range(300)])
            await alice.receive("held")
            for _ in range(600):
                await alice.receive("held")
            await alice.send("tick", id="tick", adapter="unity", sim_time=1.0)
            while (message := await alice.receive()).get("id") != "tick":
                pass
            assert message["accepted"] == 900
