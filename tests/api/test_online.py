"""The agents online in a world, for operators: the sockets, generations and refusals that one process knows of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .helpers import Served, WorldClient, problem, started
from .living import INTENTS, intent, new_world, of, register, socket_of

pytestmark = pytest.mark.asyncio(loop_scope="module")

ONLINE = "online"


async def _online(client: WorldClient) -> dict[str, Any]:
    response = await client.get(ONLINE)
    assert response.status_code == 200, response.text
    assert response.headers["cache-control"] == "no-store"
    found: dict[str, Any] = response.json()
    return found


async def _until(client: WorldClient, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    """Ask until something holds; the limit only turns a hang into a failure."""
    async with asyncio.timeout(60):
        while not holds(found := await _online(client)):
            await asyncio.sleep(0.005)
    return found


async def test_a_socket_is_online_until_it_closes(served: Served, inhabited: WorldClient) -> None:
    """Of two registered agents the one with a socket is online, with the view that it may know, until it leaves."""
    assert (await _online(inhabited))["agents"] == []
    async with socket_of(served) as alice:
        found = await _online(inhabited)
        assert found["is_open"]
        assert found["agents_online"] == 1
        (shown,) = found["agents"]
        view_seq = alice.hello["view_seq"]
        assert shown == {"agent_id": "alice", "readers": 1, "queued": 0, "view_seq": view_seq, "generations": []}
    await _until(inhabited, lambda found: found["agents"] == [])


async def test_generations_are_told_while_they_are_under_way(client: WorldClient) -> None:
    """An agent without a connection is online while it generates; a cancelled generation is counted."""
    await new_world(client)
    await register(client, "alice")
    for req_id in ("g", "h"):
        await client.post(of("alice", "generations"), json={"req_id": req_id})
    (shown,) = (await _online(client))["agents"]
    begun = [{"req_id": req_id, "context_seq": 2, "is_here": True} for req_id in ("g", "h")]
    assert shown == {"agent_id": "alice", "readers": 0, "queued": 0, "view_seq": None, "generations": begun}
    await client.delete(of("alice", "generations", "g"))
    await client.post(of("alice", "generations", "h", "finish"))
    found = await _online(client)
    assert (found["agents"], found["generations_cancelled"]) == ([], 1)


async def test_generations_of_another_process_are_told_as_such(client: WorldClient, database_url: str) -> None:
    """What another process has begun the log tells, up to the effect that the answer names."""
    await new_world(client)
    await register(client, "alice")
    async with started(database_url) as elsewhere:
        elsewhere.world = client.world
        await elsewhere.post(of("alice", "generations"), json={"req_id": "g"})
        found = await _until(client, lambda found: found["seq"] > 2)
    (shown,) = found["agents"]
    assert shown["generations"] == [{"req_id": "g", "context_seq": 2, "is_here": False}]


async def test_refusals_are_counted_by_code(client: WorldClient) -> None:
    """Each refused intent counts for its world, alone and in lists; accepted ones do not."""
    await new_world(client)
    await register(client, "alice", permissions=["submit_intent", "intent:speak"])
    await client.post(INTENTS, json=intent("r1"))
    await client.post(INTENTS, json=intent("r2", kind="Move", payload={"to": [1, 2]}))
    several = [intent("r3"), intent("r4", kind="Move", payload={"to": [1, 2]}), intent("r5", agent_id="nobody")]
    await client.post(INTENTS, json=several)
    assert (await _online(client))["refused"] == {"permission_denied": 2, "unknown_agent": 1}


async def test_asking_opens_no_world(client: WorldClient) -> None:
    """A world that no agent has used stays closed, and nobody is online; a world that is not there is not found."""
    await client.post("/v1/worlds", json={"world_id": client.world})
    found = await _online(client)
    assert (found["is_open"], found["seq"], found["agents"]) == (False, 0, [])
    assert not (await _online(client))["is_open"]
    problem(await client.get("/v1/worlds/nowhere/online"), 404, "world_not_found")
