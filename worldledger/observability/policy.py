"""The matrix: a simulation's state as one observer sees it, and as a policy what an agent sees of a world's entities.

Source: docs/reference/observation.md, "The policy `matrix`". The policy is version 2; version 1 is kept for
worlds that were recorded with it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeVar, cast

from pydantic import BaseModel, Field, field_validator

from worldledger.effects import Effect, is_system_kind
from worldledger.errors import InvalidPolicyError
from worldledger.observability.config import (
    EVERYTHING,
    GLOBAL,
    NoiseScope,
    ObservabilityConfig,
    ObservabilityLevel,
    Sight,
    level_of,
    noise_factor,
)
from worldledger.observability.noise import FREE, Draw, Draws, Limits, bounds_of, check_bounds
from worldledger.observation import FirstPolicyConfig, ObservationPolicy, ObservedEvent, PolicyConfig, names_in
from worldledger.policies import register_policy
from worldledger.variables import create_agent_state_model, create_global_state_model
from worldledger.world import WorldState

if TYPE_CHECKING:
    from worldledger.variables import VariableDefinition


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


#: The bounds of all entities without their own.
_OTHERS: Final = "*"
_HEX32: Final = r"^[0-9a-f]{32}$"


def _sight(value: Any) -> Sight:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError("a level and a noise factor are wanted: [level, noise]")
    return level_of(value[0]), 0.0 if value[1] is None else noise_factor(value[1])


class FirstMatrixPolicyConfig(FirstPolicyConfig):
    """The settings of the policy ``matrix`` in its version 1; see `MatrixPolicyConfig`."""

    targets: dict[str, Sight] = Field(default_factory=dict)
    default: Sight = (ObservabilityLevel.UNAWARE, 0.0)
    internal: list[str] = Field(default_factory=list)
    bounds: dict[str, dict[str, Any]] = Field(default_factory=dict)
    noise_key: str | None = Field(default=None, pattern=_HEX32)

    @field_validator("targets", mode="before")
    @classmethod
    def _read_targets(cls, value: Any) -> Any:
        return {name: _sight(each) for name, each in value.items()} if isinstance(value, Mapping) else value

    @field_validator("default", mode="before")
    @classmethod
    def _read_default(cls, value: Any) -> Any:
        return _sight(value)

    @field_validator("bounds")
    @classmethod
    def _trees(cls, value: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for tree in value.values():
            check_bounds(tree)
        return value


class MatrixPolicyConfig(FirstMatrixPolicyConfig, PolicyConfig):
    """What a `MatrixPolicy` goes by: one observer's row of the matrix.

    - ``targets``: entity_id -> [level, noise].
    - ``default``: [level, noise] of all other targets; unaware unless it is given.
    - ``internal``: the names of variables, of events' payload members too, that an external observer is not shown.
    - ``bounds``: entity_id, or ``*`` for all that are not named -> tree of bounds (`worldledger.observability.noise`).
    - ``noise_key``: the uuid, 32 hex digits, of the world that noise is drawn for; null until the policy is registered.
    - ``noise_scope``: what a draw is made for, besides world, observer, target and place: the ``turn``, or the number's
      own ``value`` (`worldledger.observability.noise`).
    """

    noise_scope: NoiseScope = "turn"


@register_policy("matrix", version=2)
class MatrixPolicy(ObservationPolicy):
    """Sees each entity at the level of the agent's row, with its noise.

    The view changes with ``metadata.turn`` or, with the ``noise_scope`` value, with each number.

    The agent's own entity is not an exception: it is seen as the row says. The other settings of a `PolicyConfig` hide
    what they hide besides.

    An effect whose source is neither an entity, nor a registered agent, nor a target of the row comes from outside the
    world (an operator, an engine): it is shown like one of the first entity that its payload names, and exactly if it
    names none.
    """

    config_class: ClassVar[type[FirstPolicyConfig]] = MatrixPolicyConfig
    config: FirstMatrixPolicyConfig

    def __init__(self, config: FirstPolicyConfig | None = None) -> None:
        """Take the configuration; without one it sees nothing."""
        super().__init__(config)
        self._by_value = isinstance(self.config, MatrixPolicyConfig) and self.config.noise_scope == "value"
        self._targets: Mapping[str, Sight] = self.config.targets
        self._default: Sight = self.config.default
        self._internal: frozenset[str] = frozenset(self.config.internal)
        self._limits = {name: Limits.of_tree(tree) for name, tree in self.config.bounds.items()}
        #: An agent's name is not a variable; a global variable may have that name.
        self._internal_of_agents: frozenset[str] = self._internal - {NAME}

    @classmethod
    def of(
        cls,
        config: ObservabilityConfig | None,
        observer: str,
        variables_agents: Mapping[str, VariableDefinition],
        variables_global: Mapping[str, VariableDefinition],
        noise_key: str | None = None,
    ) -> MatrixPolicy:
        """Make the policy of one observer; without config, or if it is not enabled, it sees everything."""
        if config is None or not config.enabled:
            return cls(MatrixPolicyConfig(default=EVERYTHING, noise_key=noise_key))
        trees = {_OTHERS: bounds_of(variables_agents), GLOBAL: bounds_of(variables_global)}
        return cls(
            MatrixPolicyConfig(
                targets=dict(config.rows.get(observer, {})),
                default=config.usual,
                internal=sorted(config.internal),
                bounds={name: tree for name, tree in trees.items() if tree or name == GLOBAL},
                noise_key=noise_key,
                noise_scope=config.noise_scope,
            )
        )

    def sight_of(self, entity_id: str) -> Sight:
        """Return the level and the noise at which the agent sees an entity."""
        return self._targets.get(entity_id, self._default)

    # -- hooks ------------------------------------------------------------------------------------------------

    def for_world(self, world_uuid: str) -> MatrixPolicy:
        """Return the policy with this world's uuid as its noise key, unless it already has one."""
        if self.config.noise_key is not None:
            return self
        settings = {name: getattr(self.config, name) for name in type(self.config).model_fields}
        return type(self)(type(self.config).model_validate({**settings, "noise_key": world_uuid}))

    def check_usable(self) -> None:
        """Raise InvalidPolicyError if there is noise and no world for which it is drawn."""
        if self.config.noise_key is None and any(noise for _, noise in (self._default, *self._targets.values())):
            raise _no_key()

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Return whether the agent is aware of an entity of the world, and nothing else hides it."""
        if self.sight_of(entity_id)[0] is ObservabilityLevel.UNAWARE:
            return False
        return super().sees_entity(world_state, agent_id, entity_id)

    def is_aware_of(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        """Return whether the agent is aware of an entity of the world, wherever it is."""
        if self.sight_of(entity_id)[0] is ObservabilityLevel.UNAWARE:
            return False
        return entity_id == agent_id or self.is_related_to(world_state, agent_id, entity_id)

    def show_entity_to(self, world_state: WorldState, agent_id: str, entity_id: str) -> dict[str, Any]:
        """Return an entity as the agent sees it in this turn."""
        level, noise = self.sight_of(entity_id)
        return observe_entity(
            self.show_entity(world_state.entities[entity_id]),
            level=level,
            noise=noise,
            internal=self._internal if entity_id == GLOBAL else self._internal_of_agents,
            draw=self._draw(world_state, agent_id, entity_id) if noise else None,
            bounds=self._limits_of(entity_id),
        )

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Return whether the agent observes an effect, given the state after it.

        It does if it sees an entity that the effect names (`names_in`), its own included, and the effect is not out of
        its sight. If none of the names is an entity of the world: if it is aware of one of them, or if the effect comes
        from outside and names none, and there is no relationship filter. No agent observes system kinds; only source
        and target observe private effects.
        """
        if is_system_kind(effect["kind"]) or not self.is_told(effect, agent_id):
            return False
        names = names_in(effect)
        if agent_id not in names and self.is_out_of_sight(effect, agent_id, world_state):
            return False
        present = [name for name in names if name in world_state.entities]
        if present:
            knows = self.is_aware_of if self.has_place(effect, agent_id, world_state) else self.sees_entity
            return any(knows(world_state, agent_id, name) for name in present)
        if self.relationship_filter:
            return False
        if self._is_outside(effect["source_id"], world_state):
            names = names[1:]
        return not names or any(self.sight_of(name)[0] is not ObservabilityLevel.UNAWARE for name in names)

    def show_event_to(self, effect: Effect, agent_id: str, world_state: WorldState) -> ObservedEvent | None:
        """Return an observed effect as the agent sees it: the members of its payload as variables of its source."""
        event = self.show_event(effect)
        if event is None:
            return None
        subject = self._subject(effect, world_state)
        level, noise = self.sight_of(subject) if subject is not None else (ObservabilityLevel.EXTERNAL, 0.0)
        # An agent that sees a named entity but is not aware of the source is shown what an external observer is.
        event["payload"] = observe_entity(
            event["payload"],
            level=ObservabilityLevel.EXTERNAL if level is ObservabilityLevel.UNAWARE else level,
            noise=noise,
            internal=self._internal,
            draw=self._draw(world_state, agent_id, subject) if noise and subject is not None else None,
            bounds=None if subject is None else self._limits_of(subject),
        )
        return event

    # -- what they need ---------------------------------------------------------------------------------------

    def _draw(self, world_state: WorldState, agent_id: str, target: str) -> Draw:
        key = self.config.noise_key
        if key is None:
            raise _no_key()
        if self._by_value:
            return Draws(key, agent_id, None).toward(target)
        turn = world_state.metadata.get("turn", 0)
        return Draws(key, agent_id, turn if type(turn) is int else 0).toward(target)

    def _limits_of(self, entity_id: str) -> Limits:
        return self._limits.get(entity_id) or self._limits.get(_OTHERS, FREE)

    def _is_outside(self, name: str, world_state: WorldState) -> bool:
        known: Container[str] = world_state.metadata.get("agents", ())
        return name not in world_state.entities and name not in self._targets and name not in known

    def _subject(self, effect: Effect, world_state: WorldState) -> str | None:
        """Return the id whose variables the payload is taken to describe."""
        source, *others = names_in(effect)
        if not self._is_outside(source, world_state):
            return source
        return next((name for name in others if not self._is_outside(name, world_state)), None)


@register_policy("matrix", version=1)
class FirstMatrixPolicy(MatrixPolicy):
    """The policy ``matrix`` in its version 1: for worlds that were recorded with it."""

    config_class: ClassVar[type[FirstPolicyConfig]] = FirstMatrixPolicyConfig


def _no_key() -> InvalidPolicyError:
    return InvalidPolicyError(
        "there is noise, which is drawn for a world: register the policy in one, or give the world's uuid",
        "$.config.noise_key",
    )
