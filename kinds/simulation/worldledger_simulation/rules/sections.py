"""The sections of a simulation's configuration, each a model of its own.

Source: docs/reference/simulation-config.md, "Fields".
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from worldledger.canonical import MAX_INT
from worldledger.errors import InvalidDefinitionError
from worldledger.intents import MAX_WEIGHT
from worldledger.variables import VariableDefinition

#: Most agents of a simulation, and the longest name of anything here, except for its description.
MAX_AGENTS: Final = 10_000
MAX_NAME: Final = 200
MAX_DESCRIPTION: Final = 10_000


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class SimulationSettings(_Section):
    """What the simulation is called, and how long it goes on: ``max_turns``, None for without end."""

    name: str = Field(min_length=1, max_length=MAX_NAME)
    description: str | None = Field(default=None, max_length=MAX_DESCRIPTION)
    max_turns: int | None = Field(default=None, ge=1, le=MAX_INT)


class EngineConfig(_Section):
    """What makes the turns: a program outside of this one, told ``parameters``.

    ``actions_per_turn`` is how often an agent may act in a turn, None for any number.
    """

    type: str = Field(default="external", min_length=1, max_length=MAX_NAME)
    actions_per_turn: int | None = Field(default=None, ge=1, le=MAX_INT)
    parameters: dict[str, Any] = {}


class AgentConfig(_Section):
    """An agent: ``state`` has its first values where they are not the variables' defaults.

    ``type`` and ``parameters`` are for the engine; ``weight`` and ``permissions`` are those of its registration.
    """

    name: str
    type: str = Field(default="agent", min_length=1, max_length=MAX_NAME)
    state: dict[str, Any] = {}
    weight: int = Field(default=1, ge=1, le=MAX_WEIGHT)
    permissions: list[str] | None = None
    parameters: dict[str, Any] = {}


class ValidatorConfig(_Section):
    """What judges the agents' actions: the constraints of the variables' types."""

    type: Literal["constraints"] = "constraints"


class StateVariablesConfig(_Section):
    """The variables that each agent has, and those of the whole simulation."""

    agent_vars: dict[str, VariableDefinition] = {}
    global_vars: dict[str, VariableDefinition] = {}


# -- errors of simulations' configurations ----------------------------------------------------------------


class InvalidSimulationConfigError(InvalidDefinitionError):
    """A simulation's configuration that cannot be used; details: ``problems``, with file, line and column if known."""

    code: ClassVar[str] = "invalid_simulation_config"


#: What a client makes again of the answers of a service.
ERRORS: Final = (InvalidSimulationConfigError,)
