"""What a configuration may say, and probably does not mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from worldledger.errors import Problem
from worldledger.observability import ObservabilityConfig, ObservabilityLevel
from worldledger_simulation.rules.configuring.sections import AgentConfig, StateVariablesConfig

_PATH: Final = ("observability",)
#: Most agents that one warning names.
_MOST_NAMED: Final = 5


def warnings_of(
    agents: Iterable[AgentConfig], variables: StateVariablesConfig, observability: ObservabilityConfig | None
) -> list[Problem]:
    """Return what is worth a warning, each with its path."""
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
    """Tell of agents that do not see themselves as they are: no entry of the matrix is implied."""
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
    """Say what is not as it is; nothing if all is."""
    if level is ObservabilityLevel.UNAWARE:
        return "not at all (unaware)"
    told = [] if level is ObservabilityLevel.INSIDER else ["only in part (external)"]
    return " and ".join([*told, *([f"with noise {noise}"] if noise else [])])


def _repeated(config: ObservabilityConfig) -> Iterator[Problem]:
    """Tell of variables that stand twice in one list: another one may have been meant."""
    for which in ("external", "internal"):
        seen: set[str] = set()
        for index, name in enumerate(getattr(config.variable_visibility, which)):
            if name in seen:
                message = f"{name!r} stands twice in the {which} list"
                yield Problem((*_PATH, "variable_visibility", which, index), message)
            seen.add(name)


def _unlisted(variables: StateVariablesConfig, config: ObservabilityConfig) -> Iterator[Problem]:
    """Tell of variables in neither list: they are external."""
    listed = {*config.variable_visibility.external, *config.variable_visibility.internal}
    for kind, names in (("agent_vars", variables.agent_vars), ("global_vars", variables.global_vars)):
        for name in names:
            if name not in listed:
                message = "in neither list of variable_visibility, so it is external"
                yield Problem(("state_variables", kind, name), message)
