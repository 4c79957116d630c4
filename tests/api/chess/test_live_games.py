"""Playing chess over HTTP: moving and resigning, and a service that is killed in between."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import chess
import httpx2
import orjson
import pytest
from worldledger_chess.api import shapes as games_shapes
from worldledger_chess.rules import BoardState, Move

from tests.api.helpers import WorldClient, problem, serving
from tests.cli.helpers import Running
from tests.faults.helpers import free_port

from .games import FOOLS_MATE, moved, new_game, started
from .live import attempt, game_of, made, played, stands

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Kings and rooks that may castle in Chess960: there the king goes to the rook's square.
CHESS960 = "1r1k1r2/pppppppp/8/8/8/8/PPPPPPPP/1R1K1R2 w FBfb - 0 1"


async def test_a_move_is_made(client: WorldClient) -> None:
    """The outcome has the Move and the position after it, and names its effect."""
    await made(client, game_id=client.world)
    response = await attempt(client, client.world, "w", "e2e4", thinking_time=2.34, req_id="m1")
    told = response.json()
    assert (response.status_code, response.headers["location"]) == (201, f"/v1/worlds/{client.world}/effects/5")
    games_shapes.MoveOutcome.model_validate(told)
    assert (told["accepted"], told["ply"], told["global_seq"], told["ended"]) == (True, 1, 5, None)
    move = Move.model_validate_json(orjson.dumps(told["move"]))
    assert (move.san_notation, move.thinking_time, move.player) == ("e4", 2.34, "white")
    state = BoardState.model_validate_json(orjson.dumps(told["board_state"]))
    assert state.fen == "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
    assert (state.en_passant_square, state.board_tensor[4, 4, 0]) == ("e3", 1)
    effect = (await client.get(f"/v1/worlds/{client.world}/effects/5")).json()
    assert (effect["kind"], effect["req_id"], effect["payload"]["san_notation"]) == ("MoveMade", "m1", "e4")
    body = {"player": "black", "move": " Nf6 "}
    by_colour = await client.post(f"/v1/games/{client.world}/moves?tensor=false", json=body)
    assert by_colour.json()["move"]["uci_notation"] == "g8f6"
    assert "board_tensor" not in by_colour.json()["board_state"]


async def test_an_illegal_move_is_recorded(client: WorldClient) -> None:
    """It is no error: the outcome says why it was rejected and what is left; after the last one comes the fallback."""
    await made(client, game_id=client.world)
    before = (await stands(client, client.world))["board_state"]
    for left, (move, why) in zip((2, 1), {"e2e5": "cannot", "e7e8": "no piece"}.items(), strict=True):
        response = await attempt(client, client.world, "w", move)
        told = response.json()
        games_shapes.MoveOutcome.model_validate(told)
        assert (response.status_code, told["accepted"], told["reason"]) == (201, False, "illegal_move")
        assert (told["attempted"], told["attempts_left"], told["ended"], told["move"]) == (move, left, None, None)
        assert told["board_state"] == before
        assert told["detail"], why
        assert (await stands(client, client.world))["attempts_left"] == left
    told = (await attempt(client, client.world, "w", "O-O", req_id="last")).json()
    assert told["attempts_left"] == 0
    assert told["ended"]["status"] == "resigned"
    assert told["ended"]["result"] == "black_wins"
    again = await attempt(client, client.world, "w", "O-O", req_id="last")
    assert again.json() == {**told, "replayed": True}
    stood = await stands(client, client.world)
    assert (stood["status"], stood["illegal_moves_attempted"], stood["attempts_left"]) == ("resigned", 3, None)
    game_of(stood)


async def test_a_random_move_is_made_instead(client: WorldClient) -> None:
    """With that fallback the outcome tells the move that was made, and the position after it."""
    await made(client, game_id=client.world, fallback="random", max_illegal=1, seed=3)
    told = (await attempt(client, client.world, "w", "e2e9")).json()
    assert (told["accepted"], told["attempts_left"], told["ended"]) == (False, 0, None)
    board = chess.Board()
    board.push_uci(told["fallback"]["uci_notation"])
    assert told["board_state"]["fen"] == board.fen(en_passant="fen")
    assert (await stands(client, client.world))["current_turn"] == "black"


async def test_the_same_request_has_the_same_answer(client: WorldClient) -> None:
    """An attempt that is sent again is answered as it was then, whatever has happened since; another one conflicts."""
    await made(client, game_id=client.world)
    first = await attempt(client, client.world, "w", "e2e4", req_id="r")
    wrong = await attempt(client, client.world, "b", "e2e4", req_id="r")
    await attempt(client, client.world, "b", "e7e5", req_id="s")
    for response, agent in ((first, "w"), (wrong, "b")):
        body, key = {"agent_id": agent, "move": "e2e4"}, {"Idempotency-Key": "r"}
        again = await client.post(f"/v1/games/{client.world}/moves", json=body, headers=key)
        assert (again.status_code, again.headers["idempotency-replayed"]) == (200, "true")
        assert again.json() == {**response.json(), "replayed": True}
    problem(await attempt(client, client.world, "w", "d2d4", req_id="r"), 422, "request_conflict", req_id="r")
    both = {"agent_id": "w", "move": "d4", "req_id": "x"}
    answer = await client.post(f"/v1/games/{client.world}/moves", json=both, headers={"Idempotency-Key": "y"})
    problem(answer, 422, "invalid_parameter", parameter="Idempotency-Key")
    assert (await stands(client, client.world))["plies"] == 2


async def test_out_of_turn_is_refused(client: WorldClient) -> None:
    """Who is not to move, who does not play, and who comes after the end is told so; the game stands as it stood."""
    await made(client, game_id=client.world)
    problem(await attempt(client, client.world, "b", "e7e5"), 422, "illegal_effect", rule="not_your_turn")
    problem(await attempt(client, client.world, "b", "zzz"), 422, "illegal_effect", rule="not_your_turn")
    early = await attempt(client, client.world, "w", "e4", ply=2)
    problem(early, 422, "illegal_effect", rule="not_your_turn", path="$.ply")
    problem(await attempt(client, client.world, "stranger", "e4"), 404, "unknown_agent")
    await client.post(f"/v1/worlds/{client.world}/agents", json={"agent_id": "guest"})
    assert (await attempt(client, client.world, "guest", "e4")).status_code in {403, 422}
    await played(client, client.world, *FOOLS_MATE)
    problem(await attempt(client, client.world, "w", "e4"), 422, "illegal_effect", rule="game_over")
    resigned = await client.post(f"/v1/games/{client.world}/resign", json={"player": "white"})
    problem(resigned, 422, "illegal_effect", rule="game_over")
    assert (await stands(client, client.world))["plies"] == 4


async def test_both_move_at_once_and_twice(client: WorldClient) -> None:
    """Of many attempts at once one is made; each of the others is told what became of it."""
    await made(client, game_id=client.world, max_illegal=100)
    answers = await asyncio.gather(*(attempt(client, client.world, agent, "e2e4") for agent in "wbwbwb"))
    accepted = [answer for answer in answers if answer.status_code == 201 and answer.json()["accepted"]]
    assert len(accepted) == 1
    assert {answer.status_code for answer in answers} <= {201, 409, 422}
    assert (await stands(client, client.world))["plies"] == 1


async def test_castling_in_chess960(client: WorldClient) -> None:
    """Castling goes to the rook's square, or is written O-O; the state and the effect agree."""
    told = await made(client, game_id=client.world, chess960=True, fen=CHESS960)
    assert (told["variant"], told["board_state"]["castling_rights"]) == ("chess960", "KQkq")
    assert {"d1f1", "d1b1"} <= set(told["board_state"]["legal_moves"])
    white, black = await played(client, client.world, "d1f1", "O-O-O")
    assert (white["move"]["san_notation"], white["move"]["is_castling"]) == ("O-O", True)
    assert (black["move"]["uci_notation"], black["move"]["is_castling"]) == ("d8b8", True)
    game = game_of(await stands(client, client.world))
    assert game.board_state.castling_rights == ""
    assert (await client.get(f"/v1/games/{client.world}/board.svg")).status_code == 200


_NO_MOVE: dict[str, tuple[dict[str, Any], str]] = {
    "nothing": ({}, "$.move"),
    "nobody": ({"move": "e4"}, "$.agent_id"),
    "two that say who": ({"move": "e4", "agent_id": "w", "player": "white"}, "$.agent_id"),
    "no colour": ({"move": "e4", "player": "red"}, "$.player"),
    "a colour that is a list": ({"move": "e4", "player": ["white"]}, "$.player"),
    "a number as agent": ({"move": "e4", "agent_id": 7}, "$.agent_id"),
    "an empty agent": ({"move": "e4", "agent_id": ""}, "$.agent_id"),
    "a move that is a number": ({"move": 1, "agent_id": "w"}, "$.move"),
    "no move": ({"move": None, "agent_id": "w"}, "$.move"),
    "a huge move": ({"move": "e" * 10_001, "agent_id": "w"}, "$.move"),
    "a negative time": ({"move": "e4", "agent_id": "w", "thinking_time": -1}, "$.thinking_time"),
    "a time that is text": ({"move": "e4", "agent_id": "w", "thinking_time": "1"}, "$.thinking_time"),
    "an empty req_id": ({"move": "e4", "agent_id": "w", "req_id": ""}, "$.req_id"),
    "a req_id that is a number": ({"move": "e4", "agent_id": "w", "req_id": 1}, "$.req_id"),
    "a long req_id": ({"move": "e4", "agent_id": "w", "req_id": "r" * 201}, "$.req_id"),
    "no number of a move": ({"move": "e4", "agent_id": "w", "ply": 0}, "$.ply"),
    "a number that is true": ({"move": "e4", "agent_id": "w", "ply": True}, "$.ply"),
    "an unknown field": ({"move": "e4", "agent_id": "w", "why": 1}, "$.why"),
}


async def test_what_is_no_attempt_is_refused(client: WorldClient, subtests: pytest.Subtests) -> None:
    """What cannot be read is told with its place, and leaves no trace in the log."""
    await made(client, game_id=client.world)
    for what, (body, path) in _NO_MOVE.items():
        with subtests.test(what):
            refused = await client.post(f"/v1/games/{client.world}/moves", json=body)
            problem(refused, 422, "invalid_move_request", path=path)
            assert (await stands(client, client.world))["global_seq"] == 4


_ODD = ["", " ", "e2e4q", "a9a9", "0000", "--", "e8=Q", "P@e4", "x" * 10_000, "♟", "\t\n", "'; drop table"]


async def test_odd_texts_are_rejected_attempts(client: WorldClient, subtests: pytest.Subtests) -> None:
    """Whatever text is attempted ends in an outcome that is recorded."""
    await made(client, game_id=client.world, max_illegal=100)
    for n, move in enumerate(_ODD, 1):
        with subtests.test(move=move[:20]):
            told = (await attempt(client, client.world, "w", move)).json()
            assert (told["accepted"], told["attempts_left"]) == (False, 100 - n)
            assert len(told["attempted"]) <= 100


async def test_games_that_are_not_there(client: WorldClient) -> None:
    """No world, a world of another ruleset, and one without a game are 404; an imported game is not played: 409."""
    await client.post("/v1/worlds", json={"world_id": "town"})
    await new_game(client, "empty")
    await new_game(client, "record", started("w", "b"), moved("e2e4"))
    bodies = {"moves": {"agent_id": "b", "move": "e5"}, "resign": {"agent_id": "b"}}
    for path, body in bodies.items():
        for name in ("nowhere", "town", "empty"):
            problem(await client.post(f"/v1/games/{name}/{path}", json=body), 404, "game_not_found", game_id=name)
        problem(await client.post(f"/v1/games/a%20b/{path}", json=body), 422, "invalid_name")
        for changed in (body, {**body, "agent_id": None, "player": "black"}):
            answer = await client.post(f"/v1/games/record/{path}", json=changed)
            problem(answer, 409, "game_not_live", game_id="record")
    problem(await client.get("/v1/games/town/board.svg"), 404, "game_not_found")


async def test_resigning(client: WorldClient) -> None:
    """An agent gives up whoever is to move; asked again, it has the same answer."""
    await made(client, game_id=client.world)
    response = await client.post(f"/v1/games/{client.world}/resign", json={"player": "black", "req_id": "r"})
    told = response.json()
    games_shapes.ResignOutcome.model_validate(told)
    assert (response.status_code, told["player"], told["ended"]["result"]) == (201, "black", "white_wins")
    assert response.json()["board_state"] == (await stands(client, client.world))["board_state"]
    without = await client.post(f"/v1/games/{client.world}/resign?tensor=false", json={"agent_id": "b", "req_id": "r"})
    assert "board_tensor" not in without.json()["board_state"]
    resign, key = f"/v1/games/{client.world}/resign", {"Idempotency-Key": "r"}
    again = await client.post(resign, json={"agent_id": "b"}, headers=key)
    assert (again.status_code, again.json()) == (200, {**told, "replayed": True})
    assert game_of(await stands(client, client.world)).reason == "resignation"
    await made(client, game_id="h")
    for body, path in (({}, "$.agent_id"), ({"player": 1}, "$.player"), ({"agent_id": "w", "move": 1}, "$.move")):
        problem(await client.post("/v1/games/h/resign", json=body), 422, "invalid_move_request", path=path)


# -- the service ends ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_game_survives_its_service(own_url: str) -> None:
    """Killed in mid-game and started again, the service has every move it answered, and the game goes on."""
    command = ("serve", "--database-url", own_url, "--port", str(port := free_port()), "--no-projections")
    with Running(*command) as first:
        first.line()
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=100) as client:
            await made(client, game_id="g", players={"white": "external", "black": "external"})
            answers = [
                await attempt(client, "g", agent, move, req_id=move)
                for agent, move in (("w", "f2f3"), ("b", "e7e4"), ("b", "e7e5"), ("w", "g2g4"))
            ]
            before = await stands(client, "g")
            first.end(signal.SIGKILL)
    with Running(*command) as second:
        second.line()
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=100) as client:
            assert await stands(client, "g") == before
            for answer in answers:
                told = answer.json()
                move = told["attempted"] or told["move"]["uci_notation"]
                again = await attempt(client, "g", told["agent_id"], move, req_id=move)
                assert (again.status_code, again.json()) == (200, {**told, "replayed": True})
            last = (await attempt(client, "g", "b", "d8h4")).json()
            assert last["ended"]["status"] == "checkmate"
            assert game_of(await stands(client, "g")).result == "black_wins"


async def test_a_served_game_ends_with_its_service(own_url: str) -> None:
    """A service that stops while its players play closes cleanly; what was played is in the log."""
    async with serving(own_url) as served, served.client() as client:
        await made(client, game_id="g", players={"white": "random", "black": "random"}, seed=1)
        await served.stop()
