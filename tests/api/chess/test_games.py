"""Games, moves and agents, as the projections tell them."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from worldledger_chess.api import shapes as games_shapes
from worldledger_chess.api import shapes as played_shapes
from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves
from worldledger_service.api.context import Services

from tests.api.helpers import catch_up, problem, walk_pages

from .games import FOOLS_MATE, moved, new_game, started


@pytest.mark.asyncio(loop_scope="module")
async def test_lists_of_worlds_say_how_games_stand(client: httpx2.AsyncClient, played: None) -> None:
    """With `outcome` each world says how it stands, in a line of its kind's; null where there is nothing to say."""
    found = (await client.get("/v1/worlds?outcome=true")).json()["worlds"]
    assert {world["world_id"]: world["outcome"] for world in found} == {
        "g1": "0-1, checkmate: ana - bo",
        "g2": "*, black to move after 1 half-move: cy - ana",
        "g3": None,
        "town": None,
    }
    assert (await client.get("/v1/worlds/g1?outcome=true")).json()["outcome"] == "0-1, checkmate: ana - bo"
    assert "outcome" not in (await client.get("/v1/worlds/g1")).json()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_game_is_told_as_it_stands(client: httpx2.AsyncClient, played: None) -> None:
    """A game has the columns of the projection, which say how it stands and ended, and those of a Game."""
    found = (await client.get("/v1/games/g1")).json()
    assert {column.name for column in Games.columns} < set(found)
    assert set(found) == set(games_shapes.Game.model_fields)
    assert found["board_state"]["is_checkmate"] is True
    assert [move["uci_notation"] for move in found["move_history"]] == list(FOOLS_MATE)
    assert (found["live"], found["move_deadline"], found["attempts_left"]) == (None, None, None)
    assert (found["game_id"], found["white_agent_id"], found["black_agent_id"]) == ("g1", "ana", "bo")
    assert (found["status"], found["result"], found["plies"]) == ("checkmate", "black_wins", 4)
    assert found["thinking_time_white"] == 3.0
    assert found["ended_at"].endswith("Z")
    games_shapes.Game.model_validate(found)
    for name, status in (("g2", "in_progress"), ("g3", None)):
        found = (await client.get(f"/v1/games/{name}")).json()
        assert (found["status"], found["ended_at"]) == (status, None)
        assert (found["board_state"] is None) == (status is None)
        games_shapes.Game.model_validate(found)


@pytest.mark.asyncio(loop_scope="module")
async def test_games_are_listed_and_filtered_page_by_page(client: httpx2.AsyncClient, played: None) -> None:
    """Following rel=next gives every game that was asked for once, by name."""

    async def walk(query: str) -> list[list[Any]]:
        return await walk_pages(client, f"/v1/games?{query}", "games", "game_id", "next_after")

    assert await walk("") == [["g1", "g2", "g3"]]
    assert await walk("limit=2") == [["g1", "g2"], ["g3"]]
    assert await walk("after=g1&limit=1") == [["g2"], ["g3"]]
    assert await walk("experiment=trial&limit=1") == [["g1"], ["g2"]]
    assert await walk("experiment=none") == [[]]
    assert (await client.get("/v1/games?experiment=trail")).json()["near"] == ["trial"]
    assert await walk("agent=ana&limit=1") == [["g1"], ["g2"]]
    assert await walk("agent=bo") == [["g1"]]
    assert await walk("status=in_progress") == [["g2"]]
    assert await walk("agent=ana&status=checkmate&experiment=trial&after=g0") == [["g1"]]
    assert await walk("agent=ana&status=checkmate&after=g1") == [[]]
    assert await walk("status=checkmate&experiment=trial") == [["g1"]]
    assert await walk("agent=cy&experiment=trial&limit=9007199254740991") == [["g2"]]


@pytest.mark.usefixtures("projected")
async def test_an_agent_that_plays_itself_has_the_game_once(client: httpx2.AsyncClient, services: Services) -> None:
    """A game in which one agent has both colours, as records may have it, is among its games once."""
    await new_game(client, "g", started("ana", "bo"))
    await catch_up(services)
    async with services.store.reader.connection() as connection:
        await connection.execute("update projections.games_1 set black_agent_id = 'ana'")
    assert [game["game_id"] for game in (await client.get("/v1/games?agent=ana")).json()["games"]] == ["g"]


@pytest.mark.asyncio(loop_scope="module")
async def test_moves_are_listed_in_order(client: httpx2.AsyncClient, played: None) -> None:
    """A game's moves come page by page, each with the projection's columns."""
    page = (await client.get("/v1/games/g1/moves")).json()
    assert [move["uci_notation"] for move in page["moves"]] == list(FOOLS_MATE)
    assert set(page["moves"][0]) == {column.name for column in Moves.columns}
    played_shapes.MovePage.model_validate(page)

    async def walk(query: str) -> list[list[Any]]:
        return await walk_pages(client, f"/v1/games/g1/moves?{query}", "moves", "ply", "next_after_ply")

    assert await walk("limit=3") == [[1, 2, 3], [4]]
    assert await walk("limit=4") == [[1, 2, 3, 4]]
    assert await walk("after_ply=2&limit=1") == [[3], [4]]
    assert await walk("after_ply=4") == [[]]
    assert (await client.get("/v1/games/g3/moves")).json() == {"game_id": "g3", "moves": [], "next_after_ply": None}


@pytest.mark.usefixtures("projected")
async def test_moves_of_a_fork_begin_with_those_of_before(client: httpx2.AsyncClient, services: Services) -> None:
    """The moves of a fork of a fork are the whole game in order, each of the world in whose log it is."""
    await new_game(client, "g", started(), *map(moved, ("e2e4", "e7e5", "g1f3")))
    for name, parent, ply, move in (("h", "g", 2, "f1c4"), ("i", "h", 3, "b8c6"), ("j", "h", 1, "c7c5")):
        made = {"world_id": name, "fork_of": {"world_id": parent, "at": f"ply:{ply}"}}
        assert (await client.post("/v1/worlds", json=made)).status_code == 201
        assert (await client.post(f"/v1/worlds/{name}/effects", json=moved(move))).status_code == 201
    await catch_up(services)

    async def told(query: str) -> list[tuple[str, str]]:
        moves = (await client.get(f"/v1/games/{query}")).json()["moves"]
        return [(move["world_id"], move["uci_notation"]) for move in moves]

    whole = [("g", "e2e4"), ("g", "e7e5"), ("h", "f1c4"), ("i", "b8c6")]
    assert await told("i/moves") == whole
    assert await told("i/moves?after_ply=1&limit=2") == whole[1:3]
    assert await told("j/moves") == [("g", "e2e4"), ("j", "c7c5")]
    assert await told("g/moves") == [("g", "e2e4"), ("g", "e7e5"), ("g", "g1f3")]


@pytest.mark.usefixtures("projected")
async def test_an_evaluation_is_told_as_json(client: httpx2.AsyncClient, services: Services) -> None:
    """What a column holds as JSON stands in the answer as JSON, not as a text."""
    move = moved("e2e4")
    move["payload"]["evaluation"] = {"cp": 31, "depth": 20}
    await new_game(client, "g", started(), move)
    await catch_up(services)
    (found,) = (await client.get("/v1/games/g/moves")).json()["moves"]
    assert found["evaluation"] == {"cp": 31, "depth": 20}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_game_is_not_found(client: httpx2.AsyncClient, played: None) -> None:
    """A world that is not there, or has no game, is no game; a name that cannot be is refused."""
    for path in ("", "/moves", "/moves?after_ply=3"):
        problem(await client.get(f"/v1/games/nowhere{path}"), 404, "game_not_found", game_id="nowhere")
        found = problem(await client.get(f"/v1/games/town{path}"), 404, "game_not_found", game_id="town")
        assert "sandbox" in found["detail"]
        for name in ("a%20b", "a%00b", "-a", "w" * 201, "%F0%9F%99%82", "%ED%A0%80"):
            problem(await client.get(f"/v1/games/{name}{path}"), 422, "invalid_name")


async def test_a_row_that_somebody_took_away_is_not_found(
    client: httpx2.AsyncClient, services: Services, played: None
) -> None:
    """Where the projection has read the game but has no row of it, the game is not found; nothing breaks."""
    async with services.store.reader.connection() as connection:
        await connection.execute("delete from projections.games_1 where world_id = 'g1'")
    problem(await client.get("/v1/games/g1"), 404, "game_not_found", game_id="g1")


async def test_parameters_that_cannot_be_are_refused(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """Every parameter is checked and named before the database sees it."""
    numbers = ["-1", "x", "", "1.5", "NaN", "inf", str(2**53), "9" * 5000, "%00", "%D9%A1"]
    bad = [f"/v1/games?limit={value}" for value in ["0", *numbers]]
    bad += [f"/v1/games?{name}={value}" for name in ("experiment", "agent") for value in ("", "%00", "x" * 201)]
    bad += [f"/v1/games?after={value}" for value in ("%00", "x" * 201)]
    bad += [f"/v1/games?status={value}" for value in ("", "won", "IN_PROGRESS", "%00")]
    bad += [f"/v1/games/g?min_seq={value}" for value in ["0", *numbers]]
    bad += [f"/v1/games/g/moves?after_ply={value}" for value in numbers]
    bad += [f"/v1/agents?after={value}" for value in ("%00", "x" * 201)]
    bad += ["/v1/games?after=a&after=b", "/v1/agents?limit=1&limit=1", "/v1/games/g?min_seq=1&min_seq=2"]
    for url in bad:
        with subtests.test(url=url[:50]):
            name = url.partition("?")[2].partition("=")[0]
            problem(await client.get(url), 422, "invalid_parameter", parameter=name, **{"in": "query"})
