"""Converting configurations of llm-sim to those of this project.

They have the same sections and more, and give an agent's initial values in fields of their own. The turns are made by
an external program, which gets ``engine.parameters``: the settings of engine, validator and map go there. The settings
of clients of language models, which may contain keys, and of loggers are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from worldledger.errors import dotted
from worldledger_simulation.rules.sections import AgentConfig, EngineConfig, SimulationSettings, ValidatorConfig

_CHECKED: Final = ValidatorConfig().type
_INITIAL: Final = "initial_"
#: Sections and fields of llm-sim that are left out, and why.
_LEFT: Final = {
    ("llm",): "agents are programs outside of this one, which know their models",
    ("logging",): "the service logs as its own settings say",
    ("simulation", "checkpoint_interval"): "every turn is kept, and can be exported as a checkpoint",
}
#: Sections that both projects have.
_SAME: Final = ("state_variables", "observability")
#: The variables of a configuration without definitions.
_STRENGTH: Final = "economic_strength"
_RATE: Final = "interest_rate"
_USUAL_RATE: Final = 0.05
_TOTAL: Final = "total_economic_value"
_OTHERS: Final = ("gdp_growth", "inflation", "unemployment")


class Conversion(NamedTuple):
    """A configuration, what was moved in it (from, to), and what was left out and why; paths are dotted."""

    value: dict[str, Any]
    moved: list[tuple[str, str]]
    left: list[tuple[str, str]]


def signs_of(value: Any) -> list[str]:
    """Return the dotted paths of what only llm-sim's configurations have."""
    if not isinstance(value, Mapping):
        return []
    paths: list[tuple[str | int, ...]] = [(name,) for name in ("llm", "logging", "spatial") if name in value]
    for section, names in (("simulation", ("termination", "checkpoint_interval")), ("engine", (_RATE,))):
        paths += [(section, name) for name in names if name in _mapping(value.get(section))]
    if _mapping(value.get("validator")).get("type") not in (None, _CHECKED):
        paths.append(("validator", "type"))
    for agent in _list(value.get("agents")):
        firsts = [name for name in _mapping(agent) if isinstance(name, str) and name.startswith(_INITIAL)]
        if firsts:
            paths.append(("agents", str(_mapping(agent).get("name")), firsts[0]))
            break
    return [dotted(path) for path in paths]


def is_of_llm_sim(value: Any) -> bool:
    """Return whether a configuration is llm-sim's; a single sign of that may be a slip."""
    return len(signs_of(value)) > 1


def converted(value: Mapping[str, Any]) -> Conversion:
    """Return a configuration of llm-sim as one of this project.

    Nothing is checked: problems in a section that both have stay. A section that is neither a mapping nor a list of
    agents is passed on as it is.
    """
    made = _Converting(value)
    return Conversion(made.value(), made.moved, made.left)


class _Converting:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self.moved: list[tuple[str, str]] = []
        self.left: list[tuple[str, str]] = []
        engine = _mapping(given.get("engine"))
        self._parameters: dict[str, Any] = dict(_mapping(engine.get("parameters")))
        variables = given.get("state_variables")
        self._is_defined = isinstance(variables, Mapping)
        agent_vars = _mapping(_mapping(variables).get("agent_vars"))
        self._agent_vars = set(agent_vars) if self._is_defined else {_STRENGTH}

    def value(self) -> dict[str, Any]:
        given = self._given
        made: dict[str, Any] = {}
        made["simulation"] = self._section("simulation", SimulationSettings.model_fields)
        engine = self._section("engine", EngineConfig.model_fields)
        agents = given.get("agents")
        made["agents"] = (
            [self._agent(agent, index) for index, agent in enumerate(agents)] if isinstance(agents, list) else agents
        )
        validator = given.get("validator")
        if isinstance(validator, Mapping) and dict(validator) != {"type": _CHECKED}:
            self._to_engine(("validator",), dict(validator))
        for name, section in given.items():
            if name in ("simulation", "engine", "agents", "validator"):
                continue
            if name in _SAME:
                made[name] = section
            elif (name,) in _LEFT:
                self.left.append((name, _LEFT[name,]))
            else:
                self._to_engine((name,), section)
        if not self._is_defined and given.get("state_variables") is None:
            made["state_variables"] = self._usual_variables()
        if isinstance(engine, dict) and self._parameters:
            engine["parameters"] = self._parameters
        made["engine"] = engine
        order = ("simulation", "engine", "agents", *_SAME)
        return {name: made[name] for name in order if made.get(name) is not None}

    def _section(self, name: str, fields: Mapping[str, Any]) -> Any:
        """Return what both have of a section; the rest of it goes to the engine's parameters."""
        section = self._given.get(name)
        if not isinstance(section, Mapping):
            return {} if section is None and name == "engine" else section
        for field, item in section.items():
            if (name, field) in _LEFT:
                self.left.append((f"{name}.{field}", _LEFT[name, field]))
            elif field not in fields:
                self._to_engine((name, field), item)
        return {field: section[field] for field in fields if field in section}

    def _to_engine(self, path: tuple[str, ...], item: Any) -> None:
        name = path[-1]
        if name in self._parameters:
            self.left.append((dotted(path), f"engine.parameters.{name} is there already"))
            return
        self._parameters[name] = item
        self.moved.append((dotted(path), dotted(("engine", "parameters", name))))

    def _agent(self, agent: Any, index: int) -> Any:
        if not isinstance(agent, Mapping):
            return agent
        made = {name: item for name, item in agent.items() if name in AgentConfig.model_fields}
        state, parameters = dict(_mapping(agent.get("state"))), dict(_mapping(agent.get("parameters")))
        called = agent.get("name")
        path = ("agents", called if isinstance(called, str) else index)
        for name, item in agent.items():
            if name in AgentConfig.model_fields:
                continue
            variable = name.removeprefix(_INITIAL) if isinstance(name, str) else None
            is_first = variable != name and variable in self._agent_vars and variable not in state
            place, key = ("state", variable) if is_first else ("parameters", name)
            (state if is_first else parameters)[str(key)] = item
            self.moved.append((dotted((*path, str(name))), dotted((*path, place, str(key)))))
        if state:
            made["state"] = state
        if parameters:
            made["parameters"] = parameters
        return made

    def _usual_variables(self) -> dict[str, Any]:
        """Return llm-sim's variables of a configuration without definitions."""
        rate = _mapping(self._given.get("engine")).get(_RATE)
        strengths = [_mapping(agent).get(f"{_INITIAL}{_STRENGTH}") for agent in _list(self._given.get("agents"))]
        numbers = [float(each) for each in strengths if isinstance(each, int | float)]
        self.moved.append(("the variables that llm-sim has by itself", "state_variables"))
        first = {_RATE: float(rate) if isinstance(rate, int | float) else _USUAL_RATE, _TOTAL: sum(numbers)}
        return {
            "agent_vars": {_STRENGTH: {"type": "float", "min": 0, "default": 0.0}},
            "global_vars": {
                name: {"type": "float", "default": first.get(name, 0.0)} for name in (_RATE, _TOTAL, *_OTHERS)
            },
        }


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
