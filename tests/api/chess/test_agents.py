"""Agents, and how they did in games."""

from __future__ import annotations

import httpx2
import pytest
from worldledger_chess.api import shapes as played_shapes
from worldledger_service.api.context import Services

from tests.api.helpers import catch_up, draft, problem, walk_pages

from .games import FOOLS_MATE, mate, moved, new_game, started


@pytest.mark.asyncio(loop_scope="module")
async def test_agents_are_listed_page_by_page(client: httpx2.AsyncClient, played: None) -> None:
    """Following rel=next gives every agent once, by name, with what it did in all worlds."""
    page = (await client.get("/v1/agents")).json()
    played_shapes.AgentPage.model_validate(page)
    assert {agent["agent_id"]: agent["worlds"] for agent in page["agents"]} == {
        "ana": 2,
        "arena": 2,
        "bo": 1,
        "cy": 1,
        "smith": 1,
    }
    walked = await walk_pages(client, "/v1/agents?limit=2", "agents", "agent_id", "next_after")
    assert walked == [["ana", "arena"], ["bo", "cy"], ["smith"]]
    assert await walk_pages(client, "/v1/agents?after=bo&limit=2", "agents", "agent_id", "next_after") == [
        ["cy", "smith"]
    ]


@pytest.mark.asyncio(loop_scope="module")
async def test_an_agent_s_stats_are_over_all_its_games(client: httpx2.AsyncClient, played: None) -> None:
    """The totals are AgentStats: games that go on are not played, times are over the moves that have one."""
    found = (await client.get("/v1/agents/ana/stats")).json()
    assert found == {
        "agent_id": "ana",
        "games_played": 1,
        "games_won": 0,
        "games_lost": 1,
        "games_drawn": 0,
        "total_moves": 2,
        "average_thinking_time": 1.5,
        "illegal_moves_attempted": 0,
        "timeouts": 0,
    }
    for name in ("bo", "cy", "smith"):
        stats = played_shapes.AgentStats.model_validate((await client.get(f"/v1/agents/{name}/stats")).json())
        assert stats.games_played == stats.games_won + stats.games_lost + stats.games_drawn
    assert (await client.get("/v1/agents/smith/stats")).json()["games_played"] == 0


async def test_an_agent_s_stats_in_an_experiment(client: httpx2.AsyncClient, services: Services, played: None) -> None:
    """The same game in two experiments is two worlds: over all it counts twice, in each of them once."""
    await new_game(client, "again", started(), *map(moved, FOOLS_MATE), mate(), experiment="other")
    await catch_up(services)
    counts = {}
    for query in ("", "?experiment=trial", "?experiment=other", "?experiment=none"):
        stats = played_shapes.AgentStats.model_validate((await client.get(f"/v1/agents/ana/stats{query}")).json())
        counts[query] = (stats.games_played, stats.games_lost, stats.total_moves, stats.average_thinking_time)
    assert list(counts.values()) == [(2, 2, 4, 1.5), (1, 1, 2, 1.5), (1, 1, 2, 0.0), (0, 0, 0, 0.0)]


@pytest.mark.usefixtures("projected")
async def test_agents_may_have_any_name(client: httpx2.AsyncClient, services: Services) -> None:
    """Whatever name a source may have, its stats are found under one route; a walk over agents gets past it."""
    names = ["a/b", "a b", "/", "//x/", "ünï 🙂", "a?b#c", "%41", '"', "\\", "stats", "a/stats", "x" * 200, "\x7f"]
    await client.post("/v1/worlds", json={"world_id": "w"})
    response = await client.post("/v1/worlds/w/effects", json=[draft(source_id=name) for name in names])
    assert response.status_code == 201, response.text
    await catch_up(services)
    walked = await walk_pages(client, "/v1/agents?limit=1", "agents", "agent_id", "next_after")
    assert [name for page in walked for name in page] == sorted(names)
    for name in names:
        encoded = "".join(f"%{byte:02X}" for byte in name.encode())
        response = await client.get(f"/v1/agents/{encoded}/stats")
        assert (response.status_code, response.json()["agent_id"]) == (200, name)
    counted = 'http_requests_total{method="GET",route="/v1/agents/{agent_id}/stats",status="200"} '
    assert f"worldledger_{counted}{len(names)}.0" in (await client.get("/metrics")).text.splitlines()


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_agent_is_not_found(client: httpx2.AsyncClient, played: None) -> None:
    """An agent that never acted is not found, similar names are suggested; one that cannot be is refused."""
    for name in ("nobody", "Ana", "ana%20", "%F0%9F%99%82"):
        found = problem(await client.get(f"/v1/agents/{name}/stats"), 404, "agent_not_found")
        assert found.get("near", [None])[0] == ("ana" if "na" in name else None)
    assert (await client.get("/v1/games?agent=Ana")).json()["near"][0] == "ana"
    assert "near" not in (await client.get("/v1/games?agent=nobody")).json()
    for name in ("a%00b", "x" * 201):
        found = problem(await client.get(f"/v1/agents/{name}/stats"), 422, "invalid_parameter", parameter="agent_id")
        assert found["in"] == "path"
