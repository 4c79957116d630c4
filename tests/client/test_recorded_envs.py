"""Environments of PettingZoo are recorded as they are played, and played again to find the first difference."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test.api_test import api_test
from pettingzoo.test.example_envs import generated_agents_env_v0, generated_agents_parallel_v0
from pettingzoo.test.parallel_test import parallel_api_test
from worldledger_recorder.pettingzoo import digest_of, record, replay

from tests.cli.helpers import done
from worldledger.errors import FileRefusedError


class _Kept:
    """A recording in memory."""

    def __init__(self) -> None:
        self.effects: list[dict[str, Any]] = []
        self._steps = 0

    def effect(self, kind: str, agent: str | None = None, *, payload: Mapping[str, Any] | None = None) -> None:
        effect = {"kind": kind, "source_id": agent or "recorder", "payload": payload or {}}
        self.effects.append({"global_seq": len(self.effects) + 1, **json.loads(json.dumps(effect, allow_nan=False))})

    def step(self) -> None:
        self._steps += 1
        self.effect("StepBegan", payload={"step": self._steps})


class _Walk(ParallelEnv[int, Any, Any]):
    """Two agents, called by numbers, walk in a plane by a noisy step; ``drift`` is added in their third step."""

    metadata: dict[str, Any] = {"name": "walk", "render_modes": []}  # noqa: RUF012 - as PettingZoo declares it
    possible_agents = [1, 2]  # noqa: RUF012 - likewise

    def __init__(self, drift: float = 0.0, *, breaks_at: int = 99) -> None:
        self.drift = drift
        self.breaks_at = breaks_at
        self.agents: list[int] = []
        self.render_mode = None

    def observation_space(self, agent: int) -> Any:
        return spaces.Dict({"at": spaces.Box(-100, 100, (2,), np.float64), "time": spaces.Discrete(99)})

    def action_space(self, agent: int) -> Any:
        return spaces.Dict({"by": spaces.Box(-1, 1, (2,), np.float32), "say": spaces.Tuple([spaces.Discrete(3)])})

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        if seed is not None:
            self.dice = np.random.default_rng(seed)
        self.agents, self.time = [1, 2], 0
        self.at = {agent: self.dice.uniform(size=2) + (options or {}).get("start", 0) for agent in self.agents}
        return self._seen(), {1: {}, 2: {}}

    def _seen(self) -> dict[int, Any]:
        return {agent: {"at": self.at[agent], "time": self.time} for agent in self.agents}

    def step(self, actions: dict[int, Any]) -> Any:
        self.time += 1
        if self.time == self.breaks_at:
            raise ZeroDivisionError("the world broke")
        for agent, action in actions.items():
            assert action["by"].dtype == np.float32
            assert isinstance(action["say"], tuple)
            self.at[agent] = self.at[agent] + action["by"] + self.dice.normal(0, 0.1, 2)
            if self.time == 3 and agent == 2:
                self.at[agent] = self.at[agent] + self.drift
        rewards = {agent: np.float64(self.at[agent].sum()) for agent in self.agents}
        over = dict.fromkeys(self.agents, self.time == 5)
        result = self._seen(), rewards, over, dict.fromkeys(self.agents, False), {1: {"n": np.int64(1)}, 2: {}}
        if self.time == 5:
            self.agents = []
        return result


def _walked(env: _Walk, *, infos: bool = False) -> list[dict[str, Any]]:
    """Play two episodes; return what was recorded."""
    run = _Kept()
    recorded = record(env, run, infos=infos)
    for seed, options in ((7, None), (None, {"start": 3})):
        recorded.reset(seed=seed, options=options)
        for agent in env.possible_agents:
            recorded.action_space(agent).seed(agent)
        while recorded.agents:
            recorded.step({agent: recorded.action_space(agent).sample() for agent in recorded.agents})
    return run.effects


def test_a_parallel_environment_is_replayed_exactly() -> None:
    """Resets with seeds and options, actions of any space and what came of them are recorded, and come again."""
    effects = _walked(_Walk(), infos=True)
    assert [effect["kind"] for effect in effects[:5]] == ["EnvReset", "StepBegan", "Acted", "Acted", "Stepped"]
    assert effects[0]["payload"].keys() == {"seed", "options", "agents", "observations"}
    assert [effect["payload"]["seed"] for effect in effects if effect["kind"] == "EnvReset"] == [7, None]
    assert effects[2]["source_id"] == "1"
    last = [effect for effect in effects if effect["kind"] == "Stepped"][-1]["payload"]
    assert (last["terminated"], last["truncated"]) == (["1", "2"], [])
    assert last["infos"] == {"1": {"n": 1}, "2": {}}
    replayed = replay(_Walk(), effects)
    assert replayed == (2, 10, None)


def test_the_first_difference_is_named() -> None:
    """Where an environment does otherwise, episode, step, agent and what differs are told, first of all rewards."""
    found = replay(_Walk(drift=0.5), _walked(_Walk())).difference
    assert found is not None
    assert (found.episode, found.step, found.agent, found.what) == (1, 3, "2", "the reward")
    assert found.found == pytest.approx(found.recorded + 1.0)
    assert str(found).startswith(f"episode 1, step 3, 2 (effect {found.global_seq}): the reward ")


def test_other_actions_observations_and_agents_are_differences() -> None:
    """A log that says otherwise than the environment does is found out at the place."""
    effects = _walked(_Walk())
    for index, change, told in (
        (0, {"agents": ["1"]}, (1, 0, None, "the agents")),
        (4, {"observations": {"1": "0" * 32}}, (1, 1, "1", "the observation's digest")),
        (4, {"terminated": ["2"]}, (1, 1, None, "the agents that are terminated")),
        (2, {"action": {"by": [1.0, 1.0], "say": [0]}}, (1, 1, "1", "the reward")),
        (2, {"action": "jump"}, (1, 1, None, "the error")),
    ):
        changed = [*effects]
        changed[index] = {**effects[index], "payload": {**effects[index]["payload"], **change}}
        found = replay(_Walk(), changed).difference
        assert found is not None
        assert (found.episode, found.step, found.agent, found.what) == told


def test_an_error_of_the_environment_is_recorded() -> None:
    """A step that raises is told as such, and is the same in a replay only if it raises again."""
    run = _Kept()
    env = record(_Walk(breaks_at=1), run)
    env.reset(seed=1)
    with pytest.raises(ZeroDivisionError):
        env.step({agent: env.action_space(agent).sample() for agent in env.agents})
    assert run.effects[-1]["payload"] == {"error": "ZeroDivisionError: the world broke"}
    assert replay(_Walk(breaks_at=1), run.effects).difference is None
    found = replay(_Walk(), run.effects).difference
    assert found is not None
    assert (found.what, found.recorded, found.found) == ("the error", "ZeroDivisionError: the world broke", None)


def _played(env: AECEnv[Any, Any, Any], run: _Kept, seed: int) -> None:
    recorded = record(env, run)
    recorded.reset(seed=seed)
    for agent in recorded.agent_iter(40):
        _, _, terminated, truncated, _ = recorded.last()
        recorded.step(None if terminated or truncated else recorded.action_space(agent).sample())


class _Count(AECEnv[str, Any, Any]):
    """Two agents in turn say numbers; the sum is what they see, and ``odd`` changes the turns."""

    metadata: dict[str, Any] = {"name": "count", "render_modes": []}  # noqa: RUF012 - as PettingZoo declares it

    def __init__(self, *, odd: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.odd = odd
        self.possible_agents = ["a", "b"]
        self.render_mode = None

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(1000)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(5)

    def observe(self, agent: str) -> Any:
        return self.sum

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = ["a", "b"]
        self.sum = int(np.random.default_rng(seed).integers(10))
        self.turn = 0
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "a"

    def step(self, action: Any) -> None:
        if self.terminations[self.agent_selection]:
            self._was_dead_step(action)
            return
        self._cumulative_rewards[self.agent_selection] = 0.0
        self.sum += int(action)
        self.turn += 1
        self.rewards = {agent: float(action) for agent in self.agents}
        self.terminations = dict.fromkeys(self.agents, self.turn >= 6)
        if not (self.odd and self.turn == 4):
            self.agent_selection = "b" if self.agent_selection == "a" else "a"
        self._accumulate_rewards()


def test_an_aec_environment_is_replayed_exactly() -> None:
    """What the program looks at is looked at again, in order; turns, steps of the dead and ends come again."""
    run = _Kept()
    _played(_Count(), run, 3)
    kinds = [effect["kind"] for effect in run.effects]
    assert kinds[:5] == ["EnvReset", "Observed", "StepBegan", "Acted", "Stepped"]
    assert kinds.count("Stepped") == 8
    assert replay(_Count(), run.effects) == (1, 8, None)
    found = replay(_Count(odd=True), run.effects).difference
    assert found is not None
    assert (found.step, found.what, found.recorded, found.found) == (4, "the turn of", "a", "b")
    begun = [
        {**effect, "payload": {**effect["payload"], "seed": 4}} if at == 0 else effect
        for at, effect in enumerate(run.effects)
    ]
    other = replay(_Count(), begun).difference
    assert other is not None
    assert (other.step, other.agent, other.what) == (0, "a", "the observation's digest")


def test_observations_are_known_by_their_digests() -> None:
    """Type, shape and values of arrays count, and the members of containers; how they lie in memory does not."""
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    same = [array, np.asfortranarray(array), array.astype(">i8"), array[:, :].copy()]
    assert len({digest_of(each) for each in same}) == 1
    others = [array.T, array.astype(np.int32), array.ravel(), array.tolist(), {"a": array}, (array,), None, 1, 1.0, "1"]
    assert len({digest_of(each) for each in [array, *others]}) == len(others) + 1
    assert digest_of({"a": 1, "b": array}) == digest_of({"b": array, "a": 1})


# PettingZoo's examples have observation spaces and seeds that its own tests warn of.
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_recorded_environments_pass_pettingzoo_s_tests() -> None:
    """To a program a recorded environment is like any other."""
    api_test(record(generated_agents_env_v0.env(), _Kept()), num_cycles=50)  # type: ignore[no-untyped-call]
    parallel_api_test(record(generated_agents_parallel_v0.parallel_env(), _Kept()), num_cycles=50)  # type: ignore[no-untyped-call]


def test_a_world_is_exported_and_replayed(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a name a world is recorded, its export is replayed, and a changed export is refused."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", database_url)
    monkeypatch.setenv("WORLDLEDGER_HOME", str(tmp_path / "home"))
    env = record(_Count(), "counted", experiment="pilot", on_error="raise", quiet=True)
    env.reset(seed=5)
    for _ in env.agent_iter():
        terminated = env.last()[2]
        env.step(None if terminated else 2)
    env.close()
    file = tmp_path / "counted.ndjson"
    done("export", "counted", "-o", str(file), "--quiet", "--database-url", database_url)
    assert replay(_Count(), file) == (1, 8, None)
    found = replay(_Count(odd=True), str(file)).difference
    assert found is not None
    assert (found.step, found.what) == (4, "the turn of")
    file.write_bytes(file.read_bytes().replace(b'"action":2', b'"action":3', 1))
    with pytest.raises(FileRefusedError):
        replay(_Count(), file)
