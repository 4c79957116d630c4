"""The initial values of a simulation: the variables' defaults, and its configuration's values in their place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worldledger.errors import Path, Problem
from worldledger.variables import (
    AgentState,
    GlobalState,
    StateInvalidError,
    VariableDefinition,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
)
from worldledger_simulation.rules.configuring.sections import AgentConfig, StateVariablesConfig
from worldledger_simulation.rules.models import defaults_of

_NO_VALUE = "needs a value: the variable has no default"


def first_agents(
    agents: Iterable[AgentConfig], variables: Mapping[str, VariableDefinition]
) -> dict[str, dict[str, Any]]:
    """Return the initial values of each agent by its name, including the name. Raises StateInvalidError."""
    model, defaults = create_agent_state_model(variables), defaults_of(variables)
    return {
        agent.name: dump_state(validate_state(model, {**defaults, **agent.state, "name": agent.name}))
        for agent in agents
    }


def first_global(variables: Mapping[str, VariableDefinition]) -> dict[str, Any]:
    """Return the initial global values. Raises StateInvalidError."""
    return dump_state(validate_state(create_global_state_model(variables), defaults_of(variables)))


def first_values(
    agents: Sequence[AgentConfig], variables: StateVariablesConfig
) -> tuple[list[AgentConfig], list[Problem]]:
    """Return the agents with their ``state`` in the variables' exact types, and the problems with values.

    Values of unknown variables are left out.
    """
    problems: list[Problem] = []
    exact: list[AgentConfig] = []
    model = create_agent_state_model(variables.agent_vars)
    defaults = defaults_of(variables.agent_vars)
    for agent in agents:
        path: Path = ("agents", agent.name)
        given = {name: value for name, value in agent.state.items() if name in variables.agent_vars}
        values = _checked(model, {**defaults, **given, "name": agent.name}, path, variables.agent_vars, problems)
        exact.append(agent.model_copy(update={"state": {name: values.get(name) for name in given}}))
    world = create_global_state_model(variables.global_vars)
    path = ("state_variables", "global_vars")
    _checked(world, defaults_of(variables.global_vars), path, variables.global_vars, problems)
    return exact, problems


def _checked(
    model: type[AgentState | GlobalState],
    values: Mapping[str, Any],
    path: Path,
    variables: Mapping[str, VariableDefinition],
    problems: list[Problem],
) -> dict[str, Any]:
    """Return the values as they are stored; if they are invalid, add the reasons to the problems."""
    missing = [name for name in variables if name not in values]
    problems += [Problem((*path, name), _NO_VALUE) for name in missing]
    try:
        return dump_state(validate_state(model, values))
    except StateInvalidError as error:
        told = {(name,) for name in missing}
        if path[0] == "agents":
            told.add(("name",))  # an agent's name was checked in its own place
        problems += [Problem((*path, *at), message) for at, message in error.problems if at not in told]
        return {}
