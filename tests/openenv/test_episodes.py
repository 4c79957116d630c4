"""Episodes over HTTP: they last, they are games of the log, and they are worth what the contract says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import pytest_asyncio

from tests.api.chess.games import new_game, started
from tests.api.chess.live import made, played
from tests.api.helpers import problem, serving
from tests.conftest import Servers

from .helpers import (
    BEFORE_FORCED_MATE,
    BEGINNING,
    FORCED_MATE,
    MATE_OR_STALEMATE,
    PREFIX,
    reset,
    state_of,
    step,
    stepped,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def shared_url(servers: Servers, server_kind: str) -> Iterator[str]:
    """Return a superuser's address of a migrated database that these tests share."""
    url = servers.create(server_kind, servers.template(server_kind))
    yield url
    servers.drop(server_kind, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(shared_url: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to one service for all of these tests."""
    async with serving(shared_url) as served, httpx2.AsyncClient(base_url=served.url, timeout=60) as found:
        yield found


async def test_an_episode_lasts_from_call_to_call(client: httpx2.AsyncClient) -> None:
    """Each call names the episode, wherever the contract has a place for it; the state counts half-moves."""
    begun = await reset(client, opponent="self", episode_id="lesson")
    assert (begun["fen"], len(begun["legal_moves"]), begun["reward"], begun["is_check"]) == (BEGINNING, 20, 0.0, False)
    assert begun["metadata"]["episode_id"] == "lesson"
    for move, body, query in (
        ("e2e4", {"episode_id": "lesson"}, {}),
        ("e5", {}, {"episode_id": "lesson"}),
        ("Bc4", {"timeout_s": 30.0, "request_id": "third"}, {"episode_id": "lesson"}),
    ):
        response = await client.post(f"{PREFIX}/step", json={"action": {"move": move}, **body}, params=query)
        assert response.json()["observation"]["metadata"]["accepted"], response.text
    action = {"move": "a7a6", "metadata": {"episode_id": "lesson", "thinking_time": 1.5}}
    await client.post(f"{PREFIX}/step", json={"action": action})
    told = await state_of(client, "lesson")
    assert (told["step_count"], told["current_player"]) == (4, "white")
    assert told["move_history"] == ["e2e4", "e7e5", "f1c4", "a7a6"]
    assert told["fen"] == "rnbqkbnr/1ppp1ppp/p7/4p3/2B1P3/8/PPPP1PPP/RNBQK1NR w KQkq - 0 3"
    assert (told["player"], told["done"], told["result"], told["initial_fen"]) == ("both", False, None, BEGINNING)


async def test_an_episode_is_a_game_of_the_log(client: httpx2.AsyncClient) -> None:
    """It is a live game and a world: every attempt is an effect, and the other doors show the same game."""
    begun = await reset(client, seed=1, agent_color="white", agent_id="pupil", experiment="school")
    name = begun["metadata"]["episode_id"]
    await stepped(client, name, "e2e5")
    after = await stepped(client, name, "e2e4")
    game = (await client.get(f"/v1/games/{name}?tensor=false")).json()
    assert (game["white_agent_id"], game["black_agent_id"], game["experiment"]) == ("pupil", "openenv-random", "school")
    assert game["board_state"]["fen"] == after["fen"]
    assert game["illegal_moves_attempted"] == 1
    effects = (await client.get(f"/v1/worlds/{name}/effects")).json()["effects"]
    kinds = [effect["kind"] for effect in effects if effect["kind"].startswith("Move")]
    assert kinds == ["MoveRejected", "MoveMade", "MoveMade"]
    assert (await client.get(f"/v1/worlds/{name}/verification")).json()["verified"]


async def test_the_seed_says_who_is_white_and_what_the_opponent_does(client: httpx2.AsyncClient) -> None:
    """The same seed gives the same colour and, to the same moves, the same answers; an agent with black is answered."""
    colours = set()
    for seed in (3, 4):
        stories = []
        for _ in range(2):
            seen = await reset(client, seed=seed)
            name, player = seen["metadata"]["episode_id"], seen["metadata"]["player"]
            assert (seen["metadata"]["last_move"] is None) == (player == "white")
            assert seen["metadata"]["turn"] == player
            assert len(seen["legal_moves"]) == 20
            story = [player, seen["fen"]]
            for _ in range(2):
                seen = await stepped(client, name, seen["legal_moves"][seed])
                story.append(seen["fen"])
            stories.append(story)
        colours.add(player)
        assert stories[0] == stories[1]
    assert colours == {"white", "black"}
    seen = await reset(client, seed=None)
    again = await reset(client, seed=seen["metadata"]["seed"])
    assert again["metadata"]["player"] == seen["metadata"]["player"]


async def test_the_end_is_worth_what_the_agent_has_of_it(client: httpx2.AsyncClient) -> None:
    """Won, drawn, lost by the opponent's answer, and lost before the agent could do anything."""
    for fen, colour, move, score, reward in (
        (MATE_OR_STALEMATE, "white", "f1f8", "1-0", 1.0),
        (MATE_OR_STALEMATE, "white", "f1f7", "1/2-1/2", 0.0),
        (BEFORE_FORCED_MATE, "black", "h7b7", "1-0", -1.0),
        (FORCED_MATE, "black", None, "1-0", -1.0),
    ):
        seen = await reset(client, fen=fen, agent_color=colour)
        name = seen["metadata"]["episode_id"]
        if move is not None:
            assert not seen["done"]
            seen = await stepped(client, name, move)
        assert (seen["done"], seen["result"], seen["reward"], seen["legal_moves"]) == (True, score, reward, [])
        assert seen["metadata"]["turn"] is None
        told = await state_of(client, name)
        assert (told["done"], told["result"], told["attempts_left"]) == (True, score, None)
        late = problem(await step(client, name, "e2e4"), 422, "illegal_effect", rule="game_over")
        assert f"the episode is over ({score}" in late["detail"]


async def test_illegal_attempts_cost_and_then_the_game(client: httpx2.AsyncClient) -> None:
    """Each is -0.1 and the game goes on; with the last that is allowed the fallback comes: lost, or a random move."""
    begun = await reset(client, agent_color="white")
    name = begun["metadata"]["episode_id"]
    for left, move in ((2, "e2e5"), (1, "rubbish")):
        seen = await stepped(client, name, move)
        assert (seen["reward"], seen["done"], seen["fen"]) == (-0.1, False, begun["fen"])
        assert seen["legal_moves"] == begun["legal_moves"]
        assert (seen["metadata"]["accepted"], seen["metadata"]["attempts_left"]) == (False, left)
        assert (seen["metadata"]["attempted"], bool(seen["metadata"]["detail"])) == (move, True)
    seen = await stepped(client, name, "e2e9")
    assert (seen["reward"], seen["done"], seen["result"]) == (-1.0, True, "0-1")
    assert (seen["metadata"]["status"], seen["metadata"]["reason"]) == ("resigned", "illegal_move")
    begun = await reset(client, agent_color="white", max_illegal=1, fallback="random")
    seen = await stepped(client, begun["metadata"]["episode_id"], "e2e5")
    assert (seen["reward"], seen["done"], seen["metadata"]["turn"]) == (-0.1, False, "white")
    assert (await state_of(client, begun["metadata"]["episode_id"]))["step_count"] == 2


async def test_who_moves_both_sides_is_rewarded_for_each(client: httpx2.AsyncClient) -> None:
    """In self-play the reward is that of the side which has just moved."""
    await reset(client, opponent="self", episode_id="mate")
    rewards = [(await stepped(client, "mate", move))["reward"] for move in ("f3", "e5", "g4", "Qh4#")]
    assert rewards == [0.0, 0.0, 0.0, 1.0]
    assert (await state_of(client, "mate"))["result"] == "0-1"


async def test_the_same_request_is_the_same_attempt(client: httpx2.AsyncClient) -> None:
    """A request_id again gets the same answer, however much has happened since; with another move it is refused."""
    for opponent in ("random", "self"):
        begun = await reset(client, opponent=opponent, agent_color="white", seed=3)
        name = begun["metadata"]["episode_id"]
        first = await step(client, name, "e2e4", request_id="r1")
        wrong = await step(client, name, "a1a1", request_id="r2")
        await stepped(client, name, first.json()["observation"]["legal_moves"][0])
        for request_id, move, answer in (("r1", "e4", first), ("r2", "a1a1", wrong)):
            again = await step(client, name, move, request_id=request_id)
            assert again.headers["idempotency-replayed"] == "true"
            assert again.json() == answer.json()
        problem(await step(client, name, "d2d4", request_id="r1"), 422, "request_conflict")
        told = await state_of(client, name)
        assert told["step_count"] == (4 if opponent == "random" else 2)


async def test_which_episode_is_meant_must_be_clear(client: httpx2.AsyncClient) -> None:
    """Unknown, unnamed, contradictory, taken, and no live game: each is told apart."""
    await reset(client, episode_id="e", opponent="self")
    problem(await step(client, "nobody", "e2e4"), 404, "game_not_found", game_id="nobody")
    problem(await client.get(f"{PREFIX}/state?episode_id=nobody"), 404, "game_not_found")
    bare = await client.post(f"{PREFIX}/step", json={"action": {"move": "e2e4"}})
    problem(bare, 422, "invalid_parameter", parameter="episode_id")
    two = await client.post(f"{PREFIX}/step?episode_id=f", json={"action": {"move": "e2e4"}, "episode_id": "e"})
    problem(two, 422, "invalid_move_request", path="$.episode_id")
    taken = await client.post(f"{PREFIX}/reset", json={"episode_id": "e"})
    assert "is taken" in problem(taken, 409, "world_exists")["detail"]
    await new_game(client, "record", started())
    problem(await step(client, "record", "e2e4"), 409, "game_not_live")
    await made(client, game_id="engines", players={"white": "random", "black": "random"})
    problem(await step(client, "engines", "e2e4"), 409, "game_not_live")
    assert (await client.get(f"{PREFIX}/state")).json()["episode_id"] is None


async def test_an_episode_is_resumed_where_it_stands(client: httpx2.AsyncClient) -> None:
    """A reset that resumes gives the present observation; any live game can be gone on with."""
    await reset(client, episode_id="later", agent_color="white", seed=2)
    seen = await stepped(client, "later", "e2e4")
    again = await reset(client, episode_id="later", resume=True)
    assert {name: again[name] for name in ("fen", "legal_moves", "done", "reward")} == {
        name: seen[name] for name in ("fen", "legal_moves", "done", "reward")
    }
    await made(client, game_id="table")
    await client.post("/v1/games/table/moves", json={"player": "white", "move": "e2e4"})
    seen = await reset(client, episode_id="table", resume=True)
    assert (seen["metadata"]["player"], seen["metadata"]["last_move"]) == ("both", "e2e4")
    assert (await stepped(client, "table", "e7e5"))["metadata"]["accepted"]


async def test_a_player_of_the_service_is_an_opponent(client: httpx2.AsyncClient) -> None:
    """An opponent that the arena plays has moved when the step is answered."""
    seen = await reset(client, opponent={"name": "random"}, agent_color="black", seed=1)
    name = seen["metadata"]["episode_id"]
    assert (seen["metadata"]["turn"], bool(seen["metadata"]["last_move"])) == ("black", True)
    seen = await stepped(client, name, "e5")
    state = await state_of(client, name)
    assert (state["step_count"], state["global_seq"]) == (3, seen["metadata"]["global_seq"])
    assert len(seen["legal_moves"]) > 10


async def test_what_the_environment_tells_of_itself(client: httpx2.AsyncClient) -> None:
    """Health, metadata, and schemas that what is answered fits; the position as numbers where it is asked for."""
    told: dict[str, Any] = {
        name: (await client.get(f"{PREFIX}/{name}")).json() for name in ("health", "metadata", "schema")
    }
    assert told["health"] == {"status": "healthy"}
    assert {"name", "description", "version"} <= told["metadata"].keys()
    response = await client.post(f"{PREFIX}/reset?tensor=true")
    observation = response.json()["observation"]
    assert observation["metadata"]["board_tensor"][0][0] == [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    jsonschema_rs.validate(told["schema"]["observation"], observation)
    jsonschema_rs.validate(told["schema"]["state"], await state_of(client, observation["metadata"]["episode_id"]))
    jsonschema_rs.validate(told["schema"]["state"], (await client.get(f"{PREFIX}/state")).json())
    jsonschema_rs.validate(told["schema"]["action"], {"move": "e2e4", "metadata": {}})
    problem(await client.get(f"{PREFIX}/ws"), 426, "upgrade_required")
    other = await client.post(f"{PREFIX}/reset", headers={"Origin": "https://example.org"})
    problem(other, 403, "origin_refused")


async def test_an_episode_may_go_on_from_a_game(client: httpx2.AsyncClient) -> None:
    """An episode from WORLD@MOMENT is a fork with the moves up to there; the same seed and moves make the same game."""
    await made(client, game_id="master")
    await played(client, "master", "e2e4", "e7e5", "g1f3", "b8c6")
    shown = []
    for episode_id in ("pupil-1", "pupil-2"):
        begun = await reset(
            client, fork_of="master@ply:2", episode_id=episode_id, seed=3, agent_color="white", agent_id="pupil"
        )
        assert (begun["metadata"]["last_move"], begun["metadata"]["turn"]) == ("e7e5", "white")
        assert not (await stepped(client, episode_id, "a1a8"))["metadata"]["accepted"]
        await stepped(client, episode_id, "d2d4")
        shown.append(await state_of(client, episode_id))
    assert shown[0]["move_history"][:3] == ["e2e4", "e7e5", "d2d4"]
    assert (shown[0]["step_count"], shown[0]["initial_fen"]) == (4, BEGINNING)
    assert shown[0]["move_history"] == shown[1]["move_history"]
    fork_of = (await client.get("/v1/worlds/pupil-1/effects/1")).json()["payload"]["fork_of"]
    assert fork_of["world_id"] == "master"


async def test_what_an_episode_cannot_go_on_from(client: httpx2.AsyncClient) -> None:
    """A game that was over at the moment begins no episode, and what is no place, or one too many, is named."""
    await made(client, game_id="mated")
    await played(client, "mated", "f2f3", "e7e5", "g2g4", "d8h4")
    for body, status, code, more in (
        ({"fork_of": "mated"}, 409, "game_not_live", {}),
        ({"fork_of": "mated@ply:x"}, 422, "invalid_config", {"path": "$.fork_of"}),
        ({"fork_of": 1}, 422, "invalid_config", {"path": "$.fork_of"}),
        ({"fork_of": "mated@ply:1", "fen": BEGINNING}, 422, "invalid_config", {"path": "$.fen"}),
        ({"fork_of": "nowhere"}, 404, "world_not_found", {}),
    ):
        problem(await client.post(f"{PREFIX}/reset", json={**body, "episode_id": "none"}), status, code, **more)
    assert (await client.get("/v1/worlds/none")).status_code == 404


async def test_the_document_says_what_is_too_short_or_too_long(client: httpx2.AsyncClient) -> None:
    """The bodies that are refused for a size are those that the OpenAPI document refuses."""
    schemas = (await client.get("/openapi.json")).json()
    await reset(client, episode_id="sized", opponent="self")
    action = {"move": "e2e4"}
    for path, shape, body, path_of_problem in (
        ("step", "OpenEnvStep", {"action": action, "timeout_s": 0}, "$.timeout_s"),
        ("step", "OpenEnvStep", {"action": action, "timeout_s": 1e10}, None),
        ("reset", "OpenEnvReset", {"opponent": "p" * 101}, "$.opponent"),
        ("reset", "OpenEnvReset", {"opponent": "random"}, None),
    ):
        validator = jsonschema_rs.validator_for({**schemas, "$ref": f"#/components/schemas/{shape}"})
        assert validator.is_valid(body) == (path_of_problem is None), body
        named = {"episode_id": "sized"} if path == "step" else {}
        response = await client.post(f"{PREFIX}/{path}", json=body, params=named)
        if path_of_problem is None:
            assert response.status_code == 200, response.text
        else:
            assert response.json()["path"] == path_of_problem, response.text
