"""Games in the chess environment: rewards, attempts, ends, going on, and a service that is lost."""

from __future__ import annotations

import time
from collections.abc import Iterator

import chess
import httpx2
import numpy as np
import pytest
from worldledger_chess.pettingzoo import chess_env
from worldledger_chess.rules.actions import legal_actions
from worldledger_chess.rules.board import tensor_of

from worldledger.client import ServiceUnavailableError
from worldledger.errors import IllegalEffectError, InvalidConfigError, RateLimitedError, RequestConflictError

from .conftest import GoBetween, MakeEnv
from .helpers import effects, play, stands

FOOLS_MATE = ("f2f3", "e7e5", "g2g4", "d8h4")


@pytest.fixture
def env(service: str) -> Iterator[chess_env.ChessEnv]:
    """A raw environment, without wrappers."""
    made = chess_env.ChessEnv(service, patience=0.5)
    yield made
    made.close()


def test_a_game_is_played_to_its_end(env: chess_env.ChessEnv, http: httpx2.Client) -> None:
    """Both get their reward at the end, infos tell the game, and every move is in the log with its time."""
    env.reset()
    play(env, *FOOLS_MATE[:3])
    assert (env.agent_selection, env.rewards) == ("player_1", {"player_0": 0, "player_1": 0})
    assert "d8h4" in env.infos["player_1"]["legal_moves"]
    assert env.infos["player_0"]["legal_moves"] == []
    assert (env.infos["player_0"]["san"], env.infos["player_0"]["ply"]) == ("g4", 3)
    play(env, FOOLS_MATE[3])
    assert (env.terminations, env.truncations) == (dict.fromkeys(env.agents, True), dict.fromkeys(env.agents, False))
    assert env.rewards == {"player_0": -1.0, "player_1": 1.0}
    told = stands(http, env.game_id)
    assert [move["uci_notation"] for move in told["move_history"]] == list(FOOLS_MATE)
    assert all(move["thinking_time"] > 0 for move in told["move_history"])
    info = env.infos["player_0"]
    assert {name: info[name] for name in ("san", "ply", "legal_moves")} == {"san": "Qh4#", "ply": 4, "legal_moves": []}
    assert (info["status"], info["result"], info["fen"]) == ("checkmate", "black_wins", told["board_state"]["fen"])
    assert info["global_seq"] == told["global_seq"]
    ends = {}
    for agent in env.agent_iter():
        observation, reward, over, _, _ = env.last()
        assert observation is not None
        assert not observation["action_mask"].any()
        ends[agent] = (reward, over)
        env.step(None)
    assert ends == {"player_0": (-1.0, True), "player_1": (1.0, True)}


def test_both_see_the_board_s_tensor(env: chess_env.ChessEnv) -> None:
    """The tensor is the same for both, unmirrored; the mask is of who is to move, and in Black's own coding."""
    env.reset()
    tensor = env.observe("player_0")["observation"]
    assert (tensor[6, 4, 0], tensor.dtype, tensor.shape) == (1, np.uint8, (8, 8, 12))
    assert not env.observe("player_1")["action_mask"].any()
    play(env, "e2e4")
    seen = env.observe("player_1")
    assert (seen["observation"] == tensor_of(env.board)).all()
    assert (env.observe("player_0")["observation"] == seen["observation"]).all()
    assert set(np.flatnonzero(seen["action_mask"])) == set(legal_actions(env.board))
    assert env.observation_space("player_1").contains(seen)


def test_an_illegal_action_is_an_attempt(env: chess_env.ChessEnv, http: httpx2.Client) -> None:
    """It costs 0.1 and is in the log, whatever it is; the same player is to move, until the game's fallback follows."""
    env.reset(options={"fen": "4k3/8/8/8/8/8/8/4K2R w K - 0 1"})
    castling = chess.Move.from_uci("e1h1")  # which the service would read as castling
    seen = env.observe("player_0")
    for n, (action, attempted) in enumerate({4 * 584: "action 2336", 4 * 584 + 7 * 8 + 5: "e1f3"}.items(), 1):
        env.step(np.int64(action))
        assert (env.agent_selection, env.rewards["player_0"]) == ("player_0", -0.1)
        assert env.last()[1] == -0.1
        assert (env.infos["player_0"]["attempts_left"], env.infos["player_0"]["ply"]) == (3 - n, 0)
        assert effects(http, env.game_id)[-1][1]["attempted"] == attempted
        assert env.infos["player_0"]["rejected"] == effects(http, env.game_id)[-1][1]["detail"]
    assert (env.observe("player_0")["action_mask"] == seen["action_mask"]).all()
    play(env, castling.uci())
    assert [kind for kind, _ in effects(http, env.game_id)] == ["MoveRejected"] * 3 + ["GameEnded"]
    assert (env.infos["player_1"]["status"], env.rewards) == ("resigned", {"player_0": -1.0, "player_1": 1.0})


def test_a_random_move_may_be_made_instead(make_env: MakeEnv) -> None:
    """With that fallback the turn passes after the last attempt, and the same seed gives the same move."""
    env = make_env(max_illegal=1, fallback="random")
    told = []
    for _ in range(2):
        env.reset(seed=5)
        play(env, "e2e5")
        assert (env.agent_selection, env.rewards) == ("player_1", {"player_0": -0.1, "player_1": 0.0})
        assert env.infos["player_0"]["ply"] == 1
        told.append(env.infos["player_0"]["fen"])
    assert not any(env.terminations.values())
    assert env.infos["player_1"]["san"]


def test_what_is_no_action_is_refused(make_env: MakeEnv, env: chess_env.ChessEnv) -> None:
    """A number out of range, a fraction, nothing at all, a step before the first reset: nothing is attempted."""
    wrapped = make_env()
    with pytest.raises(AssertionError, match="reset"):
        wrapped.step(0)
    env.reset()
    for wrong, error in {4672: ValueError, -1: ValueError, 1.5: TypeError, None: TypeError}.items():
        with pytest.raises(error):
            env.step(wrong)  # type: ignore[arg-type]
    wrapped.reset()
    with pytest.raises(AssertionError, match="action space"):
        wrapped.step(4672)
    play(env, *FOOLS_MATE)
    with pytest.raises(ValueError, match="None"):
        env.step(0)


def test_a_game_that_has_ended_meanwhile_is_over(env: chess_env.ChessEnv, http: httpx2.Client) -> None:
    """Whoever has ended it: the next step moves nothing, and both get what the result gives them."""
    env.reset()
    play(env, "e2e4")
    http.post(f"/v1/games/{env.game_id}/resign", json={"player": "white"}).raise_for_status()
    play(env, "e7e5")
    assert env.rewards == {"player_0": -1.0, "player_1": 1.0}
    assert all(env.terminations.values())
    assert (env.infos["player_1"]["status"], env.infos["player_1"]["ply"]) == ("resigned", 1)
    assert [kind for kind, _ in effects(http, env.game_id)] == ["MoveMade", "GameEnded", "IntentRejected"]


def test_time_runs_out(make_env: MakeEnv, http: httpx2.Client) -> None:
    """A deadline is the service's: who has not moved by then has lost, which the next step shows."""
    env = make_env(deadline_s=0.1)
    env.reset()
    late = time.monotonic() + 120
    while stands(http, env.game_id)["status"] == "in_progress":
        assert time.monotonic() < late
        time.sleep(0.01)
    play(env, "e2e4")
    assert (env.infos["player_0"]["status"], env.rewards["player_0"], env.terminations["player_0"]) == (
        "timeout",
        -1.0,
        True,
    )


def test_a_game_is_gone_on_with(env: chess_env.ChessEnv, make_env: MakeEnv, http: httpx2.Client) -> None:
    """Another environment takes a game over where it stands, in its own variant, and leaves it as it is afterwards."""
    env.reset(options={"fen": "4k3/8/8/8/8/8/8/1R1K4 b - - 0 1"})
    play(env, "e8e7")
    env.close()
    other = make_env(chess960=True)
    other.reset(options={"game_id": env.game_id})
    assert (other.agent_selection, other.infos["player_0"]["ply"]) == ("player_0", 1)
    play(other, "d1d2", "e7e6")
    http.post(f"/v1/games/{env.game_id}/moves", json={"player": "white", "move": "Kd3"}).raise_for_status()
    with pytest.raises(IllegalEffectError) as out_of_turn:
        play(other, "d2c2")
    assert out_of_turn.value.details["rule"] == "not_your_turn"
    other.reset(options={"game_id": env.game_id})
    assert (other.agent_selection, other.infos["player_1"]["ply"]) == ("player_1", 4)
    other.reset()
    assert stands(http, env.game_id)["status"] == "in_progress"


def test_a_reset_gives_up_what_was_begun(env: chess_env.ChessEnv, http: httpx2.Client) -> None:
    """Who is to move resigns; a game that is over, or is to be gone on with, is left as it is."""
    env.reset()
    play(env, "e2e4")
    first = env.game_id
    env.reset(options={"game_id": first})
    assert stands(http, first)["status"] == "in_progress"
    env.reset()
    assert effects(http, first)[-1][1]["result"] == "white_wins"
    second = env.game_id
    http.post(f"/v1/games/{second}/resign", json={"player": "black"}).raise_for_status()
    env.reset()
    assert effects(http, second)[0][1]["result"] == "white_wins"


def test_a_game_may_be_over_from_the_beginning(env: chess_env.ChessEnv) -> None:
    """A game that is over is over after reset, and rewards are there; none begins in a position that is mate."""
    with pytest.raises(InvalidConfigError, match="the game is over in this position"):
        env.reset(options={"fen": "rnb1kbnr/pppp1ppp/8/4p3/6Pq/5P2/PPPPP2P/RNBQKBNR w KQkq - 1 3"})
    env.reset()
    play(env, "f2f3", "e7e5", "g2g4", "d8h4")
    assert (env.terminations, env.last()[1]) == (dict.fromkeys(env.agents, True), -1.0)
    env.reset(options={"game_id": env.game_id})
    assert env.last()[1:3] == (-1.0, True)


def test_chess960_is_played(make_env: MakeEnv) -> None:
    """Castling goes to the rook's square."""
    env = make_env(chess960=True, fen="1r1k1r2/pppppppp/8/8/8/8/PPPPPPPP/1R1K1R2 w FBfb - 0 1")
    env.reset()
    assert "d1f1" in env.infos["player_0"]["legal_moves"]
    play(env, "d1f1", "d8b8")
    assert (env.infos["player_0"]["san"], env.agent_selection) == ("O-O-O", "player_0")


def test_what_cannot_be_reset_to_is_refused(env: chess_env.ChessEnv, http: httpx2.Client) -> None:
    """Two beginnings at once, and a game that the service plays; the game at hand goes on."""
    agents = {"white": {"agent_id": "w"}, "black": {"agent_id": "b"}}
    players = {"white": "random"}
    driven = http.post("/v1/games", json={**agents, "players": players}).raise_for_status().json()["game_id"]
    env.reset()
    with pytest.raises(ValueError, match="external"):
        env.reset(options={"game_id": driven})
    with pytest.raises(ValueError, match="one of them"):
        env.reset(options={"game_id": env.game_id, "fen": chess.STARTING_FEN})
    play(env, "e2e4")
    assert env.agent_selection == "player_1"


def test_an_answer_that_is_lost_is_asked_for_again(make_env: MakeEnv, between: GoBetween, http: httpx2.Client) -> None:
    """A game that was made, a move and a resignation are one each, however often their answers were lost."""
    env = make_env(between.url)
    between.lose = 1
    env.reset()
    first = env.game_id
    between.lose = 2
    play(env, "e2e4")
    assert (between.lose, env.agent_selection) == (0, "player_1")
    between.lose = 1
    env.reset()
    assert [kind for kind, _ in effects(http, first)] == ["MoveMade", "GameEnded"]


def test_a_service_that_is_asked_too_often_is_waited_for(make_env: MakeEnv, between: GoBetween) -> None:
    """A refused request is sent again when the service says, as far as patience goes; then it is told."""
    env = make_env(between.url)
    between.refuse = 2
    env.reset()
    assert (between.refuse, env.agent_selection) == (0, "player_0")
    between.refuse = 1
    hasty = make_env(between.url, patience=0.0)
    with pytest.raises(RateLimitedError):
        hasty.reset()


def test_a_step_that_failed_can_be_tried_again(make_env: MakeEnv, between: GoBetween, http: httpx2.Client) -> None:
    """Where the service cannot be reached it is told; the same step again is the same attempt, and another is none."""
    env = make_env(between.url, patience=0.0)
    env.reset()
    for uci in ("e2e4", "e7e5"):
        between.lose = 1
        with pytest.raises(ServiceUnavailableError) as lost:
            play(env, uci)
        assert lost.value.details["outcome"] == "unknown"
        with pytest.raises(RequestConflictError):
            play(env, "h2h4" if uci == "e2e4" else "h7h5")
        play(env, uci)
    assert [payload["uci_notation"] for _, payload in effects(http, env.game_id)] == [
        "e2e4",
        "e7e5",
    ]


def test_the_board_is_rendered(make_env: MakeEnv, env: chess_env.ChessEnv) -> None:
    """As text or as SVG, by the mode; without one there is nothing, and another one is refused."""
    for mode, begins in (("ansi", "r n b q k b n r\n"), ("svg", "<svg")):
        rendering = make_env(render_mode=mode)
        rendering.reset()
        assert str(rendering.render()).startswith(begins)
    env.reset()
    with pytest.warns(UserWarning, match="render_mode"):
        assert env.render() is None
    with pytest.raises(ValueError, match="human"):
        make_env(render_mode="human")


def test_where_there_is_no_service_it_is_told(env: chess_env.ChessEnv) -> None:
    """An address that is none is refused at once, one where nobody answers at reset, and a closed client always."""
    for url in ("127.0.0.1:8000", "ftp://example.org", "http://a:b"):
        with pytest.raises(ValueError, match="no address of a service"):
            chess_env.ChessEnv(url)
    with pytest.raises(ServiceUnavailableError, match="cannot be reached"):
        chess_env.ChessEnv("http://127.0.0.1:1", patience=0.0).reset()
    env.close()
    with pytest.raises(ServiceUnavailableError, match="closed"):
        env.reset()


def test_a_game_may_go_on_from_another(env: chess_env.ChessEnv, http: httpx2.Client, service: str) -> None:
    """A reset from WORLD@MOMENT plays in a fork from there on; the other game stays as it is."""
    env.reset()
    play(env, *FOOLS_MATE)
    first = env.game_id
    env.reset(options={"fork_of": f"{first}@ply:2"}, seed=5)
    assert (env.agent_selection, env.infos["player_0"]["ply"]) == ("player_0", 2)
    play(env, "d2d4")
    told = stands(http, env.game_id)
    assert [move["uci_notation"] for move in told["move_history"]] == ["f2f3", "e7e5", "d2d4"]
    assert told["live"]["seed"] == 5
    assert stands(http, first)["result"] == "black_wins"
    with pytest.raises(ValueError, match="one of them"):
        env.reset(options={"fork_of": f"{first}@ply:2", "game_id": first})
    always = chess_env.ChessEnv(service, fork_of=f"{first}@ply:3")
    for _ in range(2):
        always.reset()
        assert always.infos["player_1"]["ply"] == 3
    always.close()
