"""Making games of chess over HTTP: what is made, what is refused, and what a key is for."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import chess
import httpx2
import pytest
from worldledger_chess.api import shapes as games_shapes
from worldledger_chess.rules import BoardState

from tests.api.helpers import JSON, problem

from .live import AGENTS, attempt, game_of, made, played, stands

#: Black is checkmated.
OVER = "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"


async def test_a_game_is_made(client: httpx2.AsyncClient) -> None:
    """A game is a world named by a UUID4, begun, with both agents registered, as the answer tells it."""
    white = {"agent_id": "w", "name": "Aggressive Alpha", "personality": "aggressive", "temperature": 1}
    response = await client.post("/v1/games", json={**AGENTS, "white": white, "experiment": "trial", "seed": 7})
    told = response.json()
    assert response.headers["location"] == f"/v1/games/{told['game_id']}"
    games_shapes.Game.model_validate(told)
    game = game_of(told)
    assert game.game_id[14] == "4"
    assert (game.status, game.current_turn, game.move_history) == ("in_progress", "white", [])
    assert told["experiment"] == "trial"
    assert game.board_state == BoardState.from_fen(chess.STARTING_FEN)
    assert told["live"] == {"max_illegal": 3, "fallback": "resign", "deadline_s": 30.0, "seed": 7}
    assert told["attempts_left"] == 3
    assert told["agents"]["white"]["name"] == "Aggressive Alpha"
    assert told["agents"]["black"]["player"] == "external"
    assert told["move_deadline"] > told["started_at"]
    world = (await client.get(f"/v1/worlds/{game.game_id}")).json()
    assert (world["ruleset"], world["head_seq"], world["experiment"]) == ("chess", 4, "trial")
    agents = (await client.get(f"/v1/worlds/{game.game_id}/agents")).json()["agents"]
    assert [agent["agent_id"] for agent in agents] == ["b", "w"]


async def test_a_game_that_is_over_at_its_start(client: httpx2.AsyncClient) -> None:
    """A position in which the game is over begins no game, no world and no episode, and is named where it stands."""
    world = {"world_id": "over", "ruleset": "chess", "config": {"live": {**AGENTS, "fen": OVER}}}
    for path, body, place in (
        ("/v1/games", {**AGENTS, "game_id": "over", "fen": OVER}, "$.fen"),
        ("/v1/worlds", world, "$.config.live.fen"),
        ("/openenv/chess/reset", {"fen": OVER, "episode_id": "over"}, "$.fen"),
    ):
        found = problem(await client.post(path, json=body), 422, "invalid_config", path=place)
        assert found["detail"].endswith(f"{place}: the game is over in this position (checkmate)")
    assert (await client.get("/v1/worlds")).json()["worlds"] == []


async def test_the_square_that_was_passed_before_the_beginning(client: httpx2.AsyncClient) -> None:
    """A game that begins after e2e4 stands as one in which it was played, also in a process that has read it anew."""
    fen = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
    response = await client.post("/v1/games", json={**AGENTS, "game_id": "g", "fen": fen})
    other = {"world_id": "h", "ruleset": "chess", "config": {"live": {**AGENTS, "fen": fen}}}
    assert (await client.post("/v1/worlds", json=other)).status_code == 201
    rejected = await client.post("/v1/games/h/moves", json={"player": "black", "move": "e7e4"})
    for told in (response.json(), (await client.get("/v1/games/h")).json(), rejected.json()):
        state = told["board_state"]
        assert (state["fen"], state["en_passant_square"]) == (fen, "e3")
    assert game_of(response.json()).board_state.fen == fen
    started = (await client.get("/v1/worlds/g/effects/2")).json()
    assert started["payload"]["initial_fen"] == fen
    begun = (await client.post("/openenv/chess/reset", json={"fen": fen, "opponent": "self"})).json()["observation"]
    assert begun["fen"] == fen
    query = {"episode_id": begun["metadata"]["episode_id"]}
    state = (await client.get("/openenv/chess/state", params=query)).json()
    assert (state["fen"], state["initial_fen"]) == (fen, fen)


async def test_the_agents_own_limits(client: httpx2.AsyncClient) -> None:
    """Where a game has no limit its agents' count, and are told."""
    body = {"white": {"agent_id": "w", "timeout_seconds": 100}, "black": {"agent_id": "b"}}
    told = (await client.post("/v1/games", json=body)).json()
    games_shapes.Game.model_validate(told)
    assert told["live"]["deadline_s"] == {"white": 100.0, "black": 30.0}


async def test_the_same_key_gives_the_same_game(client: httpx2.AsyncClient) -> None:
    """A request that is sent again with its key makes nothing; with another body, or another key, it does not pass."""
    body = {**AGENTS, "deadline_s": None}
    answers = await asyncio.gather(
        *(client.post("/v1/games", json=body, headers={"Idempotency-Key": "k"}) for _ in range(5))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 200, 200, 201]
    assert len({answer.json()["game_id"] for answer in answers}) == 1
    assert [answer.headers.get("idempotency-replayed") for answer in answers].count("true") == 4
    game_id = answers[0].json()["game_id"]
    await played(client, game_id, "e2e4")
    again = await client.post("/v1/games", json=body, headers={"Idempotency-Key": '"k"'})
    assert (again.status_code, again.json()["plies"]) == (200, 1)
    other = await client.post("/v1/games", json={**body, "seed": 1}, headers={"Idempotency-Key": "k"})
    problem(other, 422, "request_conflict", req_id="k")
    another = await client.post("/v1/games", json=body, headers={"Idempotency-Key": "l"})
    assert (another.status_code, another.json()["game_id"] != game_id) == (201, True)


async def test_a_game_may_be_named(client: httpx2.AsyncClient) -> None:
    """A game_id is the world's name; one that is taken is 409, unless the key says that it is the same request."""
    assert (await made(client, game_id="final"))["game_id"] == "final"
    body = {**AGENTS, "deadline_s": None, "game_id": "final"}
    problem(await client.post("/v1/games", json=body), 409, "world_exists")
    again = await client.post("/v1/games", json=body, headers={"Idempotency-Key": "x"})
    assert (again.status_code, again.json()["game_id"]) == (200, "final")
    await client.post("/v1/worlds", json={"world_id": "town"})
    taken = await client.post("/v1/games", json={**body, "game_id": "town"}, headers={"Idempotency-Key": "x"})
    problem(taken, 409, "world_exists")


_REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "$"),
    "a number": (0, "$"),
    "no agents": ({}, "$.white"),
    "one agent": ({"white": {"agent_id": "w"}}, "$.black"),
    "one agent twice": ({**AGENTS, "black": {"agent_id": "w"}}, "$.black"),
    "the arena itself": ({**AGENTS, "black": {"agent_id": "arena"}}, "$.black.agent_id"),
    "an agent that is a name": ({**AGENTS, "white": "w"}, "$.white"),
    "an agent without a name": ({**AGENTS, "white": {"agent_id": ""}}, "$.white.agent_id"),
    "a long name": ({**AGENTS, "white": {"agent_id": "w", "name": "x" * 51}}, "$.white.name"),
    "a temperature": ({**AGENTS, "white": {"agent_id": "w", "temperature": 2.1}}, "$.white.temperature"),
    "no tokens": ({**AGENTS, "white": {"agent_id": "w", "max_tokens": 0}}, "$.white.max_tokens"),
    "code in the prompt": ({**AGENTS, "white": {"agent_id": "w", "system_prompt": "eval(x)"}}, "$.white.system_prompt"),
    "an unknown field": ({**AGENTS, "colour": "red"}, "$.colour"),
    "an unknown field of an agent": ({**AGENTS, "white": {"agent_id": "w", "elo": 1}}, "$.white.elo"),
    "no FEN": ({**AGENTS, "fen": "x"}, "$.fen"),
    "a huge FEN": ({**AGENTS, "fen": "8/" * 100_000}, "$.fen"),
    "no king": ({**AGENTS, "fen": "8/8/8/8/8/8/8/K7 w - - 0 1"}, "$.fen"),
    "two kings": ({**AGENTS, "fen": "k7/8/8/8/8/8/8/KK6 w - - 0 1"}, "$.fen"),
    "the side not to move in check": ({**AGENTS, "fen": "k7/R7/8/8/8/8/8/K7 w - - 0 1"}, "$.fen"),
    "a limit that is none": ({**AGENTS, "deadline_s": 0}, "$.deadline_s"),
    "a limit that is text": ({**AGENTS, "deadline_s": "30"}, "$.deadline_s"),
    "no attempts": ({**AGENTS, "max_illegal": 0}, "$.max_illegal"),
    "a fallback that is none": ({**AGENTS, "fallback": "cheat"}, "$.fallback"),
    "half a character": ({**AGENTS, "white": {"agent_id": "w", "name": "\ud800"}}, "$.white.name"),
    "a NUL": ({**AGENTS, "experiment": "\0"}, "$.experiment"),
    "a number without end": ({**AGENTS, "deadline_s": float("inf")}, "$.deadline_s"),
    "no number": ({**AGENTS, "white": {"agent_id": "w", "temperature": float("nan")}}, "$.white.temperature"),
    "a large number": ({**AGENTS, "seed": 2**53}, "$.seed"),
    "a seed that is none": ({**AGENTS, "seed": 1.5}, "$.seed"),
    "a player of no colour": ({**AGENTS, "players": {"red": "random"}}, "$.players.red"),
}


async def test_what_is_no_game_is_refused(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """Whatever is wrong with a new game is told with its place in the body; nothing is made."""
    for what, (body, path) in _REFUSED.items():
        with subtests.test(what):
            response = await client.post("/v1/games", content=json.dumps(body), headers=JSON)
            found = problem(response, 422, "invalid_config", path=path)
            assert found["detail"].startswith(f"{path}: ")
            assert (await client.get("/v1/worlds")).json()["worlds"] == []


async def test_everything_wrong_is_told_at_once(client: httpx2.AsyncClient) -> None:
    """The problem names each place."""
    found = problem(await client.post("/v1/games", json={"seed": "x", "fen": "x"}), 422, "invalid_config")
    assert [each["path"] for each in found["problems"]] == ["$.white", "$.black", "$.fen", "$.seed"]


_NO_PLAYERS: list[tuple[Any, str, str]] = [
    ("stranger", "unknown_player", "$.players.white"),
    ("x" * 101, "invalid_player", "$.players.white"),
    ("uci:/bin/sh", "invalid_player", "$.players.white"),
    ({"name": "uci", "path": "/bin/sh"}, "invalid_player", "$.players.white.path"),
    ({"name": "stockfish", "args": ["-c", "id"]}, "invalid_player", "$.players.white.args"),
    ({"name": "stockfish", "options": {"Debug Log File": "x"}}, "invalid_player", "$.players.white.options"),
    ({"name": "stockfish", "nodes": -1}, "invalid_player", "$.players.white.nodes"),
    ({"name": "random", "why": 1}, "invalid_player", "$.players.white.why"),
    ({}, "invalid_player", "$.players.white.name"),
]


async def test_a_player_that_cannot_be_is_refused(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """Nobody names a program over HTTP, nor what is not installed."""
    for spec, code, path in _NO_PLAYERS:
        with subtests.test(spec=str(spec)[:50]):
            problem(await client.post("/v1/games", json={**AGENTS, "players": {"white": spec}}), 422, code, path=path)
            assert (await client.get("/v1/worlds")).json()["worlds"] == []


async def test_bodies_that_are_none(client: httpx2.AsyncClient) -> None:
    """A body that is no JSON, has a key twice, is no text or of another type is refused on every route."""
    await made(client, game_id="g")
    for path, code in (
        ("/v1/games", "invalid_config"),
        ("/v1/games/g/moves", "invalid_move_request"),
        ("/v1/games/g/resign", "invalid_move_request"),
    ):
        for body in (b"", b"{", b"\xff", b'{"move": 1, "move": 2}', b'{"move": "\\ud800"}', b"[" * 20_000, b'"x"'):
            problem(await client.post(path, content=body, headers=JSON), 422, code)
        problem(await client.post(path, content=b"{}"), 415, "unsupported_media_type")
        problem(await client.post(f"{path}?why=1", json={}), 422, "invalid_parameter", parameter="why")
    assert (await stands(client, "g"))["global_seq"] == 4


async def test_a_game_is_played_on(client: httpx2.AsyncClient) -> None:
    """A new game with `fork_of` goes on from another game's moment: with its moves, by its own players, as its fork."""
    await made(client, game_id="first")
    await played(client, "first", "e2e4", "e7e5", "g1f3")
    others = {"white": {"agent_id": "x"}, "black": {"agent_id": "y"}}
    told = await made(
        client, **others, fork_of={"world_id": "first", "at": "ply:2"}, players={"black": "random"}, seed=1
    )
    assert [move["uci_notation"] for move in told["move_history"]] == ["e2e4", "e7e5"]
    assert (told["plies"], told["agents"]["white"]["total_moves"], told["started_seq"]) == (2, 0, None)
    outcome = (await attempt(client, told["game_id"], "x", "d2d4")).json()
    assert (outcome["accepted"], outcome["ply"]) == (True, 3)
    stood = await stands(client, told["game_id"])
    assert stood["agents"]["white"]["total_moves"] == 1
    fork_of = (await client.get(f"/v1/worlds/{told['game_id']}/effects/1")).json()["payload"]["fork_of"]
    assert (fork_of["world_id"], fork_of["global_seq"]) == ("first", 6)


async def test_a_key_finds_the_game_that_is_played_on(client: httpx2.AsyncClient) -> None:
    """The same request by a key finds the fork that it made, though the parent has ended since; another is refused."""
    await made(client, game_id="first")
    await played(client, "first", "e2e4", "e7e5")
    body = {**AGENTS, "deadline_s": None, "fork_of": {"world_id": "first"}}
    key = {"Idempotency-Key": "k"}
    one = await client.post("/v1/games", json=body, headers=key)
    await client.post("/v1/games/first/resign", json={"agent_id": "w"})
    again = await client.post("/v1/games", json=body, headers=key)
    assert (one.status_code, again.status_code) == (201, 200)
    assert one.json()["game_id"] == again.json()["game_id"]
    for other in ({"world_id": "first", "at": "ply:1"}, None):
        answer = await client.post("/v1/games", json={**body, "fork_of": other}, headers=key)
        problem(answer, 422, "request_conflict")


async def test_what_cannot_be_played_on(client: httpx2.AsyncClient) -> None:
    """A moment at which the game was over is refused, and what is wrong in `fork_of` is named; no world is made."""
    await made(client, game_id="first")
    await played(client, "first", "f2f3", "e7e5", "g2g4", "d8h4")
    before = (await client.get("/v1/worlds")).json()
    for fork_of, status, code, more in (
        ({"world_id": "first"}, 409, "game_not_live", {"global_seq": 9}),
        ({"world_id": "first", "at": "seq:8"}, 409, "game_not_live", {"global_seq": 8}),
        ({"world_id": "first", "at": "seq:1"}, 404, "no_such_game", {}),
        ({"world_id": "first", "at": "ply:99"}, 404, "moment_not_found", {}),
        ({"world_id": "second"}, 404, "world_not_found", {}),
        ({"world_id": "first", "at": "soon"}, 422, "invalid_config", {"path": "$.fork_of.at"}),
        ({"world_id": 1}, 422, "invalid_config", {"path": "$.fork_of.world_id"}),
        ("first", 422, "invalid_config", {"path": "$.fork_of"}),
    ):
        problem(await client.post("/v1/games", json={**AGENTS, "fork_of": fork_of}), status, code, **more)
    both = {**AGENTS, "fork_of": {"world_id": "first", "at": "ply:1"}, "chess960": True}
    problem(await client.post("/v1/games", json=both), 422, "invalid_config", path="$.chess960")
    assert (await client.get("/v1/worlds")).json() == before
