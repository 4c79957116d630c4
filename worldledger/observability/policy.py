"""The matrix as an observation policy: what an agent sees of a world's entities, by its row of the matrix.

Source: docs/reference/observation.md, "The policy `matrix`". This is version 2; version 1 is kept for worlds that were
recorded with it.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import Field, field_validator

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
from worldledger.observability.observation import NAME, observe_entity
from worldledger.observation import FirstPolicyConfig, ObservationPolicy, ObservedEvent, PolicyConfig, names_in
from worldledger.policies import register_policy
from worldledger.world import WorldState

if TYPE_CHECKING:
    from worldledger.variables import VariableDefinition

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
