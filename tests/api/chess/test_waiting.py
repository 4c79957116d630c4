"""Reading what projections have made: before they have come so far, and while views come and go."""

from __future__ import annotations

import asyncio
import dataclasses

import httpx2
import pytest
from fastapi import FastAPI
from worldledger_service.api.context import Services
from worldledger_service.projecting.process import ProjectorProcess

from tests.api.helpers import catch_up, problem

from .games import FOOLS_MATE, moved, new_game, started


@pytest.mark.usefixtures("projected")
async def test_a_game_that_is_not_read_yet_is_behind(client: httpx2.AsyncClient, services: Services) -> None:
    """A game that the projection has not come to is not denied: it is 503 with the lag and when to come back."""
    await services.projections.ensure()
    await new_game(client, "g", started(), moved("e2e4"))
    for path in ("/v1/games/g", "/v1/games/g/moves"):
        response = await client.get(path)
        problem(response, 503, "projection_behind", world_id="g", cursor=0, head_seq=3, lag=3)
        assert int(response.headers["retry-after"]) >= 1
    await catch_up(services)
    assert (await client.get("/v1/games/g")).status_code == 200


@pytest.mark.usefixtures("projected")
async def test_a_read_may_wait_for_what_was_written(
    app: FastAPI, client: httpx2.AsyncClient, services: Services, database_url: str
) -> None:
    """With min_seq an answer has what was appended up to there, however soon it is asked for."""
    # The process that feeds has yet to start, which other tests may hold up.
    app.state.services = dataclasses.replace(services, patience=120)
    await new_game(client, "g", started(), *map(moved, FOOLS_MATE))
    async with ProjectorProcess.beside(database_url, services.settings):
        answers = await asyncio.gather(
            *(client.get(f"/v1/games/g/moves?min_seq={seq}") for seq in range(1, 7)),
            client.get("/v1/games/g?min_seq=6"),
        )
    assert [answer.status_code for answer in answers] == [200] * 7
    for ply, answer in enumerate(answers[:6], -1):
        assert len(answer.json()["moves"]) >= ply
    assert answers[6].json()["plies"] == 4


@pytest.mark.usefixtures("projected")
async def test_waiting_has_an_end(app: FastAPI, client: httpx2.AsyncClient, services: Services) -> None:
    """When the projection does not come so far in time, the answer is 503 with its cursor and the lag."""
    app.state.services = dataclasses.replace(services, patience=0.05)
    await new_game(client, "g", started())
    await catch_up(services)
    assert (await client.get("/v1/games/g?min_seq=2")).status_code == 200
    await client.post("/v1/worlds/g/effects", json=moved("e2e4"))
    for path, name in (("/v1/games/g", "games"), ("/v1/games/g/moves", "moves")):
        response = await client.get(f"{path}?min_seq=3")
        found = problem(response, 503, "projection_behind", projection=name, cursor=2, head_seq=3, lag=1)
        assert found["recovery"] == "retry_with_delay"
        assert int(response.headers["retry-after"]) >= 1


async def test_who_has_seen_more_than_there_is_is_told(client: httpx2.AsyncClient, played: None) -> None:
    """A min_seq beyond the head is 409: nobody has to wait for what was never written."""
    for path in ("/v1/games/g1", "/v1/games/g1/moves", "/v1/games/town"):
        for seq in (99, 2**53 - 1):
            response = await client.get(f"{path}?min_seq={seq}")
            problem(response, 409, "position_ahead", parameter="min_seq", **{"in": "query"})
    problem(await client.get("/v1/games/town?min_seq=2"), 404, "game_not_found")
    problem(await client.get("/v1/games/nowhere?min_seq=1"), 404, "game_not_found")


async def test_a_view_that_is_gone_is_no_bug(client: httpx2.AsyncClient, services: Services, played: None) -> None:
    """While views are taken away or lack a column, reads are 503 with Retry-After, and then they are there again."""
    paths = ["/v1/games", "/v1/games?agent=ana", "/v1/games/g1", "/v1/games/g1/moves"]
    paths += ["/v1/agents", "/v1/agents/ana/stats"]
    async with services.store.reader.connection() as connection:
        gone = "projections.games, projections.moves, projections.agents, projections.agent_stats"
        await connection.execute(f"drop view {gone} cascade")
    for path in paths:
        response = await client.get(path)
        problem(response, 503, "projection_unavailable", recovery="retry_with_delay")
        assert int(response.headers["retry-after"]) >= 1
    async with services.store.reader.connection() as connection:
        await connection.execute("create view projections.games as select 1 as game_id")
    problem(await client.get("/v1/games"), 503, "projection_unavailable")
    async with services.store.reader.connection() as connection:
        await connection.execute("drop view projections.games")
    await services.projections.ensure()
    for path in paths:
        assert (await client.get(path)).status_code == 200


@pytest.mark.thorough  # as test_engine_swaps has it
async def test_reads_go_on_while_a_build_is_replaced(
    client: httpx2.AsyncClient, services: Services, played: None, thorough: bool
) -> None:
    """Reads during a rebuild and its swap all succeed, with the same rows."""
    before = (await client.get("/v1/games")).json()
    statuses: set[int] = set()
    same = True

    async def read() -> None:
        nonlocal same
        while True:
            response = await client.get("/v1/games")
            statuses.add(response.status_code)
            same = same and response.json() == before

    reading = [asyncio.create_task(read()) for _ in range(3)]
    rebuilds = 3 if thorough else 1
    for _ in range(rebuilds):
        assert (await client.post("/v1/projections/games/rebuild")).status_code == 202
        await catch_up(services)
    for task in reading:
        task.cancel()
    await asyncio.wait(reading)
    assert (statuses, same) == ({200}, True)
    assert (await client.get("/v1/projections/games")).json()["live"]["build"] == f"games_{rebuilds + 1}"
