"""How a simulation begins: its first values and its agents, as the effects that follow the genesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.intents import registration_draft
from worldledger.observability import MatrixPolicy
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec
from worldledger.rulesets.simulation.checkpoint import Checkpoint
from worldledger.rulesets.simulation.config import SimulationConfig
from worldledger.rulesets.simulation.words import SIMULATION_STARTED


def opening_effects(
    config: SimulationConfig, *, world_uuid: str, checkpoint: Mapping[str, Any] | None
) -> Sequence[EffectDraft]:
    """Give SimulationStarted with every value of the beginning, and the registration of each agent.

    Raises InvalidSimulationConfigError for a checkpoint that does not fit the configuration.
    """
    payload: dict[str, Any]
    if checkpoint is None:
        payload = {"turn": 0, "agents": config.initial_agents(), "global_state": config.initial_global()}
    else:
        payload = Checkpoint.read(checkpoint, config).beginning()
    drafts: list[EffectDraft] = [
        {
            "kind": SIMULATION_STARTED,
            "payload": payload,
            "source_id": SERVICE_SOURCE,
            "schema_version": SCHEMA_VERSION,
        }
    ]
    for agent in config.agents:
        if agent.name in payload["agents"]:
            policy = policy_for(agent.name, config).for_world(world_uuid)
            drafts.append(registration_draft(agent.name, policy_spec(policy), agent.permissions, agent.weight))
    return drafts


def policy_for(agent_id: str, config: SimulationConfig) -> ObservationPolicy:
    """Give what an agent observes by: its row of the observability matrix; everything where there is none."""
    if config.observability is None or not config.observability.enabled:
        return ObservationPolicy()
    return MatrixPolicy.of(
        config.observability, agent_id, config.state_variables.agent_vars, config.state_variables.global_vars
    )
