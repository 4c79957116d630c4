"""A simulation's configuration: its agents, its typed variables, and what each observes.

Source: docs/reference/simulation-config.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, Final, Self, TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import ErrorDetails

from worldledger import canonical
from worldledger.canonical import gate
from worldledger.drafts import json_name
from worldledger.errors import (
    CircularSchemaError,
    FileRefusedError,
    InvalidDefinitionError,
    InvalidEffectError,
    Path,
    Problem,
    ReservedKindError,
)
from worldledger.intents import check_agent_id, check_permissions
from worldledger.names import namesakes, taken
from worldledger.near import nearest
from worldledger.observability import (
    DefaultObservability,
    ObservabilityConfig,
    ObservabilityEntry,
    ObservabilityLevel,
    VariableVisibilityConfig,
)
from worldledger.variables import (
    AgentState,
    GlobalState,
    StateInvalidError,
    VariableDefinition,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
)
from worldledger_simulation.rules.converting import is_of_llm_sim, signs_of
from worldledger_simulation.rules.models import defaults_of
from worldledger_simulation.rules.sections import (
    MAX_AGENTS,
    AgentConfig,
    EngineConfig,
    InvalidSimulationConfigError,
    SimulationSettings,
    StateVariablesConfig,
    ValidatorConfig,
)
from worldledger_simulation.rules.strict_yaml import MAX_BYTES, Document, parse
from worldledger_simulation.rules.words import GLOBAL

# -- the initial values of a simulation: the variables' defaults, and its configuration's values in their place


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


# -- from a JSON value to the sections of a simulation's configuration, with all problems -----------------
#
# Source: docs/reference/simulation-config.md, "Fields" and "Errors".


# -- copying any value as plain JSON: what JSON does not have is a problem with a path ---------------------------

#: Deepest nesting that is read: a configuration is two levels down in a world's first effect.
MAX_DEPTH: Final = canonical.MAX_DEPTH - 2
#: Most values that are read, shared ones counted once.
MAX_NODES: Final = 1_000_000

_VARIABLES: Final = "state_variables"


class Plain:
    """Copies a value; ``problems`` has what is wrong with it, ``broken`` the top-level members with problems.

    Two things are allowed, because the types of the variables decide: keys that are whole numbers, in defaults of
    variables and initial values of agents; and definitions of variables that contain themselves. Shared values stay
    shared.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.broken: set[str | int] = set()
        self._made: dict[tuple[int, bool], Any] = {}
        self._kept: list[Any] = []  # keeps ids from being reused
        self._within: set[int] = set()

    def copy(self, value: Any, path: Path = ()) -> Any:
        """Return a copy of a value; None for a value that cannot be copied."""
        if isinstance(value, BaseModel):
            value = _dumped(value)
        if not isinstance(value, Mapping | list | tuple):
            return self._scalar(value, path)
        key = id(value), _takes_int_keys(path)
        if id(value) in self._within and path[0] != _VARIABLES:
            return self._wrong(path, "it contains itself")
        if key in self._made:
            return self._made[key]
        if len(path) >= MAX_DEPTH or len(self._kept) >= MAX_NODES:
            return self._wrong(path, f"nested deeper than {MAX_DEPTH} levels, or more than {MAX_NODES} values")
        made: Any = {} if isinstance(value, Mapping) else []
        self._made[key] = made
        self._kept.append(value)
        self._within.add(id(value))
        if isinstance(value, Mapping):
            for name, item in value.items():
                if self._is_key(name, path):
                    made[name] = self.copy(item, (*path, name))
        else:
            made.extend([self.copy(item, (*path, index)) for index, item in enumerate(value)])
        self._within.discard(id(value))
        return made

    def _is_key(self, name: Any, path: Path) -> bool:
        if type(name) is str:
            try:
                gate(name)
            except InvalidEffectError as error:
                self._wrong(path, f"the key {name!r}: {error.reason}")
                return False
            return True
        if type(name) is int and _takes_int_keys(path):
            return True
        self.problems.append(Problem((*path, name if type(name) is int else str(name)), "keys are strings: quote it"))
        return False

    def _scalar(self, value: Any, path: Path) -> Any:
        try:
            gate(value)
        except InvalidEffectError as error:
            return self._wrong(path, error.reason)
        return value

    def _wrong(self, path: Path, message: str) -> None:
        self.problems.append(Problem(path, message))
        self.broken.update(path[:1])


def _takes_int_keys(path: Path) -> bool:
    """Return whether a mapping at this path may have keys that are whole numbers, if its type allows it."""
    if path[:1] == (_VARIABLES,):
        return "default" in path[3:]
    return path[:1] == ("agents",) and path[2:3] == ("state",) and len(path) > 3


def _dumped(value: BaseModel) -> Any:
    if isinstance(value, VariableDefinition):
        return value.to_value()
    return {name: getattr(value, name) for name in type(value).model_fields if name in value.model_fields_set}


# -- reading the parts of a configuration by their models, every problem with its path ------------------------------

#: Pydantic's expectations in its errors -> the words for messages.
_EXPECTED: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "list_type": "a list",
    "model_type": "a mapping",
}
#: With more problems than this, nearest names, which take time, are not looked for.
_MOST_HINTS: Final = 100
_Model = TypeVar("_Model", bound=BaseModel)


class Parts:
    """Reads parts; ``problems`` has what is wrong with those that were read."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    def optional(self, model: type[_Model], value: Any, path: Path) -> _Model | None:
        """Read one model of a part that may be left out."""
        return self.required(model, {} if value is None else value, path)

    def required(self, model: type[_Model], value: Any, path: Path) -> _Model | None:
        """Read one model, None if that fails. Optional fields may be null."""
        if value is None:
            self.wrong(path, "required")
            return None
        if isinstance(value, dict):
            self.known(value, tuple(model.model_fields), path)
            fields = model.model_fields
            value = {
                name: item
                for name, item in value.items()
                if name in fields and (item is not None or fields[name].is_required())
            }
        try:
            return model.model_validate(value)
        except ValidationError as error:
            for each in error.errors(include_url=False):
                self.wrong((*path, *each["loc"]), _told(each))
            return None

    def known(self, value: Mapping[str, Any], names: Collection[str], path: Path) -> None:
        """Refuse unknown members of a part, and name the nearest known ones."""
        for name in value:
            if name not in names:
                self.wrong((*path, name), f"unknown field {name!r}; {self.hint(name, names)}")

    def hint(self, name: str, names: Collection[str], otherwise: str = "") -> str:
        """Suggest the nearest name; else return ``otherwise``, or the known names."""
        close = nearest(str(name), names) if len(self.problems) < _MOST_HINTS else None
        return f"did you mean {close!r}?" if close else otherwise or f"known are {', '.join(names)}"

    def is_mapping(self, value: Any, path: Path) -> bool:
        """Return whether a part is a mapping; if not, that is a problem."""
        if isinstance(value, dict):
            return True
        self.wrong(path, f"must be a mapping, not {kind_of(value)}")
        return False

    def wrong(self, path: Path, message: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(path, message))


def kind_of(value: Any) -> str:
    """Return YAML's name of this type of value."""
    return "a mapping" if isinstance(value, dict) else json_name(value)


def _told(error: ErrorDetails) -> str:
    """Describe Pydantic's error in this project's words."""
    kind, given = error["type"], error["input"]
    if kind in _EXPECTED:
        shown = repr(given) if isinstance(given, float) else kind_of(given)
        return f"must be {_EXPECTED[kind]}, not {shown}"
    if kind == "missing":
        return "required"
    if kind == "literal_error":
        return f"must be {error['ctx']['expected']}, not {given!r}"
    return error["msg"].removeprefix("Value error, ").replace("Input should", "must", 1)


# -- observability: names are checked even if something else is wrong ------------------------------------------
#
# Source: docs/reference/contracts.md, "Observability".

_PATH: Final[Path] = ("observability",)
_MEMBERS: Final = ("enabled", "variable_visibility", "matrix", "default", "noise_scope")
_ENTRY: Final = ("observer", "target", "level", "noise")
#: Begins the stand-in for a name that cannot be read; no string of a configuration has this character.
_NO_NAME: Final = "\0"


def read_observability(parts: Parts, value: Any, context: Mapping[str, set[str]]) -> ObservabilityConfig | None:
    """Return the section of a value, None if something is wrong with it: ``parts`` has the problems.

    ``context`` has the known names, as `ObservabilityConfig.problems` takes them.
    """
    if not parts.is_mapping(value, _PATH):
        return None
    before = len(parts.problems)
    parts.known(value, _MEMBERS, _PATH)
    enabled = value.get("enabled")
    if type(enabled) is not bool:
        missing = "enabled" not in value
        message = "required: true or false" if missing else f"must be true or false, not {kind_of(enabled)}"
        parts.wrong((*_PATH, "enabled"), message)
    matrix = value.get("matrix")
    if not isinstance(matrix, list):
        what = "required: a list of [observer, target, level, noise]"
        parts.wrong((*_PATH, "matrix"), what if matrix is None else f"must be a list, not {kind_of(matrix)}")
        matrix = []
    default = value.get("default")
    usual = None if default is None else parts.required(DefaultObservability, default, (*_PATH, "default"))
    given: dict[str, Any] = {} if usual is None else {"default": usual}
    scope = value.get("noise_scope")
    if scope in ("turn", "value"):
        given["noise_scope"] = scope
    elif scope is not None:
        parts.wrong((*_PATH, "noise_scope"), f"must be turn or value, not {scope!r}")
    config = ObservabilityConfig.model_construct(
        enabled=enabled,
        variable_visibility=_visibility(parts, value.get("variable_visibility")),
        matrix=[_entry(parts, item, at) for at, item in enumerate(matrix)],
        **given,
    )
    for at, message in config.problems(context):
        if _NO_NAME not in message:
            parts.wrong((*_PATH, *at), message)
    parts.problems[before:] = [
        problem._replace(path=_in_list(problem.path, matrix)) for problem in parts.problems[before:]
    ]
    return config if len(parts.problems) == before else None


def _visibility(parts: Parts, value: Any) -> VariableVisibilityConfig:
    """Read the two lists of names, as far as possible."""
    path = (*_PATH, "variable_visibility")
    before = len(parts.problems)
    read = parts.required(VariableVisibilityConfig, value, path)
    if read is not None:
        return read
    given = value if isinstance(value, dict) else {}
    external, internal = (
        [
            name if isinstance(name, str) else f"{_NO_NAME}{which}{at}"
            for at, name in enumerate(given[which] if isinstance(given.get(which), list) else ())
        ]
        for which in ("external", "internal")
    )
    found = VariableVisibilityConfig.model_construct(external=external, internal=internal)
    overlap = found.overlap()
    if overlap is not None and all(problem.message != overlap for problem in parts.problems[before:]):
        parts.wrong(path, overlap)
    return found


def _entry(parts: Parts, item: Any, index: int) -> ObservabilityEntry:
    """Read an entry; of an unusable one, the names of the two, as far as possible."""
    read = parts.required(ObservabilityEntry, item, (*_PATH, "matrix", index))
    if read is not None:
        return read
    given = dict(zip(_ENTRY, item, strict=False)) if isinstance(item, list) else item if isinstance(item, dict) else {}
    observer, target = (
        given[which] if isinstance(given.get(which), str) else f"{_NO_NAME}{index}" for which in ("observer", "target")
    )
    level = ObservabilityLevel.UNAWARE
    return ObservabilityEntry.model_construct(observer=observer, target=target, level=level, noise=None)


def _in_list(path: Path, matrix: list[Any]) -> Path:
    """Return the path of an entry's member as it was written: by its index if the entry is a list."""
    if len(path) > 3 and path[1] == "matrix" and path[3] in _ENTRY and isinstance(matrix[int(path[2])], list):
        return (*path[:3], _ENTRY.index(str(path[3])), *path[4:])
    return path


_SECTIONS: Final = ("simulation", "engine", "agents", "validator", "state_variables", "observability")
_KINDS: Final = ("agent_vars", "global_vars")
_LLM_SIM: Final = "this is a configuration of llm-sim ({}); `worldledger config convert` turns it into one of these"
#: Most times that definitions are checked again without the wrong ones.
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
    """The state of reading; ``cycle`` is the cycle in the variables, if there is one."""

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
        """Refuse values of unknown variables, even if their types cannot be checked."""
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
        """Read the variables; wrong ones are left out, so that values of the others can be checked."""
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
            except CircularSchemaError as error:  # found before anything else, so the rest is checked without it
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
    """Return the names of agents and variables, including unusable ones: they may be referred to."""
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
    """Return the name and the values of an unusable agent, to check them; None without a name."""
    given = value if isinstance(value, dict) else {}
    if not isinstance(given.get("name"), str):
        return None
    state = given.get("state")
    return AgentConfig.model_construct(name=given["name"], state=state if isinstance(state, dict) else {})


# -- warnings: what a configuration may say, but probably does not mean ---------------------------------------

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


def read_config(file: FilePath, *, named: bool) -> dict[str, Any] | None:
    """Read a YAML file, a JSON file with a simulation's sections, or any file if the kind is ``named``."""
    return load_config(file).to_value() if named or _is_simulation(file) else None


def _is_simulation(file: FilePath) -> bool:
    if file.suffix.lower() in {".yaml", ".yml"}:
        return True
    try:
        value = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and not {"simulation", "state_variables"}.isdisjoint(value)
