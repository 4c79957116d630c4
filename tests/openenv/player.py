"""A program: plays with a released client of OpenEnv and writes what it saw as JSON: ``python player.py ADDRESS``.

It runs in the environment of that client and knows nothing of this project.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import runpy
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from unittest import mock

# What draws an environment's web pages takes seconds to load; no client uses it.
sys.modules["gradio"] = mock.MagicMock()

from openenv.core import EnvClient, GenericEnvClient  # type: ignore[import-not-found] # noqa: E402
from openenv.core.client_types import StepResult  # type: ignore[import-not-found] # noqa: E402
from openenv.core.env_server.types import Action, Observation, State  # type: ignore[import-not-found] # noqa: E402

#: By this seed the example's game is over after 16 half-moves.
SEED = "39"


class ChessAction(Action):  # type: ignore[misc]
    """An action as the typed client has it."""

    move: str


class ChessObservation(Observation):  # type: ignore[misc]
    """An observation as the typed client has it: fields that it does not know are forbidden."""

    fen: str
    legal_moves: list[str]
    is_check: bool
    result: str | None


class ChessState(State):  # type: ignore[misc]
    """A state as the typed client has it."""

    fen: str
    current_player: str
    move_history: list[str]


class ChessEnv(EnvClient):  # type: ignore[misc]
    """A typed client, which reads done and reward inside the observation."""

    def _step_payload(self, action: ChessAction) -> dict[str, Any]:
        found: dict[str, Any] = action.model_dump()
        return found

    def _parse_result(self, payload: dict[str, Any]) -> Any:
        seen = ChessObservation(**payload["observation"])
        return StepResult(observation=seen, reward=seen.reward, done=seen.done)

    def _parse_state(self, payload: dict[str, Any]) -> ChessState:
        return ChessState(**payload)


async def by_seed(address: str) -> dict[str, Any]:
    """Reset twice by one seed, on one socket; then begin a third episode beside another client's."""
    stories = []
    async with GenericEnvClient(base_url=address) as env, GenericEnvClient(base_url=address) as other:
        for _ in range(2):
            seen = await env.reset(seed=3)
            story = [seen.observation["metadata"]["player"], seen.observation["fen"]]
            for _ in range(2):
                seen = await env.step({"move": seen.observation["legal_moves"][0]})
                story.append(seen.observation["fen"])
            stories.append(story)
        await asyncio.gather(env.reset(agent_color="white"), other.reset(agent_color="white"))
        await asyncio.gather(env.step({"move": "e2e4"}), other.step({"move": "d2d4"}))
        states = await asyncio.gather(env.state(), other.state())
        try:
            await env.reset(sede=3)
        except RuntimeError as error:
            refused = str(error)
        seen = await env.step({"move": "a2a3"})
    return {
        "stories": stories,
        "episodes": [state["episode_id"] for state in states],
        "moves": [state["move_history"][0] for state in states],
        "refused": refused,
        "usable": seen.observation["metadata"]["accepted"],
    }


async def typed(address: str) -> dict[str, Any]:
    """Play a whole game with the typed client."""
    rewards, steps = [], 0
    async with ChessEnv(base_url=address) as env:
        seen = await env.reset(seed=4, fen="8/5k2/8/8/8/2q5/4K3/8 w - - 96 80")
        while not seen.done:
            seen = await env.step(ChessAction(move=seen.observation.legal_moves[0]))
            rewards.append(seen.reward)
            steps += 1
        state = await env.state()
    return {
        "rewards": rewards,
        "steps": steps,
        "result": seen.observation.result,
        "inside": [seen.observation.done, seen.observation.reward],
        "state": state.model_dump(),
    }


def synchronous(address: str) -> dict[str, Any]:
    """Play with the synchronous wrapper: an illegal move, a whole game, and what comes after its end."""
    with GenericEnvClient(base_url=address).sync() as env:
        env.reset(opponent="self")
        illegal = env.step({"move": "e2e5"})
        for move in ("f2f3", "e7e5", "g2g4", "d8h4"):
            seen = env.step({"move": move})
        state = env.state()
        try:
            env.step({"move": "a2a3"})
        except RuntimeError as error:
            late = str(error)
        again = env.reset()
    return {
        "illegal": [illegal.reward, illegal.done],
        "end": [seen.reward, seen.done, seen.observation["result"], seen.observation["reward"]],
        "moves": state["move_history"],
        "late": late,
        "again": [again.done, len(again.observation["legal_moves"])],
    }


def example(address: str) -> str:
    """Run the project's example; return what it printed."""
    sys.argv = ["openenv_game.py", "--url", address.removesuffix("/openenv/chess"), "--seed", SEED]
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        runpy.run_path("examples/openenv_game.py", run_name="__main__")
    return said.getvalue()


def main(address: str) -> None:
    """Do it all."""
    names = {}
    for name in ("openenv-core", "openenv"):
        try:
            names[name] = version(name)
        except PackageNotFoundError:
            continue
    told = {
        "client": names,
        "by_seed": asyncio.run(by_seed(address)),
        "typed": asyncio.run(typed(address)),
        "synchronous": synchronous(address),
        "example": example(address),
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
