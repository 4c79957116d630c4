"""Typed state variables: models made from definitions against handwritten ones, on a hundred agents' states as JSON.

Source of the goals: docs/benchmarks.md, "Simulations".
"""

from __future__ import annotations

import json
import random
import time
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from benchmarks.harness import Figure, Goal, Report, say
from worldledger.canonical import MAX_INT
from worldledger.variables import check_definitions, create_agent_state_model

AGENTS = 100
VARIABLES = 50
#: Turns of each model in a round, and rounds.
TURNS, ROUNDS = 150, 9

TYPED, HANDWRITTEN = "agents of 50 typed variables", "agents of 50 typed variables, handwritten"
SCALARS, PLAIN = "agents of 50 scalar variables", "agents of 50 scalar variables, handwritten"

#: Three dicts (with dynamic keys, with whole-numbered keys, with a schema), two lists, a tuple.
COMPLEX: dict[str, Any] = {
    "inventory": {"type": "dict", "key_type": "str", "value_type": {"type": "float", "min": 0}},
    "debts": {"type": "dict", "key_type": "str", "value_type": "int"},
    "stats": {
        "type": "dict",
        "schema": {
            "health": {"type": "float", "min": 0, "max": 100},
            "mana": {"type": "float", "min": 0, "max": 100},
            "stamina": {"type": "int", "min": 0, "max": 10},
        },
    },
    "action_history": {"type": "list", "item_type": "str", "max_length": 100},
    "position_history": {
        "type": "list",
        "item_type": {"type": "tuple", "item_types": ["float", "float"]},
        "max_length": 100,
    },
    "location": {"type": "tuple", "item_types": ["float", "float"]},
}

_Percent = Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]


class _Handwritten(BaseModel):
    """What a developer would write for one agent."""

    model_config = ConfigDict(extra="forbid", cache_strings="keys")

    name: str = Field(min_length=1)


class _Stats(BaseModel):
    model_config = ConfigDict(extra="forbid")

    health: _Percent
    mana: _Percent
    stamina: int = Field(ge=0, le=10)


class _HandwrittenTyped(_Handwritten):
    inventory: Annotated[dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]], Field(max_length=1000)]
    debts: Annotated[dict[str, Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)]], Field(max_length=1000)]
    stats: _Stats
    action_history: Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=100)]
    position_history: Annotated[list[tuple[_Finite, _Finite]], Field(max_length=100)]
    location: tuple[_Finite, _Finite]


_KINDS: list[tuple[dict[str, Any], Any, Any]] = [
    ({"type": "float", "min": 0, "max": 100, "default": 0}, _Percent, 0.0),
    ({"type": "int", "min": 0, "max": 1000, "default": 0}, Annotated[int, Field(ge=0, le=1000)], 0),
    ({"type": "bool", "default": False}, bool, False),
    ({"type": "categorical", "values": ["low", "high"], "default": "low"}, Literal["low", "high"], "low"),
]


def definitions(count: int) -> dict[str, Any]:
    """Return ``count`` scalar variables: floats, ints, bools and categoricals in turn."""
    return {f"scalar_{index}": _KINDS[index % len(_KINDS)][0] for index in range(count)}


def handwritten(base: type[BaseModel], count: int) -> type[BaseModel]:
    """Return the model with the same scalars, as Pydantic's own annotations."""
    fields: dict[str, Any] = {f"scalar_{index}": _KINDS[index % len(_KINDS)][1:] for index in range(count)}
    return create_model("Handwritten", __base__=base, **fields)


def state(pick: random.Random, name: str, scalars: int, *, typed: bool) -> dict[str, Any]:
    """Return the state of one agent."""
    values: dict[str, Any] = {"name": name}
    for index in range(scalars):
        values[f"scalar_{index}"] = [
            pick.uniform(0, 100),
            pick.randint(0, 1000),
            pick.random() < 0.5,
            pick.choice(["low", "high"]),
        ][index % len(_KINDS)]
    if typed:
        values |= {
            "inventory": {f"good-{index}": pick.uniform(0, 50) for index in range(10)},
            "debts": {f"trader-{index}": pick.randint(-50, 50) for index in range(10)},
            "stats": {"health": pick.uniform(0, 100), "mana": pick.uniform(0, 100), "stamina": pick.randint(0, 10)},
            "action_history": [pick.choice(["move", "trade", "wait"]) for _ in range(10)],
            "position_history": [[pick.uniform(0, 9), pick.uniform(0, 9)] for _ in range(10)],
            "location": [pick.uniform(0, 9), pick.uniform(0, 9)],
        }
    return values


def _world(model: type[BaseModel]) -> type[BaseModel]:
    return create_model("World", agents=(dict[str, model], ...), __config__=ConfigDict(cache_strings="keys"))  # type: ignore[valid-type]


def compare(report: Report, models: dict[str, type[BaseModel]], text: bytes) -> None:
    """Let the models read a text in turn; note agents per second of this thread's CPU time.

    CPU time, because nothing here waits, and a ratio this near to one would else tell what other processes did.
    """
    worlds = {name: _world(model) for name, model in models.items()}
    for name, world in worlds.items():
        world.model_validate_json(text)
        report.figures[name] = Figure(name)
    for _ in range(ROUNDS):
        times = dict.fromkeys(worlds, 0.0)
        for _ in range(TURNS):
            for name, world in worlds.items():
                start = time.thread_time()
                world.model_validate_json(text)
                times[name] += time.thread_time() - start
        for name, took in times.items():
            report.figures[name].rates.append(TURNS * AGENTS / took)
    for name in worlds:
        say(f"  {name}: {report.figures[name].rate:,.0f}/s")


def run(report: Report) -> None:
    """Measure how long it takes to read the states of a hundred agents."""
    say("variables")
    pick = random.Random(1)
    few = VARIABLES - len(COMPLEX)
    texts = {
        typed: json.dumps(
            {"agents": {f"agent-{n}": state(pick, f"agent-{n}", count, typed=typed) for n in range(AGENTS)}}
        ).encode()
        for typed, count in ((True, few), (False, VARIABLES))
    }
    typed = create_agent_state_model(check_definitions(COMPLEX | definitions(few)))
    scalars = create_agent_state_model(check_definitions(definitions(VARIABLES)))
    compare(report, {TYPED: typed, HANDWRITTEN: handwritten(_HandwrittenTyped, few)}, texts[True])
    compare(report, {SCALARS: scalars, PLAIN: handwritten(_Handwritten, VARIABLES)}, texts[False])
    took = AGENTS / report.figures[TYPED].rate * 1000
    report.note(Goal("100 agents of 50 variables validated from JSON", took, 10, at_least=False, unit="ms"))
    report.ratio("typed variables over a handwritten model: time", TYPED, HANDWRITTEN, 2, inverse=True)
    report.ratio("scalar variables over a handwritten model: time", SCALARS, PLAIN, 1.05, inverse=True)
