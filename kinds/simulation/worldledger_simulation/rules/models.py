"""The typed models of a simulation's variables, found from its state."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from worldledger.variables import (
    AgentState,
    GlobalState,
    VariableDefinition,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    default_of,
)
from worldledger.world import WorldState, state_digest, state_text
from worldledger_simulation.rules.words import PLACE


class Models(NamedTuple):
    """The variables of a simulation: their definitions, and the models made from them."""

    agent_vars: Mapping[str, VariableDefinition]
    global_vars: Mapping[str, VariableDefinition]
    agent: type[AgentState]
    world: type[GlobalState]


#: By the digest of the definitions; a few, because a process serves few kinds of simulation at a time.
_KNOWN: Final[dict[str, Models]] = {}
_MOST_KNOWN: Final = 64


def models_of(state: WorldState) -> Models:
    """Return the models of a simulation's variables. Raises InvalidDefinitionError for invalid definitions."""
    simulation = state.metadata[PLACE]
    key = simulation["variables_digest"]
    found = _KNOWN.get(key)
    if found is None:
        found = make_models(simulation["variables"])
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = found
    return found


def make_models(variables: Mapping[str, Any]) -> Models:
    """Make the models of ``{agent_vars, global_vars}``, as JSON or as definitions. Raises InvalidDefinitionError."""
    agent_vars = check_definitions(variables["agent_vars"], "agent_vars")
    global_vars = check_definitions(variables["global_vars"], "global_vars")
    return Models(agent_vars, global_vars, create_agent_state_model(agent_vars), create_global_state_model(global_vars))


def variables_digest(variables: Mapping[str, Any]) -> str:
    """Return the digest of the JSON of ``{agent_vars, global_vars}``, which identifies the schema."""
    return state_digest(state_text(variables))


def defaults_of(variables: Mapping[str, VariableDefinition]) -> dict[str, Any]:
    """Return the initial values of the variables that have one."""
    found = {}
    for name, definition in variables.items():
        with suppress(KeyError):
            found[name] = default_of(definition)
    return found
