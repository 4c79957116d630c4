"""Finding worlds: filters, orders, and how many worlds each choice would leave."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import asyncpg
import httpx2
import pytest
import pytest_asyncio
from worldledger_service.api.context import Services

from .helpers import draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: name, ruleset, experiment, effects, and minutes since the last effect.
WORLDS = [
    ("Alpha-1", "sandbox", "trial%1", 3, 0),
    ("alpha-2", "sandbox", "trial%1", 9, 10),
    ("beta_1", "sandbox", None, 5, 1),
    ("beta-2", "social_rl", "alphabet", 1, 60),
    ("gamma", "social_rl", None, 1, 2),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def town(shared_client: httpx2.AsyncClient, shared_app: Any) -> str:
    """Make the worlds of `WORLDS` as of now; return the name of none."""
    services: Services = shared_app.state.services
    now = services.clock()
    ages = {name: minutes * 60.0 for name, _, _, _, minutes in WORLDS}
    for name, ruleset, experiment, effects, _ in sorted(WORLDS, key=lambda world: -world[4]):
        with mock.patch.object(services.store, "_clock", lambda name=name: now - ages[name]):
            body = {"world_id": name, "ruleset": ruleset, "experiment": experiment}
            assert (await shared_client.post("/v1/worlds", json=body)).status_code == 201
            if effects > 1:
                drafts = [draft(kind="Walk", payload={}) for _ in range(effects - 1)]
                response = await shared_client.post(f"/v1/worlds/{name}/effects", json=drafts)
                assert response.status_code == 201, response.text
    return "nowhere"


async def _names(client: httpx2.AsyncClient, **params: Any) -> list[str]:
    response = await client.get("/v1/worlds", params=params)
    assert response.status_code == 200, response.text
    return [world["world_id"] for world in response.json()["worlds"]]


@pytest.mark.usefixtures("town")
async def test_worlds_are_narrowed_down(client: httpx2.AsyncClient) -> None:
    """By part of the name or experiment, which is no pattern, by ruleset, experiment and whether they are live."""
    for params, names in (
        ({"q": "ALPHA"}, ["Alpha-1", "alpha-2", "beta-2"]),
        ({"q": "l%1"}, ["Alpha-1", "alpha-2"]),
        ({"q": "a_1"}, ["beta_1"]),
        ({"q": "%"}, ["Alpha-1", "alpha-2"]),
        ({"ruleset": "social_rl"}, ["beta-2", "gamma"]),
        ({"ruleset": "social_rl", "q": "alpha"}, ["beta-2"]),
        ({"experiment": "trial%1", "live": "true"}, ["Alpha-1"]),
        ({"live": "true"}, ["Alpha-1", "beta_1", "gamma"]),
        ({"live": "false"}, ["alpha-2", "beta-2"]),
        ({"ruleset": "poker"}, []),
    ):
        assert await _names(client, **params) == names, params


@pytest.mark.usefixtures("town")
async def test_worlds_have_several_orders(client: httpx2.AsyncClient) -> None:
    """By name, or the newest, the most active or the largest first; pages go on behind a world's name in each."""
    for order, names in (
        ("name", ["Alpha-1", "alpha-2", "beta-2", "beta_1", "gamma"]),
        ("active", ["Alpha-1", "beta_1", "gamma", "alpha-2", "beta-2"]),
        ("created", ["Alpha-1", "beta_1", "gamma", "alpha-2", "beta-2"]),
        ("effects", ["alpha-2", "beta_1", "Alpha-1", "beta-2", "gamma"]),
    ):
        assert await _names(client, order=order) == names, order
        for limit in (1, 2, 3):
            found: list[str] = []
            after: str | None = ""
            while after is not None:
                params: dict[str, Any] = {"order": order, "limit": limit, "after": after, "q": "a"}
                page = (await client.get("/v1/worlds", params=params)).json()
                found += [world["world_id"] for world in page["worlds"]]
                after = page["next_after"]
            assert found == names, (order, limit)


@pytest.mark.usefixtures("town")
async def test_facets_count_what_each_choice_would_leave(client: httpx2.AsyncClient) -> None:
    """A facet is counted with all filters but its own; the total with all. Pages do not matter."""
    filters = {"q": "alpha", "ruleset": "sandbox", "experiment": "trial%1", "live": "true"}
    for chosen in itertools.chain.from_iterable(itertools.combinations(filters, size) for size in range(4)):
        params = {name: filters[name] for name in chosen}
        facets = (await client.get("/v1/worlds", params={**params, "facets": "true", "limit": "1"})).json()["facets"]
        assert facets["total"] == len(await _names(client, **params))
        for name, facet in (("ruleset", "rulesets"), ("experiment", "experiments")):
            others = {other: value for other, value in params.items() if other != name}
            counts = {each["value"]: each["worlds"] for each in facets[facet]}
            assert [each["worlds"] for each in facets[facet]] == sorted(counts.values(), reverse=True)
            assert sum(counts.values()) == len(await _names(client, **others))
            for value, worlds in counts.items():
                if value is not None:
                    assert worlds == len(await _names(client, **{**others, name: value}))
        assert facets["live"] == len(await _names(client, **{**params, "live": "true"}))
    assert "facets" not in (await client.get("/v1/worlds")).json()


@pytest.mark.usefixtures("town")
async def test_what_cannot_be_asked_for(client: httpx2.AsyncClient) -> None:
    """An order that there is not, or a world's name that is none, is told or finds nothing."""
    problem(await client.get("/v1/worlds?order=size"), 422, "invalid_parameter", parameter="order")
    problem(await client.get("/v1/worlds?q="), 422, "invalid_parameter", parameter="q")
    problem(await client.get("/v1/worlds?live=perhaps"), 422, "invalid_parameter", parameter="live")
    assert await _names(client, order="active", after="nowhere") == []


async def test_worlds_have_their_activity(client: httpx2.AsyncClient) -> None:
    """With `activity` a world says how its effects lie over its sim_time, all of them counted; else it does not."""
    assert (await client.post("/v1/worlds", json={"world_id": "pulse", "time_authority": "client"})).status_code == 201
    for times in ([0.0] * 3, [90.0] * 4, [100.0] * 2):
        drafts = [draft(kind="Walk", payload={}, sim_time=time) for time in times]
        assert (await client.post("/v1/worlds/pulse/effects", json=drafts)).status_code == 201
    (world,) = (await client.get("/v1/worlds?q=pulse&activity=5")).json()["worlds"]
    assert world["activity"][-1] == 6
    assert sum(world["activity"]) == world["head_seq"] == 10
    (single,) = (await client.get("/v1/worlds?q=pulse&activity=1")).json()["worlds"]
    assert single["activity"] == [10]
    (plain,) = (await client.get("/v1/worlds?q=pulse")).json()["worlds"]
    assert "activity" not in plain
    problem(await client.get("/v1/worlds?activity=101"), 422, "invalid_parameter")


#: What may stand in the tables of a world that was tampered with; the last ones keep the world out of lists.
_TAMPERED = [
    *[
        f"update effects set sim_time = '{time}' where world_id = 'odd' and global_seq = {seq}"
        for time, seq in (("2.5", 4), ("NaN", 4), ("Infinity", 6), ("-Infinity", 2), ("1e308", 7), ("-1e308", 8))
    ],
    "update effects set global_seq = -9223372036854775808 where world_id = 'odd' and global_seq = 5",
    "delete from effects where world_id = 'odd' and global_seq = 10",
    "update heads set head_seq = 9000000000000000000 where world_id = 'odd'",
    "update heads set head_seq = -9223372036854775808 where world_id = 'odd'",
    "update heads set head_seq = 0 where world_id = 'odd'",
    "update heads set wall_time = 'NaN' where world_id = 'odd'",
    "update worlds set created_at = '4000-01-01 BC' where world_id = 'odd'",
]


async def test_a_world_that_was_tampered_with_spoils_no_list(client: httpx2.AsyncClient, database_url: str) -> None:
    """Whatever stands for its times: others are listed beside it, and it has a density as long as it can be read."""
    for name in ("odd", "odder"):
        body = {"world_id": name, "time_authority": "client"}
        assert (await client.post("/v1/worlds", json=body)).status_code == 201
        drafts = [draft(kind="Walk", payload={}, sim_time=n * n * 0.5) for n in range(9)]
        assert (await client.post(f"/v1/worlds/{name}/effects", json=drafts)).status_code == 201
    connection = await asyncpg.connect(database_url)
    try:
        for table in ("effects", "worlds"):
            await connection.execute(f"alter table {table} disable trigger all")
        for change in _TAMPERED:
            assert await connection.execute(change) in {"UPDATE 1", "DELETE 1"}
            for more in ("", "&order=created", "&order=active"):
                found = await client.get(f"/v1/worlds?q=odd&activity=5{more}")
                assert found.status_code == 200, (change, found.text)
                spans = {world["world_id"]: world.get("activity", []) for world in found.json()["worlds"]}
                assert sum(spans["odder"]) == 10
            compared = await client.get("/v1/compare?world=odd&world=odder")
            assert compared.status_code == 200 or compared.json()["code"] == "tampered", (change, compared.text)
            if "odd" in spans:
                assert all(count >= 0 for count in spans["odd"]), change
                for by in ("seq", "sim_time"):
                    density = await client.get(f"/v1/worlds/odd/density?bins=4&by={by}")
                    assert density.status_code == 200, (change, density.text)
                    assert None not in density.json()["bins"]["end_sim_time"]
    finally:
        for table in ("effects", "worlds"):
            await connection.execute(f"alter table {table} enable always trigger {table}_append_only")
            await connection.execute(f"alter table {table} enable always trigger {table}_no_truncate")
        await connection.close()
    assert "odd" not in spans
