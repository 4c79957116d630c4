"""A simulation's state as one observer sees it: of the same shape, filtered and with noise.

Source: docs/reference/contracts.md, "Observability".
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol, TypeVar, cast

from pydantic import BaseModel

from worldledger.observability.config import EVERYTHING, GLOBAL, ObservabilityConfig, ObservabilityLevel, Sight
from worldledger.observability.noise import FREE, Draw, Draws, Limits, bounds_of
from worldledger.variables import create_agent_state_model, create_global_state_model

# -- models of states by the names of their variables; a field may have another name to avoid a clash -----


_Model = TypeVar("_Model", bound=BaseModel)


@lru_cache(512)
def _renamed(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return field -> variable for those whose names differ."""
    return {name: field.alias for name, field in cls.model_fields.items() if field.alias not in {None, name}}


@lru_cache(512)
def _attributes(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return variable -> field for those whose names differ."""
    return {variable: field for field, variable in _renamed(cls).items()}


@lru_cache(512)
def _template(cls: type[BaseModel]) -> BaseModel:
    """Return a model to copy. `BaseModel.model_construct` will not do: it cannot take a variable called ``cls``."""
    made = cls.model_construct()
    made.__dict__.clear()
    made.__dict__.update(dict.fromkeys(cls.model_fields))
    return made


def values_of(model: BaseModel) -> dict[str, Any]:
    """Return the values of a model, by variable: not copies."""
    renamed = _renamed(type(model))
    values = model.__dict__
    return {renamed.get(name, name): value for name, value in values.items()} if renamed else values


def with_values(model: _Model, values: Mapping[str, Any]) -> _Model:
    """Return a model of the same class with exactly these values, by variable; they are not validated."""
    attributes = _attributes(type(model))
    update = {attributes.get(name, name): value for name, value in values.items()} if attributes else values
    return model.model_copy(update=update)


def made_of(cls: type[_Model], values: Mapping[str, Any]) -> _Model:
    """Make a model from the values of all its fields, by variable; they are not validated."""
    return with_values(cast(_Model, _template(cls)), values)


def copied(value: Any) -> Any:
    """Return a copy of a value of a state that shares nothing mutable with it."""
    kind = type(value)
    if kind is dict:
        return {name: copied(item) for name, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    if kind is tuple:
        return tuple(copied(item) for item in value)
    if isinstance(value, BaseModel):
        return with_values(value, {name: copied(item) for name, item in values_of(value).items()})
    return value


# -- the values of one target: which of them an observer sees, and with how much noise ----------------------------
#
# Values are JSON values, or those of models made from variables: objects, dicts, lists, tuples. A number keeps its
# type: a whole number stays whole. Booleans, strings, null and the keys of objects are seen as they are.

#: The member of an agent's state that is not a variable, and never hidden.
NAME: Final = "name"


def observe_entity(
    values: Mapping[str, Any],
    *,
    level: ObservabilityLevel,
    noise: float = 0.0,
    internal: Collection[str] = (),
    draw: Draw | None = None,
    bounds: Limits | Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the values of a target as they are observed at this level; none for an unaware observer.

    ``internal`` has the names that an external observer is not shown. ``draw`` returns the draws of the target, see
    `worldledger.observability.noise`; it is needed if there is noise. ``bounds`` is a tree of bounds, or the faster
    result of `Limits.of_tree`. Without noise the values are the target's own; with noise nothing mutable is shared.
    Raises ValueError if there is noise and no ``draw``.
    """
    if level is ObservabilityLevel.UNAWARE:
        return {}
    if level is ObservabilityLevel.EXTERNAL and internal:
        values = {name: value for name, value in values.items() if name not in internal}
    if not noise:
        return dict(values)
    if draw is None:
        raise ValueError("noise is drawn for a world: say which")
    if not isinstance(bounds, Limits):
        bounds = FREE if bounds is None else Limits.of_tree(bounds)
    return _Walk(noise, draw).members(b"", values, bounds)


class _Walk:
    """Walks through a value and returns it with noise on every number. Paths are in the message's form."""

    __slots__ = ("_draw", "_noise")

    def __init__(self, noise: float, draw: Draw) -> None:
        self._noise = noise
        self._draw = draw

    def members(self, path: bytes, values: Mapping[Any, Any], limits: Limits) -> dict[Any, Any]:
        names = tuple(values)
        plan = self._draw.plan(names, limits)
        return dict(zip(names, self._draw.several(self._noise, path, plan, values.values(), self._within), strict=True))

    def _within(self, path: bytes, value: Any, limits: Limits) -> Any:
        kind = type(value)
        if kind is dict:
            return self.members(path, value, limits)
        if kind is list or kind is tuple:
            plan = self._draw.plan_of_items(limits)
            items = self._draw.several(self._noise, path, plan, value, self._within)
            return items if kind is list else tuple(items)
        if isinstance(value, BaseModel):
            return with_values(value, self.members(path, values_of(value), limits))
        return value


class SimulationStateLike(Protocol):
    """The required shape of a simulation's state. If it has a ``world_uuid``, noise is drawn for that world."""

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

    Agents that the observer is not aware of are left out, itself too; so are the internal variables of a target seen as
    external; ``reasoning_chains`` is empty, everything else is the state's own. Without config, or if it is not
    enabled, all agents and variables are seen exactly. The result shares nothing of agents and global variables with
    the state. Noise is drawn for ``world_uuid``, else for the state's. Raises ValueError if there is noise and neither,
    or an invalid UUID.
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
    """Return a state's class without its internal variables."""
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


# -- the matrix: how an observer sees a target (docs/reference/contracts.md, "Observability") ----------------------


class ObservabilityMatrix:
    """Looks up how observers see targets; without config, or if it is not enabled, they see everything."""

    __slots__ = ("_default", "_rows")

    def __init__(self, config: ObservabilityConfig | None) -> None:
        enabled = config is not None and config.enabled
        self._rows = config.rows if config is not None and enabled else {}
        self._default = config.usual if config is not None and enabled else EVERYTHING

    def get_observability(self, observer: str, target: str) -> tuple[ObservabilityLevel, float]:
        """Return the level and the noise of a pair: its entry's, or else the default's."""
        return self._rows.get(observer, {}).get(target, self._default)
