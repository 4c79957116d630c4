"""A small simulation for tests of observability: its variables, its states, the same as WorldStates."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel, SerializeAsAny

from worldledger.observability import ObservabilityConfig, ObservabilityLevel
from worldledger.variables import (
    VariableDefinition,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
)
from worldledger.world import WorldState

KEY = "0123456789abcdef0123456789abcdef"
NAMES = ("Ann", "Bob", "Café")

_FOOD = {"type": "float", "min": 0, "max": 50}
#: Every type, bounds of every kind, names that Pydantic's classes and methods have as well.
AGENT_VARS: dict[str, VariableDefinition] = check_definitions(
    {
        "gold": {"type": "float", "min": 0, "max": 100, "default": 10.0},
        "count": {"type": "int", "min": 0, "max": 100, "default": 10},
        "secret": {"type": "float", "default": 7.0},
        "plan": {"type": "list", "item_type": "int", "default": [1000]},
        "alive": {"type": "bool", "default": True},
        "mood": {"type": "categorical", "values": ["calm", "angry"], "default": "calm"},
        "note": {"type": "str"},
        "limit": {"type": "int", "default": None},
        "bag": {
            "type": "dict",
            "schema": {"food": _FOOD, "copy": {"type": "int", "min": 1}},
            "default": {"food": 5.0, "copy": 9},
        },
        "stock": {"type": "dict", "key_type": "int", "value_type": _FOOD},
        "tags": {"type": "dict", "key_type": "str", "value_type": "float"},
        "past": {"type": "list", "item_type": {"type": "list", "item_type": _FOOD}},
        "spot": {"type": "tuple", "item_types": ["float", {"type": "int", "max": 5}], "default": [1.5, 5]},
        "tool": {"type": "object", "schema": {"wear": {"type": "float", "min": 0, "max": 1}}, "default": {"wear": 0.5}},
        "copy": {"type": "float", "default": 3.0},
        "cls": {"type": "float", "default": 3.0},
        "model_dump": {"type": "int", "default": 300},
    },
    "agent_vars",
)
GLOBAL_VARS: dict[str, VariableDefinition] = check_definitions(
    {
        "price": {"type": "float", "min": 1, "max": 9, "default": 5.0},
        "name": {"type": "float", "default": 2.5},
        "secret": {"type": "int", "default": 1000},
    },
    "global_vars",
)
AGENT = create_agent_state_model(AGENT_VARS)
WORLD = create_global_state_model(GLOBAL_VARS)

_JSON_KEYS = st.text("a~/é", max_size=3)
_NUMBERS = st.floats(-1e6, 1e6).map(lambda number: number + 0.0 if number else 0.0)
_FOODS = st.floats(0, 50).map(lambda number: number + 0.0)
#: Values of an agent's variables; those that are not drawn are as they begin.
AGENT_VALUES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "gold": st.floats(0, 100).map(lambda number: number + 0.0),
        "count": st.integers(0, 100),
        "secret": _NUMBERS,
        "plan": st.lists(st.integers(-(10**6), 10**6), max_size=3),
        "note": st.none() | st.text("aé", max_size=3),
        "limit": st.none() | st.integers(-9, 9),
        "bag": st.fixed_dictionaries({"food": _FOODS, "copy": st.integers(1, 9)}),
        "stock": st.dictionaries(st.integers(-9, 9).map(str), _FOODS, max_size=3),
        "tags": st.dictionaries(_JSON_KEYS, _NUMBERS, max_size=3),
        "past": st.lists(st.lists(_FOODS, max_size=2), max_size=2),
        "spot": st.tuples(_NUMBERS, st.integers(-5, 5)).map(list),
        "tool": st.fixed_dictionaries({"wear": st.floats(0, 1).map(lambda number: number + 0.0)}),
        "copy": _NUMBERS,
        "model_dump": st.integers(-9, 9),
    },
)
_LEVELS = [level.value for level in ObservabilityLevel]
#: Configurations of it, by JSON.
CONFIGS: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {
        "enabled": st.sampled_from([True, True, True, False]),
        "variable_visibility": st.sampled_from(
            [
                {"external": ["gold"], "internal": ["secret", "plan", "name"]},
                {"external": ["gold"], "internal": ["copy", "bag", "model_dump"]},
                {"external": ["gold"], "internal": []},
            ]
        ),
        "matrix": st.dictionaries(
            st.tuples(st.sampled_from(NAMES), st.sampled_from([*NAMES, "global"])),
            st.tuples(st.sampled_from(_LEVELS), st.sampled_from([None, 0.0, 0.1, 2.0])),
            max_size=8,
        ).map(lambda rows: [[*pair, *sight] for pair, sight in rows.items()]),
    },
    optional={
        "default": st.builds(
            lambda level, noise: {"level": level, "noise": noise}, st.sampled_from(_LEVELS), st.sampled_from([0.0, 0.3])
        )
    },
)


class State(BaseModel):
    """A simulation's state."""

    turn: int
    agents: dict[str, SerializeAsAny[BaseModel]]
    global_state: SerializeAsAny[BaseModel]
    reasoning_chains: list[Any] = []
    world_uuid: str | None = KEY
    more: str = "kept"


def a_state(turn: int = 3, agents: dict[str, dict[str, Any]] | None = None, **of_the_world: Any) -> State:
    """Return a state: these values of these agents, and of the world; the others are as they begin."""
    given = {name: {} for name in NAMES} if agents is None else agents
    return State(
        turn=turn,
        agents={name: validate_state(AGENT, {"name": name, **values}) for name, values in given.items()},
        global_state=validate_state(WORLD, of_the_world),
        reasoning_chains=["because"],
    )


def world_of(state: State) -> WorldState:
    """Return the same as a WorldState."""
    world = WorldState.initial()
    world.entities = {name: dump_state(agent) for name, agent in state.agents.items()}  # type: ignore[arg-type]
    world.entities["global"] = dump_state(state.global_state)  # type: ignore[arg-type]
    world.metadata |= {"turn": state.turn, "last_effect_seq": 1}
    return world


def a_config(**members: Any) -> ObservabilityConfig:
    """Return a configuration by which everybody sees everybody exactly from without, some members of it another."""
    value = {
        "enabled": True,
        "variable_visibility": {"external": ["gold"], "internal": ["secret", "plan"]},
        "matrix": [],
        "default": {"level": "external", "noise": 0.0},
        **members,
    }
    names = {"agent_names": NAMES, "agent_var_names": list(AGENT_VARS), "global_var_names": list(GLOBAL_VARS)}
    return ObservabilityConfig.model_validate(value, context=names)
