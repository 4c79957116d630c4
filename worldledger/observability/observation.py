"""What one observer sees of a simulation's state: a state of the same shape, filtered and with noise.

Source: docs/reference/contracts.md, "Observability".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol, TypeVar

from pydantic import BaseModel

from worldledger.observability.bounds import Limits, bounds_of
from worldledger.observability.config import EVERYTHING, GLOBAL, ObservabilityConfig, ObservabilityLevel, Sight
from worldledger.observability.models import copied, made_of, values_of
from worldledger.observability.noise import Draws
from worldledger.observability.seen import NAME, observe_entity
from worldledger.variables import create_agent_state_model, create_global_state_model

_Model = TypeVar("_Model", bound=BaseModel)


class SimulationStateLike(Protocol):
    """What is asked of a simulation's state. If it has a ``world_uuid``, noise is drawn for that world."""

    @property
    def turn(self) -> int:
        """The turn at whose end the state is."""
        ...

    @property
    def agents(self) -> Mapping[str, BaseModel]:
        """The agents' states by their names, each of a class that `create_agent_state_model` made."""
        ...

    @property
    def global_state(self) -> BaseModel:
        """The global variables, of a class that `create_global_state_model` made."""
        ...


_State = TypeVar("_State", bound=SimulationStateLike)


def construct_observation(
    observer_id: str, ground_truth: _State, config: ObservabilityConfig | None, *, world_uuid: str | None = None
) -> _State:
    """Return what an observer sees of a state (a Pydantic model with the members of `SimulationStateLike`).

    Of the agents those are left out that it is not aware of, itself too; of a target seen from without, the internal
    variables; ``reasoning_chains`` is empty, everything else the state's own. Without config, or if it is not enabled,
    all agents and variables are seen exactly. What is given shares nothing of agents and global variables with the
    state. Noise is drawn for ``world_uuid``, else for the state's. Raises ValueError if there is noise and neither, or
    if that is no UUID.
    """
    enabled = config is not None and config.enabled
    row: Mapping[str, Sight] = config.rows.get(observer_id, {}) if config is not None and enabled else {}
    usual = config.usual if config is not None and enabled else EVERYTHING
    internal = config.internal if config is not None and enabled else frozenset()
    uuid = getattr(ground_truth, "world_uuid", None) if world_uuid is None else world_uuid
    by_value = config is not None and config.noise_scope == "value"
    draws = None if uuid is None else Draws(uuid, observer_id, None if by_value else ground_truth.turn)
    agents = {}
    for name, agent in ground_truth.agents.items():
        sight = row.get(name, usual)
        if sight[0] is not ObservabilityLevel.UNAWARE:
            agents[name] = _observed(name, agent, sight, internal - {NAME}, draws)
    seen = _observed(GLOBAL, ground_truth.global_state, row.get(GLOBAL, usual), internal, draws)
    found = {"agents": agents, "global_state": seen, "reasoning_chains": []}
    return ground_truth.model_copy(update=found)  # type: ignore[attr-defined, no-any-return]  # mypy: see the docstring


def _observed(target: str, model: _Model, sight: Sight, internal: frozenset[str], draws: Draws | None) -> BaseModel:
    """Return the model of a target as it is observed."""
    level, noise = sight
    cls = type(model)
    shown: type[BaseModel] = cls
    if level is ObservabilityLevel.UNAWARE:
        shown = _without_variables()
    elif level is ObservabilityLevel.EXTERNAL and internal:
        shown = _narrowed(cls, internal, target == GLOBAL)
    values = observe_entity(
        values_of(model),
        level=level,
        noise=noise,
        internal=internal,
        draw=draws.toward(target) if draws is not None and noise else None,
        bounds=_limits(cls) if noise else None,
    )
    return made_of(shown, values if noise else copied(values))


@lru_cache(256)
def _narrowed(cls: type[BaseModel], internal: frozenset[str], of_globals: bool) -> type[BaseModel]:
    """Return the class of a state without its internal variables."""
    variables = cls.__variables__  # type: ignore[attr-defined]  # every class of states has it
    shown = {name: definition for name, definition in variables.items() if name not in internal}
    if len(shown) == len(variables):
        return cls
    return create_global_state_model(shown) if of_globals else create_agent_state_model(shown)


@lru_cache(1)
def _without_variables() -> type[BaseModel]:
    return create_global_state_model({})


@lru_cache(256)
def _limits(cls: type[BaseModel]) -> Limits:
    return Limits.of_tree(bounds_of(cls.__variables__))  # type: ignore[attr-defined]  # every class of states has it
