"""Observations: what it costs to make what one agent sees of a simulation, with noise, and all agents of a turn."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from benchmarks.harness import Goal, Report, say
from worldledger.observability import MatrixPolicy, ObservabilityConfig, construct_observation
from worldledger.variables import (
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
)
from worldledger.world import WorldState

AGENTS = 100
ONE, ALL = 30, 7
KEY = "0123456789abcdef0123456789abcdef"
#: Twenty variables: nine floats, nine whole numbers, a dict of three numbers, a text.
_BAG = {"type": "dict", "schema": {name: {"type": "float", "min": 0, "max": 1000} for name in ("food", "wood", "ore")}}
VARIABLES = check_definitions(
    {
        **{f"rate_{number}": {"type": "float", "min": 0, "max": 1000} for number in range(9)},
        **{f"count_{number}": {"type": "int", "min": 0} for number in range(9)},
        "bag": _BAG,
        "note": {"type": "str"},
    }
)
PRICES = check_definitions({"price": {"type": "float", "min": 0, "default": 10.0}})
#: Most milliseconds for one observation, most seconds for one of each agent.
WANTED_ONE, WANTED_ALL = 10.0, 0.6


class State(BaseModel):
    """A simulation's state."""

    turn: int
    agents: dict[str, Any]
    global_state: Any
    reasoning_chains: list[Any] = []


def _state() -> State:
    model = create_agent_state_model(VARIABLES)
    agents = {}
    for number in range(AGENTS):
        values: dict[str, Any] = {f"rate_{which}": 100.5 + number + which for which in range(9)}
        values |= {f"count_{which}": 100 + number + which for which in range(9)}
        bag = {"food": 1.5 + number, "wood": 2.5, "ore": 3.5}
        name = f"agent-{number}"
        agents[name] = validate_state(model, {"name": name, **values, "bag": bag, "note": "on the way to the market"})
    return State(turn=7, agents=agents, global_state=validate_state(create_global_state_model(PRICES), {}))


def _config() -> ObservabilityConfig:
    """Return one by which everybody sees all of everybody, with noise on others: the most that there is to do."""
    names = [f"agent-{number}" for number in range(AGENTS)]
    return ObservabilityConfig.model_validate(
        {
            "enabled": True,
            "variable_visibility": {"external": ["rate_0"], "internal": []},
            "matrix": [[one, other, "external", 0.1] for one in names for other in names],
            "default": {"level": "insider", "noise": 0.05},
        }
    )


def _median(work: Callable[[], object], rounds: int) -> float:
    """Return the median of the seconds that the work takes."""
    work()
    gc.collect()
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def run(report: Report) -> None:
    """Measure one observation, one of each agent, and one agent's view of the same as the policy makes it."""
    say("observations")
    state, config = _state(), _config()
    names = list(state.agents)

    def of_all() -> None:
        for name in names:
            construct_observation(name, state, config, world_uuid=KEY)

    one = _median(lambda: construct_observation("agent-1", state, config, world_uuid=KEY), ONE)
    what = f"one observation of {AGENTS} agents with 20 variables, with noise"
    report.note(Goal(what, one * 1000, WANTED_ONE, at_least=False, unit="ms"))
    everybody = _median(of_all, ALL)
    report.note(Goal(f"observations of {AGENTS} observers of these", everybody, WANTED_ALL, at_least=False, unit="s"))
    world = WorldState.initial()
    world.entities = {name: dump_state(agent) for name, agent in state.agents.items()}
    world.metadata["turn"] = state.turn
    policy = MatrixPolicy.of(config, "agent-1", VARIABLES, PRICES, KEY)
    view = _median(lambda: policy.filter_world_state(world, "agent-1"), ONE)
    report.tell("the same as the view of one agent, with its digest", view * 1000, "ms")
