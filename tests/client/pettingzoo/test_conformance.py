"""PettingZoo's own tests of environments, against a real service; and what can be done without PettingZoo."""

from __future__ import annotations

import subprocess
import sys

import httpx2
import pytest
from pettingzoo.test.api_test import api_test
from pettingzoo.test.seed_test import seed_test

from .conftest import MakeEnv
from .helpers import stands


# PettingZoo knows by their names those environments whose observations are no plain arrays, or whose mask is empty at
# the end of the game. This one is none of them; every other warning is an error.
@pytest.mark.filterwarnings("ignore:Observation is not a NumPy array:UserWarning")
@pytest.mark.filterwarnings("ignore:Observation space for each agent probably should be gymnasium:UserWarning")
@pytest.mark.filterwarnings("ignore:Action mask numpy array is all zeros:UserWarning")
def test_pettingzoo_s_api_test_is_passed(make_env: MakeEnv) -> None:
    """A whole game and several resets are as PettingZoo's API says."""
    env = make_env(experiment="api")
    for n, agent in enumerate(env.possible_agents):
        env.action_space(agent).seed(5 + n)  # a game of chance that is not long, and has a winner
    api_test(env, num_cycles=1000)  # type: ignore[no-untyped-call]


def test_pettingzoo_s_seed_test_is_passed(make_env: MakeEnv) -> None:
    """Two environments with the same seed show and tell the same."""
    seed_test(make_env, num_cycles=10)  # type: ignore[no-untyped-call]


def test_every_episode_is_in_the_log(make_env: MakeEnv, http: httpx2.Client) -> None:
    """Every reset makes a game, with its seed and what it was asked for."""
    env = make_env(experiment="episodes", white={"agent_id": "w", "name": "Wanda"}, deadline_s=600.0, max_illegal=7)
    ids = []
    for seed in (1, None):
        env.reset(seed=seed)
        told = stands(http, env.game_id)
        assert told["live"] == {"seed": seed, "deadline_s": 600.0, "max_illegal": 7, "fallback": "resign"}
        assert (told["white"], told["black_agent_id"], told["experiment"]) == ("Wanda", "player_1", "episodes")
        ids.append(told["game_id"])
    assert len(set(ids)) == 2


def test_the_client_does_without_pettingzoo() -> None:
    """Where PettingZoo is not installed the client can be used, and who imports its environments is told the extra."""
    code = """
import sys
sys.modules["pettingzoo"] = sys.modules["gymnasium"] = None
import worldledger.client
try:
    from worldledger_chess.pettingzoo import chess_env
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'worldledger[pettingzoo]'" in done.stdout
