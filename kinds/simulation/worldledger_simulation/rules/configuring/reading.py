"""From a JSON value to the sections of a simulation's configuration, with every problem there is.

Source: docs/reference/simulation-config.md, "Fields" and "Errors".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger.errors import (
    CircularSchemaError,
    InvalidDefinitionError,
    InvalidEffectError,
    InvalidSimulationConfigError,
    Problem,
    ReservedKindError,
)
from worldledger.errors.simulations import Path
from worldledger.intents import check_agent_id, check_permissions
from worldledger.variables import VariableDefinition, check_definitions
from worldledger_simulation.rules.configuring.converting import is_of_llm_sim, signs_of
from worldledger_simulation.rules.configuring.first import first_values
from worldledger_simulation.rules.configuring.parts import Parts, kind_of
from worldledger_simulation.rules.configuring.plain import Plain
from worldledger_simulation.rules.configuring.sections import (
    GLOBAL,
    MAX_AGENTS,
    AgentConfig,
    EngineConfig,
    SimulationSettings,
    StateVariablesConfig,
    ValidatorConfig,
)
from worldledger_simulation.rules.configuring.sights import read_observability

_SECTIONS: Final = ("simulation", "engine", "agents", "validator", "state_variables", "observability")
_KINDS: Final = ("agent_vars", "global_vars")
_LLM_SIM: Final = "this is a configuration of llm-sim ({}); `worldledger config convert` turns it into one of these"
#: How often definitions are looked at without those that were wrong.
_MOST_ROUNDS: Final = 10


def read(value: Any) -> dict[str, Any]:
    """Return the sections of a configuration by name. Raises InvalidSimulationConfigError with every problem."""
    reading = _Reading()
    sections = reading.sections(value)
    if reading.problems and is_of_llm_sim(value):
        raise InvalidSimulationConfigError([Problem((), _LLM_SIM.format(", ".join(signs_of(value))))])
    if reading.problems:
        raise InvalidSimulationConfigError(reading.problems) from reading.cycle
    return sections


class _Reading(Parts):
    """One reading; ``cycle`` is what was found in the variables, if something was."""

    def __init__(self) -> None:
        super().__init__()
        self.cycle: CircularSchemaError | None = None

    def sections(self, value: Any) -> dict[str, Any]:
        plain = Plain()
        value = plain.copy(value)
        self.problems += plain.problems
        if not self.is_mapping(value, ()):
            return {}
        self.known(value, _SECTIONS, ())
        given = {name: value.get(name) for name in _SECTIONS}
        whole = {name: part for name, part in given.items() if name not in plain.broken}
        simulation = engine = validator = observability = None
        if "simulation" in whole:
            simulation = self.required(SimulationSettings, whole["simulation"], ("simulation",))
        if "engine" in whole:
            engine = self.optional(EngineConfig, whole["engine"], ("engine",))
        agents = self._agents(whole["agents"]) if "agents" in whole else []
        if "validator" in whole:
            validator = self.optional(ValidatorConfig, whole["validator"], ("validator",))
        names = _names(given)
        self._names_in_states(given["agents"], names["agent_var_names"])
        variables = self._variables(whole.get("state_variables"))
        agents, wrong = first_values(agents, variables)
        self.problems += wrong
        if whole.get("observability") is not None:
            observability = read_observability(self, whole["observability"], names)
        return {
            "simulation": simulation,
            "engine": engine,
            "agents": agents,
            "validator": validator,
            "state_variables": variables,
            "observability": observability,
        }

    # -- sections ------------------------------------------------------------------------------------------------

    def _agents(self, value: Any) -> list[AgentConfig]:
        path: Path = ("agents",)
        if value is None:
            self.wrong(path, "required: a list of agents")
            return []
        if not isinstance(value, list):
            self.wrong(path, f"must be a list of agents, not {kind_of(value)}")
            return []
        if not 1 <= len(value) <= MAX_AGENTS:
            self.wrong(path, f"a simulation has 1 to {MAX_AGENTS} agents, this one {len(value)}")
            return []
        found: dict[str, AgentConfig] = {}
        first: dict[str, int] = {}
        for index, item in enumerate(value):
            agent = self._agent({"name": item} if isinstance(item, str) else item, (*path, index))
            if agent is None:
                continue
            if first.setdefault(agent.name, index) != index:
                message = f"the name {agent.name!r} is taken: agents[{first[agent.name]}] has it"
                self.wrong((*path, index, "name"), message)
            found[agent.name] = agent
        return list(found.values())

    def _agent(self, value: Any, path: Path) -> AgentConfig | None:
        agent = self.required(AgentConfig, value, path) or _as_far(value)
        if agent is None:
            return None
        try:
            check_agent_id(agent.name)
            if agent.name == GLOBAL:
                self.wrong((*path, "name"), f"{GLOBAL!r} stands for the global variables; no agent is called so")
        except (InvalidEffectError, ReservedKindError) as error:
            self.wrong((*path, "name"), error.reason.replace("agent_id", "a name", 1))
        if agent.permissions is None:
            return agent
        try:
            return agent.model_copy(update={"permissions": check_permissions(agent.permissions)})
        except InvalidEffectError as error:
            self.wrong((*path, "permissions"), error.reason)
            return agent

    def _names_in_states(self, agents: Any, known: set[str]) -> None:
        """Refuse values of variables that there are not, also where their types cannot be looked at."""
        for agent in agents if isinstance(agents, list) else []:
            state = agent.get("state") if isinstance(agent, dict) else None
            for name in state if isinstance(state, dict) and isinstance(agent.get("name"), str) else ():
                path = ("agents", agent["name"], name)
                if name == "name":
                    self.wrong(path, "the name stands beside the state, not in it")
                elif name not in known:
                    hint = self.hint(name, known, "define it in state_variables.agent_vars")
                    self.wrong(path, f"unknown variable {name!r}; {hint}")

    def _variables(self, value: Any) -> StateVariablesConfig:
        """Read the variables; those that are wrong are left out, so that values of the others can be checked."""
        path: Path = ("state_variables",)
        value = {} if value is None else value
        found: dict[str, dict[str, VariableDefinition]] = {}
        if self.is_mapping(value, path):
            self.known(value, _KINDS, path)
            for kind in _KINDS:
                given = {} if value.get(kind) is None else value[kind]
                if self.is_mapping(given, (*path, kind)):
                    found[kind] = self._definitions(given, (*path, kind))
        return StateVariablesConfig(**found)

    def _definitions(self, given: dict[str, Any], path: Path) -> dict[str, VariableDefinition]:
        for _ in range(_MOST_ROUNDS):
            try:
                return check_definitions(given, path)
            except CircularSchemaError as error:  # found before anything else, so the rest is looked at without it
                self.cycle = self.cycle or error
                self.wrong(error.problems[0].path, error.message)
                wrong = error.problems
            except InvalidDefinitionError as error:
                self.problems += error.problems
                wrong = error.problems
            names = {problem.path[len(path)] for problem in wrong if len(problem.path) > len(path)}
            if not names:
                break
            given = {name: definition for name, definition in given.items() if name not in names}
        return {}


def _names(given: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the names of agents and variables, also of those that cannot be used: they may be referred to."""
    agents = given["agents"] if isinstance(given["agents"], list) else []
    names = [agent.get("name") if isinstance(agent, dict) else agent for agent in agents]
    variables = given["state_variables"] if isinstance(given["state_variables"], dict) else {}
    agent_vars, global_vars = (variables.get(kind) for kind in _KINDS)
    return {
        "agent_names": {name for name in names if isinstance(name, str)},
        "agent_var_names": set(agent_vars) if isinstance(agent_vars, dict) else set(),
        "global_var_names": set(global_vars) if isinstance(global_vars, dict) else set(),
    }


def _as_far(value: Any) -> AgentConfig | None:
    """Return the name and the values of an agent that cannot be used, to be looked at; None without a name."""
    given = value if isinstance(value, dict) else {}
    if not isinstance(given.get("name"), str):
        return None
    state = given.get("state")
    return AgentConfig.model_construct(name=given["name"], state=state if isinstance(state, dict) else {})
