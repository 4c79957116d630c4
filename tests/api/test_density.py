"""Density: how many effects of each kind there are along a log."""

from __future__ import annotations

from collections import Counter
from typing import Any
from unittest import mock

import httpx2
import pytest
from worldledger_service.api.context import Services

from .helpers import catch_up, draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

KINDS = ("Walk", "Talk", "Trade")


async def _fill(client: httpx2.AsyncClient, world: str, count: int, first: int = 0) -> None:
    drafts = [draft(kind=KINDS[n * n % 7 % 3], sim_time=float(n * n // 100)) for n in range(first, first + count)]
    response = await client.post(f"/v1/worlds/{world}/effects", json=drafts)
    assert response.status_code == 201, response.text


async def _density(client: httpx2.AsyncClient, world: str, **params: Any) -> dict[str, Any]:
    response = await client.get(f"/v1/worlds/{world}/density", params=params)
    assert response.status_code == 200, response.text
    found: dict[str, Any] = response.json()
    return found


async def _assert_counts(client: httpx2.AsyncClient, world: str, found: dict[str, Any]) -> None:
    """Compare the bins with the effects themselves."""
    effects = (await client.get(f"/v1/worlds/{world}/effects?limit=1000")).json()["effects"]
    begin = 0
    for place, end in enumerate(found["bins"]["end_seq"]):
        part = effects[begin:end]
        shown = {kind: counts[place] for kind, counts in found["kinds"].items() if counts[place]}
        counted = Counter(effect["kind"] for effect in part)
        assert shown == {kind: counted[kind] for kind in found["kinds"] if counted[kind]}
        assert sum(counted.values()) == sum(shown.values()) + found["other_kinds"][place]
        assert found["bins"]["end_sim_time"][place] == effects[max(end, 1) - 1]["sim_time"]
        begin = end
    assert begin == found["through_seq"]
    columns = [*found["bins"].values(), *found["kinds"].values(), found["other_kinds"]]
    assert {len(column) for column in columns} == {len(found["bins"]["end_seq"])}


async def test_bins_count_the_effects_of_each_kind(client: httpx2.AsyncClient, world: str) -> None:
    """All bins have as many effects, give or take one, and the counts are those of the log."""
    await _fill(client, world, 99)
    found = await _density(client, world, bins=7)
    assert (found["world_id"], found["by"], found["through_seq"], found["step"]) == (world, "seq", 100, 1)
    assert found["bins"]["end_seq"] == found["bins"]["end"] == [14, 28, 42, 57, 71, 85, 100]
    await _assert_counts(client, world, found)
    totals = [sum(counts) for counts in found["kinds"].values()]
    assert totals == sorted(totals, reverse=True)
    assert len((await _density(client, world))["other_kinds"]) == 100
    assert (await _density(client, world, bins=1))["bins"]["end_seq"] == [100]


async def test_effects_are_counted_up_to_a_seq(client: httpx2.AsyncClient, world: str) -> None:
    """The bins cover the log up to the seq and count nothing behind it; a seq beyond the head is the head."""
    await _fill(client, world, 99)
    found = await _density(client, world, bins=4, until_seq=50)
    assert (found["through_seq"], found["bins"]["end_seq"]) == (50, [12, 25, 37, 50])
    await _assert_counts(client, world, found)
    assert (await _density(client, world, bins=4, until_seq=500)) == await _density(client, world, bins=4)


async def test_bins_of_equal_time_may_be_empty(client: httpx2.AsyncClient, world: str) -> None:
    """Bins by sim_time are as wide in time; where nothing happened for long they have no effects."""
    await _fill(client, world, 40)
    await _fill(client, world, 5, first=200)
    found = await _density(client, world, bins=10, by="sim_time")
    last = 204 * 204 // 100
    assert found["bins"]["end"] == pytest.approx([last * (n + 1) / 10 for n in range(10)])
    await _assert_counts(client, world, found)
    assert found["bins"]["end_seq"][1:5] == [41] * 4
    assert found["bins"]["end_seq"][-1] == 46


async def test_bins_of_turns_end_with_a_turn(client: httpx2.AsyncClient) -> None:
    """Bins by a unit of the ruleset have as many units, and end before the next one begins."""
    config = {
        "simulation": {"name": "s"},
        "agents": ["Ann"],
        "state_variables": {"agent_vars": {"gold": {"type": "int", "default": 0}}},
    }
    body = {"world_id": "turns", "ruleset": "simulation", "config": config}
    assert (await client.post("/v1/worlds", json=body)).status_code == 201
    for turn in range(1, 7):
        patch = [{"op": "replace", "path": "/gold", "value": turn}]
        drafts = [
            draft(kind="TurnStarted", payload={"turn": turn}, source_id="engine"),
            *[draft(kind="AgentStateChanged", payload={"agent_id": "Ann", "patch": patch}, source_id="engine")] * turn,
            draft(kind="TurnEnded", payload={"turn": turn}, source_id="engine"),
        ]
        response = await client.post("/v1/worlds/turns/effects", json=drafts)
        assert response.status_code == 201, response.text
    found = await _density(client, "turns", by="turn")
    assert found["bins"]["end"] == [0, 1, 2, 3, 4, 5, 6]
    assert found["kinds"]["TurnStarted"] == [0, 1, 1, 1, 1, 1, 1]
    assert found["kinds"]["AgentStateChanged"] == [0, 1, 2, 3, 4, 5, 6]
    await _assert_counts(client, "turns", found)
    few = await _density(client, "turns", by="turn", bins=3)
    assert few["bins"]["end"] == [1, 3, 6]
    assert few["kinds"]["TurnEnded"] == [1, 2, 3]


async def test_what_bins_cannot_be_by(client: httpx2.AsyncClient, world: str) -> None:
    """A unit that the world's ruleset does not declare is refused, with those that there are."""
    problem(await client.get(f"/v1/worlds/{world}/density?by=turn"), 422, "invalid_parameter", parameter="by")
    problem(await client.get(f"/v1/worlds/{world}/density?bins=0"), 422, "invalid_parameter", parameter="bins")
    problem(await client.get("/v1/worlds/nowhere/density"), 404, "world_not_found")


async def test_counts_that_are_known_are_not_sent_again(client: httpx2.AsyncClient, world: str) -> None:
    """The ETag holds as long as the counts do."""
    await _fill(client, world, 9)
    path = f"/v1/worlds/{world}/density"
    tag = {"If-None-Match": (await client.get(path)).headers["etag"]}
    assert (await client.get(path, headers=tag)).status_code == 304
    await _fill(client, world, 1, first=9)
    assert (await client.get(path, headers=tag)).status_code == 200


async def test_a_long_log_is_counted_by_stretches(client: httpx2.AsyncClient, services: Services, world: str) -> None:
    """Of a long log the projection's counts are read; what it has not come to is counted, and the bins are the same."""
    await _fill(client, world, 399)
    with (
        mock.patch("worldledger_service.store.density.COUNTED", 150),
        mock.patch("worldledger_service.store.density.STRETCH", 32),
        mock.patch("worldledger_projections.effect_counts.STRETCH", 32),
    ):
        before = await _density(client, world, bins=4)
        assert (before["through_seq"], before["step"]) == (150, 32)
        await _assert_counts(client, world, before)
        await catch_up(services)
        found = await _density(client, world, bins=4)
        assert (found["through_seq"], found["bins"]["end_seq"]) == (400, [96, 192, 288, 400])
        await _assert_counts(client, world, found)
        await _fill(client, world, 50, first=399)
        found = await _density(client, world, bins=100)
        assert found["bins"]["end_seq"] == [*range(32, 385, 32), 400, 416, 448, 450]
        await _assert_counts(client, world, found)
        by_time = await _density(client, world, bins=5, by="sim_time")
        await _assert_counts(client, world, by_time)
        some = await _density(client, world, bins=100, until_seq=210)
        assert some["bins"]["end_seq"] == [*range(32, 193, 32), 210]
        await _assert_counts(client, world, some)
