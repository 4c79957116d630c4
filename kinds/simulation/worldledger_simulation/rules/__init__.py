"""Turn-based simulations with typed variables, in which each agent sees its own part.

Source: docs/reference/contracts.md, "Variables" and "Observability"; docs/reference/simulations.md.

- ``config.py``, ``sections.py``: the configuration that a researcher writes, and reading it; ``converting.py``: from
  those of llm-sim
- ``words.py``: the kinds of effects, and reading their payloads
- ``handlers.py``: how effects change the state (evolve)
- ``checks.py``, ``models.py``: what is refused before it becomes an effect (decide), by typed models
- ``checkpoint.py``: the typed view of the state, and its file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from types import MappingProxyType
from typing import Any, Final

from worldledger.canonical import canonical_json
from worldledger.effects import EffectDraft, own_draft
from worldledger.errors import InvalidConfigError, Problem
from worldledger.intents import registration_draft
from worldledger.moments import Unit
from worldledger.names import namesakes, taken
from worldledger.observability import MatrixPolicy
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec
from worldledger.rulesets.base import Knowing, Ruleset
from worldledger.rulesets.reading import change_of
from worldledger.world import WorldState
from worldledger_simulation.rules import checks, handlers
from worldledger_simulation.rules.checkpoint import Checkpoint, SimulationState
from worldledger_simulation.rules.checks import CHECKS, PAYLOADS
from worldledger_simulation.rules.config import SimulationConfig, load_config, new_config
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_simulation.rules.words import (
    AGENT_ADDED,
    AGENT_PAUSED,
    AGENT_STATE_CHANGED,
    GLOBAL,
    GLOBAL_STATE_CHANGED,
    PLACE,
    SIMULATION_STARTED,
    TURN,
    TURN_ENDED,
    TURN_STARTED,
    UNOBSERVED,
)

# -- how a simulation begins: its initial values and its agents, as the effects that follow the genesis


#: Most canonical bytes of the agents in SimulationStarted; the others are added by AgentAdded.
_ROOM: Final = 512 * 1024
#: Most canonical bytes of its whole payload: an effect has at most 1 MiB, including the members around its payload.
_WHOLE: Final = 1016 * 1024


def opening_effects(
    config: SimulationConfig, *, world_uuid: str, checkpoint: Mapping[str, Any] | None
) -> Sequence[EffectDraft]:
    """Return SimulationStarted with every initial value, and the registration of each agent.

    Raises InvalidSimulationConfigError for a checkpoint that does not fit the configuration.
    """
    begun: dict[str, Any]
    if checkpoint is None:
        begun = {"turn": 0, "agents": config.initial_agents(), "global_state": config.initial_global()}
    else:
        begun = Checkpoint.read(checkpoint, config).beginning()
        problems = [Problem(("agents", name), taken(name, other)) for name, other in namesakes(begun["agents"])]
        if problems:
            raise InvalidSimulationConfigError(problems)
    drafts = list(_first_values(begun))
    for agent in config.agents:
        if agent.name in begun["agents"]:
            policy = policy_for(agent.name, config).for_world(world_uuid)
            drafts.append(registration_draft(agent.name, policy_spec(policy), agent.permissions, agent.weight))
    return drafts


def _first_values(begun: dict[str, Any]) -> Iterator[EffectDraft]:
    """Return the effects with the initial values: one, or more if one would be too large."""
    agents: dict[str, Any] = begun["agents"]
    room = min(_ROOM, _WHOLE - len(canonical_json({**begun, "agents": {}})))
    sizes = accumulate(len(canonical_json({name: agent})) for name, agent in agents.items())
    first = {name: agent for (name, agent), size in zip(agents.items(), sizes, strict=True) if size <= room}
    paused: dict[str, int | None] = begun.get("paused", {})
    payload = {**begun, "agents": first}
    if paused:
        payload["paused"] = {name: turn for name, turn in paused.items() if name in first}
    yield own_draft(SIMULATION_STARTED, payload)
    for name in [name for name in agents if name not in first]:
        yield own_draft(AGENT_ADDED, {"agent_id": name, "state": agents[name]})
        if name in paused:
            # No turn is open, so the turns of a pause begin with the next one; an agent resumed in that one needs no
            # pause.
            turns = None if paused[name] is None else paused[name] - begun["turn"] - 1
            if turns is None or turns > 0:
                yield own_draft(AGENT_PAUSED, {"agent_id": name, "turns": turns})


def policy_for(agent_id: str, config: SimulationConfig) -> ObservationPolicy:
    """Return an agent's policy: its row of the observability matrix; it sees everything if there is none."""
    if config.observability is None or not config.observability.enabled:
        return ObservationPolicy()
    return MatrixPolicy.of(
        config.observability, agent_id, config.state_variables.agent_vars, config.state_variables.global_vars
    )


__all__ = [
    "RULESET",
    "Checkpoint",
    "InvalidSimulationConfigError",
    "Simulation",
    "SimulationConfig",
    "SimulationState",
    "load_config",
]


class Simulation(Ruleset):
    """Worlds of the ruleset ``simulation``; their configuration is a SimulationConfig."""

    name = "simulation"
    version = 1
    handlers = handlers.HANDLERS
    checks = CHECKS
    stateful = frozenset(CHECKS)
    payloads = PAYLOADS
    unobserved = UNOBSERVED
    digest_after = frozenset({TURN_ENDED})
    records_rejections = True
    judges_by_hidden = True
    units = MappingProxyType({TURN: Unit((SIMULATION_STARTED, TURN_STARTED), TURN)})

    def check_config(self, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the configuration in its normal form. Raises InvalidSimulationConfigError with every problem."""
        try:
            return new_config(SimulationConfig.from_value(config)).to_value()
        except InvalidConfigError as error:
            error.details.setdefault("path", "$.config")
            raise

    def begin(self, state: WorldState, config: Mapping[str, Any]) -> None:
        """Note the configuration's turns and variables."""
        handlers.begin(state, config)

    def opening(
        self, config: Mapping[str, Any], *, world_uuid: str, checkpoint: Mapping[str, Any] | None = None
    ) -> Sequence[EffectDraft]:
        """Return the initial values and the registrations of the agents."""
        read = SimulationConfig.from_value(config)
        try:
            return opening_effects(read, world_uuid=world_uuid, checkpoint=checkpoint)
        except InvalidConfigError as error:
            error.details.setdefault("path", "$.checkpoint")
            raise

    def change(self, path: str, value: Any, state: WorldState) -> EffectDraft:
        """Return the effect that sets a variable: of an agent, or of the simulation (``global/…``)."""
        entity_id, patch = change_of(path, value, state)
        if entity_id == GLOBAL:
            return own_draft(GLOBAL_STATE_CHANGED, {"patch": patch})
        return own_draft(AGENT_STATE_CHANGED, {"agent_id": entity_id, "patch": patch})

    def policy_for(self, agent_id: str, config: Mapping[str, Any]) -> ObservationPolicy | None:
        """Return the agent's row of the observability matrix as its policy."""
        return policy_for(agent_id, SimulationConfig.from_value(config))

    def agent_names(self, state: WorldState) -> Iterable[str]:
        """Return the names of the registered agents and those in the simulation."""
        return chain(super().agent_names(state), state.metadata.get(PLACE, {}).get("agents", ()))

    def check_intent(self, kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
        """Agents change their own variables in an open turn, and record their reasoning; the engine does the rest."""
        checks.check_intent(kind, payload, agent_id, state)

    def as_shown(
        self, kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing
    ) -> dict[str, Any]:
        """Leave out which agents are paused, and the operations on variables that the agent is not shown."""
        return checks.as_shown(kind, payload, agent_id, shown, knowing)


RULESET = Simulation()
