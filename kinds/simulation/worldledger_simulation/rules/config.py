"""A simulation's configuration: its agents, its typed variables, and what each observes.

Source: docs/reference/simulation-config.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, model_validator

from worldledger.errors import FileRefusedError, Path, Problem
from worldledger.names import namesakes, taken
from worldledger.observability import ObservabilityConfig, ObservabilityLevel
from worldledger.variables import AgentState, GlobalState, create_agent_state_model, create_global_state_model
from worldledger_simulation.rules.configuring.first import first_agents, first_global
from worldledger_simulation.rules.configuring.reading import read
from worldledger_simulation.rules.configuring.sections import (
    AgentConfig,
    EngineConfig,
    SimulationSettings,
    StateVariablesConfig,
    ValidatorConfig,
)
from worldledger_simulation.rules.errors import InvalidSimulationConfigError
from worldledger_simulation.rules.strict_yaml import MAX_BYTES, Document, parse

# -- warnings: what a configuration may say, but probably does not mean ---------------------------------------

_PATH: Final = ("observability",)
#: Most agents that one warning names.
_MOST_NAMED: Final = 5


def warnings_of(
    agents: Iterable[AgentConfig], variables: StateVariablesConfig, observability: ObservabilityConfig | None
) -> list[Problem]:
    """Return the warnings, each with its path."""
    if observability is None:
        return []
    if not observability.enabled:
        return [Problem((*_PATH, "enabled"), "observability is off: every agent observes everything, exactly")]
    return [
        *_of_themselves(agents, observability),
        *_repeated(observability),
        *_unlisted(variables, observability),
    ]


def _of_themselves(agents: Iterable[AgentConfig], config: ObservabilityConfig) -> Iterator[Problem]:
    """Warn of agents that do not see themselves exactly: no entry of the matrix is implied."""
    entries = {(entry.observer, entry.target): index for index, entry in enumerate(config.matrix)}
    without = []
    for agent in agents:
        index = entries.get((agent.name, agent.name))
        if index is None:
            without.append(agent.name)
        elif said := _blurred(*config.matrix[index].sight):
            yield Problem((*_PATH, "matrix", index), f"{agent.name} observes itself {said}")
    said = _blurred(*config.usual)
    if without and said:
        named = ", ".join(without[:_MOST_NAMED])
        more = f" and {len(without) - _MOST_NAMED} more" if len(without) > _MOST_NAMED else ""
        message = f"no entry says how {named}{more} observe themselves; by default that is {said}"
        yield Problem((*_PATH, "default") if "default" in config.model_fields_set else (*_PATH, "matrix"), message)


def _blurred(level: ObservabilityLevel, noise: float) -> str:
    """Say what the agent does not see exactly; an empty text if it sees everything."""
    if level is ObservabilityLevel.UNAWARE:
        return "not at all (unaware)"
    told = [] if level is ObservabilityLevel.INSIDER else ["only in part (external)"]
    return " and ".join([*told, *([f"with noise {noise}"] if noise else [])])


def _repeated(config: ObservabilityConfig) -> Iterator[Problem]:
    """Warn of variables that are listed twice: another one may have been meant."""
    for which in ("external", "internal"):
        seen: set[str] = set()
        for index, name in enumerate(getattr(config.variable_visibility, which)):
            if name in seen:
                message = f"{name!r} stands twice in the {which} list"
                yield Problem((*_PATH, "variable_visibility", which, index), message)
            seen.add(name)


def _unlisted(variables: StateVariablesConfig, config: ObservabilityConfig) -> Iterator[Problem]:
    """Warn of variables in neither list: they are external."""
    listed = {*config.variable_visibility.external, *config.variable_visibility.internal}
    for kind, names in (("agent_vars", variables.agent_vars), ("global_vars", variables.global_vars)):
        for name in names:
            if name not in listed:
                message = "in neither list of variable_visibility, so it is external"
                yield Problem(("state_variables", kind, name), message)


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

        Optional fields may be null. Raises InvalidSimulationConfigError with every problem; its cause is the
        CircularSchemaError if a schema contains itself.
        """
        return cls.model_validate(value)

    def to_value(self) -> dict[str, Any]:
        """Return the configuration as a JSON value, with defaults written out; `from_value` reads it back."""
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
        """Return every agent's initial values by its name, including the name, as JSON values."""
        return first_agents(self.agents, self.state_variables.agent_vars)

    def initial_global(self) -> dict[str, Any]:
        """Return the initial values of the global variables, as JSON values."""
        return first_global(self.state_variables.global_vars)

    def warnings(self) -> list[Problem]:
        """Return what the configuration may say and probably does not mean, each with its path."""
        return warnings_of(self.agents, self.state_variables, self.observability)


def new_config(config: SimulationConfig) -> SimulationConfig:
    """Return a configuration that a new world may have.

    Raises InvalidSimulationConfigError if two agents have the same name in different Unicode forms. This is checked for
    new worlds only: a world that began with both keeps them.
    """
    names = [agent.name for agent in config.agents]
    problems = [Problem(("agents", names.index(name), "name"), taken(name, other)) for name, other in namesakes(names)]
    if problems:
        raise InvalidSimulationConfigError(problems)
    return config


def _observability_value(config: ObservabilityConfig) -> dict[str, Any]:
    """Write the matrix as compact lists; also the noise scope, unless it is the turn."""
    scope = {} if config.noise_scope == "turn" else {"noise_scope": config.noise_scope}
    return {
        "enabled": config.enabled,
        "variable_visibility": config.variable_visibility.model_dump(),
        "matrix": [[entry.observer, entry.target, entry.level.value, entry.noise] for entry in config.matrix],
        "default": {"level": config.default.level.value, "noise": config.default.noise},
        **scope,
    }


# -- reading files: YAML or JSON, with the place of every problem --------------------------------------------
#
# `load_config` is the only function of the rules that opens a file.


def load_config(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> SimulationConfig:
    """Read a simulation's configuration from the file at a path, or from the bytes of one.

    ``name`` is the file's name in errors, by default its path. Raises FileRefusedError if the file cannot be read, and
    InvalidSimulationConfigError with every problem (`FILE:LINE:COLUMN: PATH: MESSAGE` each), in the order of the file.
    Problems with the YAML itself come first, and alone.
    """
    return config_of(read_document(source, name=name))


def read_document(source: str | os.PathLike[str] | bytes, *, name: str | None = None) -> Document:
    """Read a YAML or JSON file, or the bytes of one. Raises as `load_config` does for invalid text."""
    if isinstance(source, bytes):
        return parse(source, name=name or "configuration")
    called = name or os.fspath(source)
    try:
        with FilePath(source).open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise FileRefusedError(f"cannot be read ({error.strerror or error})", file=called) from None
    except ValueError as error:  # a NUL in the path
        raise FileRefusedError(f"cannot be read ({error})", file=called) from None
    return parse(data, name=called)


def config_of(document: Document) -> SimulationConfig:
    """Make the configuration of a document. Raises InvalidSimulationConfigError with the places of problems."""
    try:
        return new_config(SimulationConfig.from_value(document.value))
    except InvalidSimulationConfigError as error:
        raise InvalidSimulationConfigError(located(error.problems, document)) from error.__cause__


def located(problems: Iterable[Problem], document: Document) -> list[Problem]:
    """Return problems with their places in a document, ordered by place."""
    agents = _agents(document)
    found = []
    for problem in problems:
        line, column = document.place(_in_file(problem.path, agents))
        found.append(problem._replace(file=document.name, line=line, column=column))
    return sorted(found, key=lambda problem: (problem.line or 0, problem.column or 0))


def _agents(document: Document) -> dict[str, int]:
    """Return the places of the agents in their list, by name."""
    agents = document.value.get("agents")
    found: dict[str, int] = {}
    for index, agent in enumerate(agents if isinstance(agents, list) else []):
        name = agent.get("name") if isinstance(agent, dict) else agent
        if isinstance(name, str):
            found.setdefault(name, index)
    return found


def _in_file(path: Path, agents: Mapping[str, int]) -> Path:
    """Return the path in the file: an agent's variable is in the state of an item of the list."""
    if len(path) > 1 and path[0] == "agents" and path[1] in agents:
        return ("agents", agents[str(path[1])], "state", *path[2:])
    return path
