"""How games of chess stand over HTTP: live ones at once, others as projections have them; boards and sessions."""

from __future__ import annotations

import re

import httpx2
import numpy as np
import orjson
import pytest
from worldledger_chess.api import shapes as games_shapes
from worldledger_chess.api.serving import arena_of
from worldledger_chess.arena import MoveOutcome, ResignOutcome
from worldledger_chess.projections.games import Games
from worldledger_chess.rules import BoardState, Game, GameSession
from worldledger_service.api.context import Services

from tests.api.helpers import catch_up, problem
from tests.waiting import wait_for

from .games import FOOLS_MATE, moved, new_game, started
from .live import attempt, game_of, made, played, stands


@pytest.mark.usefixtures("projected")
async def test_a_live_game_is_told_at_once(client: httpx2.AsyncClient, services: Services) -> None:
    """It stands as its log does without any projection; once that has come so far its row is the very same."""
    await made(client, game_id="g", experiment="trial")
    outcome = (await attempt(client, "g", "w", "f2f3", thinking_time=1.25)).json()
    told = await stands(client, "g", f"?min_seq={outcome['global_seq']}")
    assert (told["plies"], told["global_seq"], told["thinking_time_white"]) == (1, outcome["global_seq"], 1.25)
    assert told["thinking_time_black"] is None
    assert told["board_state"] == outcome["board_state"]
    assert told["move_history"] == [outcome["move"]]
    await attempt(client, "g", "b", "nonsense")
    for agent, move in zip("bwb", FOOLS_MATE[1:], strict=True):
        await attempt(client, "g", agent, move)
    told = await stands(client, "g")
    assert (told["status"], told["board_state"]["legal_moves"]) == ("checkmate", [])
    game_of(told)
    await catch_up(services)
    (shown,) = (await client.get("/v1/games")).json()["games"]
    assert {column.name for column in Games.columns} == set(shown)
    assert {name: told[name] for name in shown} == shown
    stats = (await client.get("/v1/agents/b/stats")).json()
    assert (stats["games_won"], stats["illegal_moves_attempted"], stats["total_moves"]) == (1, 1, 2)
    problem(await client.get("/v1/games/g?min_seq=99"), 409, "position_ahead", parameter="min_seq")


async def test_the_tensor_and_the_moves_may_be_left_out(client: httpx2.AsyncClient) -> None:
    """The tensor is 8x8x12 whole numbers, row 0 the eighth rank; both may be left out."""
    await made(client, game_id="g")
    told = await stands(client, "g")
    tensor = np.array(told["board_state"]["board_tensor"])
    assert (tensor.shape, tensor.sum(), tensor[6, 4, 0], tensor[0, 4, 11]) == ((8, 8, 12), 32, 1, 1)
    told = await stands(client, "g", "?tensor=false&moves=false")
    assert "board_tensor" not in told["board_state"]
    assert "move_history" not in told
    for query in ("tensor=maybe", "moves=", "tensor=true&tensor=false", "tensors=false"):
        problem(await client.get(f"/v1/games/g?{query}"), 422, "invalid_parameter")


@pytest.mark.usefixtures("projected")
async def test_an_imported_game_has_a_board(client: httpx2.AsyncClient, services: Services) -> None:
    """A game that is not played here is told with its position; nobody plays it, and a variant has none."""
    await new_game(client, "g", started("ana", "bo"), moved("e2e4", 1.5))
    crazy = started()
    crazy["payload"]["variant"] = "crazyhouse"
    await new_game(client, "c", crazy)
    await catch_up(services)
    told = await stands(client, "g", "?min_seq=3")
    assert told["board_state"]["en_passant_square"] == "e3"
    assert (told["live"], told["move_deadline"], told["agents"]["white"]["player"]) == (None, None, None)
    game_of(told)
    told = await stands(client, "c")
    assert (told["variant"], told["board_state"], told["current_turn"]) == ("crazyhouse", None, "white")
    assert (await client.get("/v1/games/c/board.svg")).status_code == 200


async def test_the_board_as_a_picture(client: httpx2.AsyncClient) -> None:
    """The board is SVG, now or after a move, with the last move marked; its tag is that of what is to be seen."""
    await made(client, game_id="g")
    await played(client, "g", "e2e4", "e7e5")
    now = await client.get("/v1/games/g/board.svg")
    assert (now.status_code, now.headers["content-type"]) == (200, "image/svg+xml")
    assert set(re.findall(r"lastmove ([a-h][1-8])", now.text)) == {"e7", "e5"}
    boards = {ply: await client.get(f"/v1/games/g/board.svg?ply={ply}") for ply in range(3)}
    assert len({board.headers["etag"] for board in boards.values()}) == 3
    assert boards[2].headers["etag"] == now.headers["etag"]
    assert "lastmove" not in boards[0].text
    unchanged = await client.get("/v1/games/g/board.svg", headers={"If-None-Match": now.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    problem(await client.get("/v1/games/g/board.svg?ply=3"), 404, "moment_not_found")
    problem(await client.get("/v1/games/g/board.svg?ply=-1"), 422, "invalid_parameter", parameter="ply")


async def test_sessions(client: httpx2.AsyncClient) -> None:
    """The live games in memory are listed as GameSessions, ended ones as inactive."""
    assert (await client.get("/v1/sessions")).json() == {"sessions": []}
    await made(client, game_id="g")
    await made(client, game_id="h")
    await client.post("/v1/games/h/resign", json={"player": "white"})
    response = await client.get("/v1/sessions")
    games_shapes.SessionList.model_validate_json(response.content)
    sessions = [GameSession.model_validate_json(orjson.dumps(each)) for each in response.json()["sessions"]]
    assert [(each.game_id, each.is_active) for each in sessions] == [("g", True), ("h", False)]
    assert sessions[1].agent_black.stats.games_won == 1


@pytest.mark.thorough  # as tests/arena/test_driving.py has it
async def test_players_of_the_service_play(client: httpx2.AsyncClient, services: Services) -> None:
    """A game of two random players goes on by itself until it has ended."""
    told = await made(client, game_id="g", players={"white": "random", "black": "random"}, seed=5)
    assert told["agents"]["white"]["player"] == "random"
    game = await arena_of(services).game("g")
    await wait_for(lambda: game.ended is not None, "the game ends", 60.0)
    game_of(await stands(client, "g"))


def test_the_documented_shapes_are_those_that_are_checked() -> None:
    """What the document shows of positions and sessions has exactly the fields that the program knows."""
    for shown, checked in (
        (games_shapes.BoardState, BoardState),
        (games_shapes.GameSession, GameSession),
    ):
        assert set(shown.model_fields) == set(checked.model_fields), shown
    assert set(games_shapes.MoveOutcome.model_fields) - {"board_state"} == set(MoveOutcome.model_fields)
    assert set(games_shapes.ResignOutcome.model_fields) - {"board_state"} == set(ResignOutcome.model_fields)
    assert set(Game.model_fields) <= set(games_shapes.Game.model_fields)
