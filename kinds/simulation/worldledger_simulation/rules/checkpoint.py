"""Checkpoints: a simulation's state as a file that another simulation can begin with.

Source: docs/reference/simulations.md, "Checkpoints": ``{turn, agents, global_state}``. An exported checkpoint also has
a member ``worldledger``, which states its origin and the digest of the rest; a checkpoint without it can be read as
well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, Field, SerializeAsAny

from worldledger.canonical import MAX_INT, gate
from worldledger.errors import InvalidEffectError, Problem
from worldledger.near import nearest
from worldledger.variables import ObjectState, StateInvalidError, VariableDefinition, dump_state, validate_state
from worldledger.world import WorldState, state_digest, state_text
from worldledger_simulation.rules import words
from worldledger_simulation.rules.config import SimulationConfig
from worldledger_simulation.rules.models import Models, defaults_of, models_of, variables_digest
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_simulation.rules.words import GLOBAL, PLACE

#: The format of the member ``worldledger``.
FORMAT: Final = "checkpoint/1"
#: The member with a checkpoint's origin.
ORIGIN: Final = "worldledger"

_PARTS: Final = ("turn", "agents", "global_state")
_KNOWN: Final = (*_PARTS, "reasoning_chains", ORIGIN)
#: Most problems, and most agents of a configuration, up to which the nearest known names are suggested.
_MOST_HINTS: Final = 20
_MOST_NAMES: Final = 500


class Source(NamedTuple):
    """The origin of a checkpoint: the world, and the position in its chain."""

    world_id: str
    world_uuid: str
    global_seq: int
    checksum: str


class Checkpoint(NamedTuple):
    """A checkpoint that fits a configuration; the values have exactly the types of its variables.

    ``origin`` is its stated origin, ``edited`` whether it was changed since.
    """

    turn: int
    agents: dict[str, dict[str, Any]]
    global_state: dict[str, Any]
    paused: dict[str, int | None]
    origin: dict[str, Any] | None
    edited: bool

    @classmethod
    def read(cls, value: Any, config: SimulationConfig) -> Checkpoint:
        """Read a checkpoint for a simulation of this configuration.

        Missing variables get their defaults, so a checkpoint of a simulation with fewer variables can be used;
        variables that the configuration does not know are refused. Raises InvalidSimulationConfigError with all
        problems.
        """
        return _Reading(config).read(value)

    def beginning(self) -> dict[str, Any]:
        """Return the payload of SimulationStarted."""
        payload: dict[str, Any] = {"turn": self.turn, "agents": self.agents, "global_state": self.global_state}
        if self.paused:
            payload["paused"] = self.paused
        if self.origin is not None:
            payload["checkpoint"] = {**self.origin, "edited": self.edited}
        return payload


def checkpoint_value(state: WorldState, values: Mapping[str, Any], source: Source) -> dict[str, Any]:
    """Return a checkpoint with ``values`` ({turn, agents, global_state}), which belong to this state."""
    simulation = state.metadata[PLACE]
    paused = {name: known["resume_turn"] for name, known in simulation["agents"].items() if known["paused"]}
    origin: dict[str, Any] = {
        "format": FORMAT,
        **source._asdict(),
        "variables_digest": simulation["variables_digest"],
        "paused": dict(sorted(paused.items())),
    }
    return {**values, ORIGIN: {**origin, "digest": _digest(values, origin)}}


def _digest(values: Mapping[str, Any], origin: Mapping[str, Any]) -> str:
    rest = {name: value for name, value in origin.items() if name != "digest"}
    return state_digest(state_text([[values.get(part) for part in _PARTS], rest]))


class _Reading:
    """The state of reading a checkpoint, and the problems found so far."""

    def __init__(self, config: SimulationConfig) -> None:
        self._config = config
        variables = config.state_variables
        self._models = Models(variables.agent_vars, variables.global_vars, config.agent_model, config.global_model)
        self._problems: list[Problem] = []

    def read(self, value: Any) -> Checkpoint:
        if not isinstance(value, Mapping):
            raise InvalidSimulationConfigError([Problem((), "a checkpoint is an object of turn, agents, global_state")])
        for name in value:
            if name not in _KNOWN:
                self._wrong((str(name),), f"unknown field; a checkpoint has {', '.join(_KNOWN)}")
        turn = value.get("turn")
        if type(turn) is not int or not 0 <= turn <= MAX_INT:
            self._wrong(("turn",), "the number of the last turn, a whole number from 0 on")
        elif (most := self._config.simulation.max_turns) is not None and turn > most:
            self._wrong(("turn",), f"the configuration has {most} turns, and this is after turn {turn}")
        agents = self._agents(value.get("agents"))
        given = value.get("global_state", {})
        world = self._exact(("global_state",), given, self._models.global_vars, self._models.world)
        origin = value.get(ORIGIN)
        paused = self._paused(origin, agents)
        if self._problems or turn is None:
            self._tell_of_other_variables(origin)
            raise InvalidSimulationConfigError(self._problems)
        edited = isinstance(origin, Mapping) and origin.get("digest") != _digest(value, origin)
        return Checkpoint(turn, agents, world, paused, None if origin is None else dict(origin), edited)

    def _agents(self, value: Any) -> dict[str, dict[str, Any]]:
        if not isinstance(value, Mapping):
            self._wrong(("agents",), "an object of the agents by name")
            return {}
        names = {agent.name for agent in self._config.agents}
        agents = {}
        for name, entity in value.items():
            where = ("agents", str(name))
            if name not in names:
                close = nearest(str(name), sorted(names)) if self._hints() else None
                hint = f"; did you mean {close!r}?" if close else "; add it to the configuration"
                self._wrong(where, f"the configuration has no such agent{hint}")
            elif not isinstance(entity, Mapping) or entity.get("name", name) != name:
                self._wrong(where, "an agent is an object with the agent's own name")
            else:
                values = {**entity, "name": name}
                agents[name] = self._exact(where, values, self._models.agent_vars, self._models.agent)
        return agents

    def _hints(self) -> bool:
        """Return whether nearest names are looked for, which takes time."""
        return len(self._problems) < _MOST_HINTS and len(self._config.agents) <= _MOST_NAMES

    def _exact(
        self, where: tuple[str, ...], value: Any, variables: Mapping[str, VariableDefinition], model: Any
    ) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            self._wrong(where, "an object of variables")
            return {}
        try:
            return dump_state(validate_state(model, {**defaults_of(variables), **value}))
        except StateInvalidError as error:
            for path, message in error.problems:
                self._wrong((*where, *path), message)
            return {}

    def _paused(self, origin: Any, agents: Mapping[str, Any]) -> dict[str, int | None]:
        if origin is None:
            return {}
        if not isinstance(origin, Mapping) or origin.get("format") != FORMAT:
            self._wrong((ORIGIN,), f"an object whose format is {FORMAT}")
            return {}
        try:
            gate(dict(origin))
        except InvalidEffectError as error:
            self._wrong((ORIGIN,), f"{error.path}: {error.reason}")
            return {}
        paused = origin.get("paused", {})
        if not isinstance(paused, Mapping):
            self._wrong((ORIGIN, "paused"), "an object of agents and the turns that they resume in")
            return {}
        for name, turn in paused.items():
            if name not in agents or not (turn is None or (type(turn) is int and 0 <= turn <= MAX_INT)):
                self._wrong((ORIGIN, "paused", str(name)), "an agent of the checkpoint and a turn, or null")
        return dict(paused)

    def _tell_of_other_variables(self, origin: Any) -> None:
        """Say if the checkpoint was taken from a simulation with other variables, which explains the other problems."""
        value = self._config.to_value()["state_variables"]
        if isinstance(origin, Mapping) and origin.get("variables_digest") not in (None, variables_digest(value)):
            what = "the checkpoint was taken from a simulation with other state variables"
            self._problems.insert(0, Problem((ORIGIN, "variables_digest"), what))

    def _wrong(self, path: tuple[str | int, ...], message: str) -> None:
        self._problems.append(Problem(path, message))


# -- SimulationState: the typed view of a simulation's WorldState (docs/reference/simulations.md, "State") ----------


class SimulationState(BaseModel):
    """The state of a simulation at one moment, typed: the truth, or an observation of it.

    - ``turn``: the last turn that was started; 0 before the first one.
    - ``agents``: name -> the agent's variables, an instance of the model that `create_agent_state_model` makes.
    - ``global_state``: the global variables, of the model of `create_global_state_model`.
    - ``reasoning_chains``: empty here. Reasoning is in the log and in its projection, not in the state.
    - ``world_uuid``: the world's, 32 hex digits, if it is known: noise is drawn by it. It is not dumped.
    """

    turn: int = Field(ge=0)
    agents: dict[str, SerializeAsAny[ObjectState]]
    global_state: SerializeAsAny[ObjectState]
    reasoning_chains: list[Any] = Field(default_factory=list)
    world_uuid: str | None = Field(default=None, exclude=True)

    @classmethod
    def of(cls, state: WorldState, *, world_uuid: str | None = None) -> SimulationState:
        """Return the typed view of a simulation's state.

        Raises ValueError for a world without a started simulation, and StateInvalidError (a ValueError) if the log has
        led to values that the variables may not have, which only an import can bring.
        """
        if PLACE not in state.metadata or not words.is_started(state):
            raise ValueError("this is no state of a simulation that has begun")
        models = models_of(state)
        agents = {name: state.entities[name] for name in sorted(state.metadata[PLACE]["agents"])}
        return cls.typed(models, words.turn_of(state), agents, state.entities[GLOBAL], world_uuid=world_uuid)

    @classmethod
    def typed(
        cls,
        models: Models,
        turn: int,
        agents: dict[str, Any],
        global_state: dict[str, Any],
        *,
        world_uuid: str | None = None,
    ) -> SimulationState:
        """Make it from JSON values. Raises StateInvalidError."""
        return cls.model_construct(
            turn=turn,
            agents={name: validate_state(models.agent, entity) for name, entity in agents.items()},
            global_state=validate_state(models.world, global_state),
            reasoning_chains=[],
            world_uuid=world_uuid,
        )

    def to_value(self) -> dict[str, Any]:
        """Return its checkpoint: ``{turn, agents, global_state}``, as JSON values."""
        return {
            "turn": self.turn,
            "agents": {name: dump_state(agent) for name, agent in self.agents.items()},
            "global_state": dump_state(self.global_state),
        }
