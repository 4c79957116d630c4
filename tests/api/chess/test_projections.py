"""What routes over projections of games say while these are not there, or behind."""

from __future__ import annotations

import json
import re
from typing import Any, Final
from unittest import mock

import asyncpg
import httpx2
import pytest
from worldledger_service.api.context import Services

from tests.api.helpers import catch_up, problem

from .games import moved, new_game, said, started

_TIMES: Final = {"started_at", "ended_at", "recorded_at", "timestamp", "first_seen_at", "last_seen_at"}


async def test_before_anybody_feeds_them_they_say_so(client: httpx2.AsyncClient) -> None:
    """On a fresh database routes over projections say that these are not there yet."""
    for path in ("/v1/games", "/v1/agents", "/v1/agents/ana/stats"):
        problem(await client.get(path), 503, "projection_unavailable")


@pytest.mark.usefixtures("projected")
async def test_a_paused_projection_is_behind(client: httpx2.AsyncClient, services: Services) -> None:
    """What a paused projection has not read is not missing: it is behind, and by how much. Resumed, it has it."""
    await catch_up(services)
    await client.post("/v1/projections/games/pause")
    await new_game(client, "g2", started())
    await catch_up(services)
    problem(await client.get("/v1/games/g2"), 503, "projection_behind", lag=2)
    await client.post("/v1/projections/games/resume")
    await catch_up(services)
    assert (await client.get("/v1/games/g2")).status_code == 200


@pytest.mark.usefixtures("projected")
async def test_an_outcome_is_told_anew_once_it_is_known(client: httpx2.AsyncClient, services: Services) -> None:
    """A world's tag with `outcome` changes as its projection comes to the head, which is the same one.

    Of a game it says how many moves are commented.
    """
    await new_game(client, "g2", started(), said("MoveMade", {"uci_notation": "e2e4", "comment": "As always."}))
    before = await client.get("/v1/worlds/g2?outcome=true")
    await catch_up(services)
    tag = {"If-None-Match": before.headers["ETag"]}
    after = await client.get("/v1/worlds/g2?outcome=true", headers=tag)
    assert (before.json()["outcome"], after.status_code) == (None, 200)
    assert after.json() == {**before.json(), "outcome": "*, black to move after 1 half-move: ana - bo, 1 comment"}
    assert (await client.get("/v1/worlds/g2", headers=tag)).headers["ETag"] == f'{before.headers["ETag"][:-10]}"'


async def test_a_time_that_no_program_writes_hides_no_other_row(
    client: httpx2.AsyncClient, played: None, database_url: str
) -> None:
    """Of a row whose time is none of a calendar, the nearest day is told, and every other row as it stands."""
    paths = ("/v1/games", "/v1/games/g1", "/v1/games/g1/moves", "/v1/agents", "/v1/agents?limit=1")
    before = {path: (await client.get(path)).json() for path in paths}
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(
            """
            update projections.games set started_at = '294276-12-31', ended_at = '4000-01-01 BC' where world_id = 'g1';
            update projections.moves set recorded_at = '-infinity', timestamp = '0044-03-15 BC' where ply = 1;
            update projections.agents set first_seen_at = 'infinity', last_seen_at = '10000-01-01'
            """
        )
    finally:
        await connection.close()
    for path in paths:
        response = await client.get(path)
        assert response.status_code == 200, response.text
        told = re.sub(r'"(?:9999-12-30|0001-01-02)T00:00:00Z"', '"odd"', response.text)
        assert "odd" in told
        assert _without_times(json.loads(told)) == _without_times(before[path])


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_times(each) for name, each in value.items() if name not in _TIMES}
    return [*map(_without_times, value)] if isinstance(value, list) else value


@pytest.mark.usefixtures("projected")
async def test_what_was_set_aside_is_not_waited_for(client: httpx2.AsyncClient, services: Services) -> None:
    """A read that waits for a world that was set aside is answered at once; tried again, the game is there."""
    await new_game(client, "g2", started(), moved("e2e4"))
    with mock.patch("worldledger_chess.projections.games._Game", side_effect=ZeroDivisionError("broken")):
        await catch_up(services)
    problem(await client.get("/v1/games/g2?min_seq=3"), 503, "projection_behind", cursor=0, head_seq=3)
    assert (await client.post("/v1/projections/games/retry")).json() == {"released": 1}
    await catch_up(services)
    assert (await client.get("/v1/games/g2?min_seq=3")).json()["plies"] == 1
