"""A world's own time over HTTP: under an authority only its adapter moves it, and only forward."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .helpers import WorldClient, draft, problem
from .living import new_world

pytestmark = pytest.mark.asyncio(loop_scope="module")

TIME = "time"
AUTHORITY = "time-authority"


async def _sim_time(client: WorldClient) -> float:
    found: float = (await client.get("")).json()["sim_time"]
    return found


async def test_an_adapter_moves_time(client: WorldClient) -> None:
    """Once an adapter has the authority, its ticks are effects that move sim_time."""
    await client.post("/v1/worlds", json={"world_id": client.world, "time_authority": "client"})
    answer = await client.put(AUTHORITY, json={"authority": "unity"})
    assert (answer.status_code, answer.json()) == (200, {"authority": "unity", "offset": 0.0, "global_seq": 2})
    for n in (1, 2.5, 2.5):
        tick = await client.post(TIME, json={"adapter": "unity", "sim_time": n})
        assert tick.status_code == 201
        assert tick.json().keys() == {"global_seq", "uuid", "checksum", "replayed"}
        effect = (await client.get(tick.headers["location"])).json()
        assert (effect["kind"], effect["sim_time"]) == ("WorldTimeSet", float(n))
        assert await _sim_time(client) == n


async def test_time_is_handed_over(client: WorldClient) -> None:
    """In a world made with defaults an engine that counts from 0.0 takes over, gives back, and so does another."""
    await new_world(client)
    taken = (await client.put(AUTHORITY, json={"authority": "unity"})).json()
    start = await _sim_time(client)
    assert taken["offset"] == start < 1e6
    tick = await client.post(TIME, json={"adapter": "unity", "sim_time": 2.5})
    effect = (await client.get(tick.headers["location"])).json()
    assert (effect["sim_time"], effect["payload"]) == (start + 2.5, {"adapter": "unity", "time": 2.5})
    await client.put(AUTHORITY, json={"authority": "none"})
    now = await _sim_time(client)
    assert now == start + 2.5
    taken = await client.put(AUTHORITY, json={"authority": "unreal", "zero": now + 1000})
    assert taken.json()["offset"] == now + 1000
    assert (await client.post(TIME, json={"adapter": "unreal", "sim_time": 1.0})).status_code == 201
    assert await _sim_time(client) == now + 1001.0
    late = problem(await client.post(TIME, json={"adapter": "unreal", "sim_time": -1}), 409, "sim_time_order")
    assert late["expected_min"] == pytest.approx(1.0)


async def test_who_has_the_authority_is_told(client: WorldClient) -> None:
    """With what is added to its time, since when, and whether it is heard."""
    await new_world(client)
    first = (await client.get(AUTHORITY)).json()
    genesis = (await client.get("effects/1")).json()
    offset = -genesis["payload"]["time_zero"]
    quiet = {"last_tick_seq": None, "silence": None}
    assert first == {"authority": "wall", "offset": offset, "since_seq": 1, **quiet}
    await client.put(AUTHORITY, json={"authority": "unity", "zero": 7})
    now = (await client.get(AUTHORITY)).json()
    assert now == {"authority": "unity", "offset": 7.0, "since_seq": 2, **quiet}
    tick = (await client.post(TIME, json={"adapter": "unity", "sim_time": 1})).json()
    assert (await client.get(AUTHORITY)).json() == {**now, "last_tick_seq": tick["global_seq"]}
    problem(await client.get("/v1/worlds/nowhere/time-authority"), 404, "world_not_found")


async def test_an_adapter_takes_over_from_a_silent_one_alone(client: WorldClient) -> None:
    """Where it does not force it; who operates the world may always set it."""
    await client.post("/v1/worlds", json={"world_id": client.world, "orchestrator": {"authority_silence_s": 0.05}})
    await client.put(AUTHORITY, json={"authority": "unity"})
    tick = (await client.post(TIME, json={"adapter": "unity", "sim_time": 1})).json()
    async with asyncio.timeout(60):
        while (now := (await client.get(AUTHORITY)).json())["silence"] is None or now["last_tick_seq"] is None:
            await asyncio.sleep(0.01)
    assert now["silence"] == {
        "authority": "unity",
        "last_tick_seq": tick["global_seq"],
        "reason": "no_tick",
        "global_seq": now["silence"]["global_seq"],
    }
    assert (await client.put(AUTHORITY, json={"authority": "unreal", "force": False})).status_code == 200
    other = f"village-of-{client.world}"
    await client.post("/v1/worlds", json={"world_id": other, "time_authority": "unity"})
    village = f"/v1/worlds/{other}/time-authority"
    held = problem(await client.put(village, json={"authority": "unreal", "force": False}), 409, "time_authority_held")
    assert held["time_authority"] == "unity"
    for name in ("unreal", "none"):
        assert (await client.put(village, json={"authority": name})).status_code == 200
    problem(
        await client.put(village, json={"authority": "unity", "force": "yes"}),
        422,
        path="$.force",
        code="invalid_effect",
    )


async def test_nobody_else_moves_time(client: WorldClient) -> None:
    """A foreign adapter, a time before and a draft with a time of its own are refused."""
    await client.post("/v1/worlds", json={"world_id": client.world, "time_authority": "unity"})
    assert (await client.post(TIME, json={"adapter": "unity", "sim_time": 10.0})).status_code == 201
    foreign = problem(await client.post(TIME, json={"adapter": "unreal", "sim_time": 11.0}), 422, "time_authority")
    assert (foreign["path"], "PUT …/time-authority" in foreign["detail"]) == ("$.adapter", True)
    problem(await client.post(TIME, json={"adapter": "unity", "sim_time": 9.0}), 409, "sim_time_order")
    stated = problem(await client.post("effects", json=draft(sim_time=12.0)), 422, "time_authority")
    assert (stated["path"], "leave sim_time out" in stated["detail"]) == ("$.sim_time", True)
    assert await _sim_time(client) == 10.0


async def test_the_clock_may_have_it_back(client: WorldClient) -> None:
    """With `none` the wall clock sets sim_time again, and no adapter does."""
    await new_world(client)
    await client.put(AUTHORITY, json={"authority": "unreal"})
    assert (await client.put(AUTHORITY, json={"authority": "none"})).json()["authority"] == "none"
    refused = problem(await client.post(TIME, json={"adapter": "unreal", "sim_time": 1e12}), 422, "time_authority")
    assert (refused["path"], "PUT …/time-authority" in refused["detail"]) == ("$.adapter", True)
    assert "leave sim_time out" not in refused["detail"]


_NO_TICKS: list[tuple[Any, str]] = [
    ([], "$"),
    ({}, "$.adapter"),
    ({"adapter": "unity"}, "$.sim_time"),
    ({"adapter": "unity", "sim_time": "1"}, "$.sim_time"),
    ({"adapter": "unity", "sim_time": None}, "$.sim_time"),
    ({"adapter": 7, "sim_time": 1}, "$.adapter"),
    ({"adapter": [], "sim_time": 1}, "$.adapter"),
    ({"adapter": "No Name", "sim_time": 1}, "$.adapter"),
    ({"adapter": "worldledger", "sim_time": 1}, "$.adapter"),
    ({"adapter": "unity", "sim_time": 1, "speed": 2}, "$.speed"),
]
_NO_AUTHORITIES: list[tuple[Any, str]] = [
    ({}, "$.authority"),
    ({"authority": None}, "$.authority"),
    ({"authority": ["unity"]}, "$.authority"),
    ({"authority": "worldledger"}, "$.authority"),
    ({"authority": "No Name"}, "$.authority"),
    ({"authority": ""}, "$.authority"),
    ({"authority": "unity", "since": 1}, "$.since"),
    ({"authority": "unity", "zero": "0"}, "$.zero"),
    ({"authority": "unity", "zero": True}, "$.zero"),
    ({"authority": "none", "zero": 0}, "$.zero"),
]


async def test_what_is_no_tick_is_refused(client: WorldClient, subtests: pytest.Subtests) -> None:
    """A refusal names the place of what is wrong."""
    await client.post("/v1/worlds", json={"world_id": client.world, "time_authority": "unity"})
    for body, path in _NO_TICKS:
        with subtests.test(body=body):
            problem(await client.post(TIME, json=body), 422, "invalid_effect", path=path)


async def test_what_is_no_authority_is_refused(client: WorldClient, subtests: pytest.Subtests) -> None:
    """A refusal names the place of what is wrong, and the authority stays."""
    await new_world(client)
    for body, path in _NO_AUTHORITIES:
        with subtests.test(body=body):
            problem(await client.put(AUTHORITY, json=body), 422, "invalid_effect", path=path)
            assert (await client.get("")).json()["head_seq"] == 1


async def test_an_unknown_world_has_no_time(client: WorldClient) -> None:
    """Both routes say so of a world that is not there."""
    problem(await client.post(TIME, json={"adapter": "unity", "sim_time": 1}), 404, "world_not_found")
    problem(await client.put(AUTHORITY, json={"authority": "unity"}), 404, "world_not_found")
