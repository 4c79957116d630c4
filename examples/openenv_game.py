"""An agent plays chess through OpenEnv: reset, step and state, with the client of the package ``openenv``.

    python examples/openenv_game.py --url http://127.0.0.1:8000

The agent takes what it can, and the opponent draws its moves by the seed. The episode is a world: its log can be read,
watched and verified as any other, and the game is at /v1/games.
"""

from __future__ import annotations

import argparse
import random
import sys

try:
    from openenv.core import GenericEnvClient
except ImportError:
    GenericEnvClient = None


def choose(observation: dict, chance: random.Random) -> str:
    """Choose a move: one that takes something, if there is one."""
    files = dict(zip("abcdefgh", range(8), strict=True))
    rows = [
        "".join(" " * int(char) if char.isdigit() else char for char in row)
        for row in observation["fen"].split()[0].split("/")
    ]
    moves = observation["legal_moves"]
    takes = [move for move in moves if rows[8 - int(move[3])][files[move[2]]] != " "]
    return chance.choice(takes or moves)


def main() -> int:
    """Play one game."""
    parser = argparse.ArgumentParser(description="An agent plays chess through OpenEnv.")
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="address of the service")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    if GenericEnvClient is None:
        print("The client of OpenEnv is not installed here: pip install openenv")
        return 0
    chance = random.Random(arguments.seed)  # noqa: S311 - a game is no secret
    with GenericEnvClient(base_url=f"{arguments.url}/openenv/chess").sync() as env:
        seen = env.reset(seed=arguments.seed)
        metadata = seen.observation["metadata"]
        print(f"episode {metadata['episode_id']}: the agent is {metadata['player']}")
        while not seen.done:
            seen = env.step({"move": choose(seen.observation, chance)})
        state = env.state()
    print(f"the end: {seen.observation['result']} after {state['step_count']} half-moves, reward {seen.reward}")
    print(f"as a game: {arguments.url}/v1/games/{state['episode_id']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
