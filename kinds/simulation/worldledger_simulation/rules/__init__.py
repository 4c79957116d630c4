"""Turn-based simulations with typed variables, in which each agent sees its own part.

Source: docs/reference/contracts.md, "Variables" and "Observability"; docs/reference/simulations.md.

- ``config.py``, ``configuring``: the configuration that a researcher writes, and reading it
- ``words.py``: the kinds of effects, and reading their payloads
- ``handlers.py``: how effects change the state (evolve)
- ``checks.py``, ``models.py``: what is refused before it becomes an effect (decide), by typed models
- ``checkpoint.py``: the typed view of the state, and its file
- ``opening.py``: how a simulation begins
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

from worldledger.effects import EffectDraft, own_draft
from worldledger.errors import InvalidConfigError
from worldledger.moments import Unit
from worldledger.observation import ObservationPolicy
from worldledger.rulesets.base import Knowing, Ruleset
from worldledger.rulesets.reading import change_of
from worldledger.world import WorldState
from worldledger_simulation.rules import checks, handlers
from worldledger_simulation.rules.checkpoint import Checkpoint, SimulationState
from worldledger_simulation.rules.checks import CHECKS
from worldledger_simulation.rules.config import SimulationConfig, load_config, new_config
from worldledger_simulation.rules.errors import InvalidSimulationConfigError
from worldledger_simulation.rules.opening import opening_effects, policy_for
from worldledger_simulation.rules.words import (
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
