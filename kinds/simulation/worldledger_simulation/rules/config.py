"""A simulation's configuration: its agents, its typed variables, and who observes what.

Source: docs/reference/simulation-config.md.
"""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from worldledger.agent_names import namesakes, taken
from worldledger.errors import InvalidSimulationConfigError, Problem
from worldledger.observability import ObservabilityConfig
from worldledger.variables import AgentState, GlobalState, create_agent_state_model, create_global_state_model
from worldledger_simulation.rules.configuring.first import first_agents, first_global
from worldledger_simulation.rules.configuring.reading import read
from worldledger_simulation.rules.configuring.remarks import warnings_of
from worldledger_simulation.rules.configuring.sections import (
    AgentConfig,
    EngineConfig,
    SimulationSettings,
    StateVariablesConfig,
    ValidatorConfig,
)

__all__ = [
    "AgentConfig",
    "EngineConfig",
    "SimulationConfig",
    "SimulationSettings",
    "StateVariablesConfig",
    "ValidatorConfig",
]


class SimulationConfig(BaseModel):
    """A whole configuration; one that exists holds: every definition, every first value, every name in it.

    Made by `from_value`, or with the same members as arguments; from a file by `load_config`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    simulation: SimulationSettings
    engine: EngineConfig = EngineConfig()
    agents: list[AgentConfig]
    validator: ValidatorConfig = ValidatorConfig()
    state_variables: StateVariablesConfig = StateVariablesConfig()
    observability: ObservabilityConfig | None = None

    @model_validator(mode="before")
    @classmethod
    def _read(cls, value: Any) -> dict[str, Any]:
        return read(value)

    @classmethod
    def from_value(cls, value: Any) -> Self:
        """Read a configuration from a JSON value.

        Fields that may be left out may be null. Raises InvalidSimulationConfigError with every problem; its cause is
        the CircularSchemaError if a schema contains itself.
        """
        return cls.model_validate(value)

    def to_value(self) -> dict[str, Any]:
        """Return the configuration as a JSON value, what was left out written out; `from_value` gives it back."""
        variables = self.state_variables
        return {
            "simulation": self.simulation.model_dump(),
            "engine": self.engine.model_dump(),
            "agents": [agent.model_dump() for agent in self.agents],
            "validator": self.validator.model_dump(),
            "state_variables": {
                "agent_vars": {name: definition.to_value() for name, definition in variables.agent_vars.items()},
                "global_vars": {name: definition.to_value() for name, definition in variables.global_vars.items()},
            },
            "observability": None if self.observability is None else _observability_value(self.observability),
        }

    @property
    def agent_model(self) -> type[AgentState]:
        """The model of an agent's state: its name and the agents' variables."""
        return create_agent_state_model(self.state_variables.agent_vars)

    @property
    def global_model(self) -> type[GlobalState]:
        """The model of the global variables."""
        return create_global_state_model(self.state_variables.global_vars)

    def initial_agents(self) -> dict[str, dict[str, Any]]:
        """Return every agent's first values by its name, its name among them, as JSON values."""
        return first_agents(self.agents, self.state_variables.agent_vars)

    def initial_global(self) -> dict[str, Any]:
        """Return the first values of the global variables, as JSON values."""
        return first_global(self.state_variables.global_vars)

    def warnings(self) -> list[Problem]:
        """Return what the configuration may say and probably does not mean, each with its path."""
        return warnings_of(self.agents, self.state_variables, self.observability)


def new_config(config: SimulationConfig) -> SimulationConfig:
    """Return a configuration that a world may begin with.

    Raises InvalidSimulationConfigError where two agents have the same name in different Unicode forms. That is asked of
    new worlds only: one that began with both keeps them.
    """
    names = [agent.name for agent in config.agents]
    problems = [Problem(("agents", names.index(name), "name"), taken(name, other)) for name, other in namesakes(names)]
    if problems:
        raise InvalidSimulationConfigError(problems)
    return config


def _observability_value(config: ObservabilityConfig) -> dict[str, Any]:
    """Write the matrix as compact lists; what noise is drawn for, where that is not the turn."""
    scope = {} if config.noise_scope == "turn" else {"noise_scope": config.noise_scope}
    return {
        "enabled": config.enabled,
        "variable_visibility": config.variable_visibility.model_dump(),
        "matrix": [[entry.observer, entry.target, entry.level.value, entry.noise] for entry in config.matrix],
        "default": {"level": config.default.level.value, "noise": config.default.noise},
        **scope,
    }
