"""How a simulation begins: its initial values and its agents, as the effects that follow the genesis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from worldledger.canonical import canonical_json
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft
from worldledger.errors import Problem
from worldledger.intents import registration_draft
from worldledger.names import namesakes, taken
from worldledger.observability import MatrixPolicy
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec
from worldledger_simulation.rules.checkpoint import Checkpoint
from worldledger_simulation.rules.config import SimulationConfig
from worldledger_simulation.rules.errors import InvalidSimulationConfigError
from worldledger_simulation.rules.words import AGENT_ADDED, AGENT_PAUSED, SIMULATION_STARTED

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
    yield _draft(SIMULATION_STARTED, payload)
    for name in [name for name in agents if name not in first]:
        yield _draft(AGENT_ADDED, {"agent_id": name, "state": agents[name]})
        if name in paused:
            # No turn is open, so the turns of a pause begin with the next one; an agent resumed in that one needs no
            # pause.
            turns = None if paused[name] is None else paused[name] - begun["turn"] - 1
            if turns is None or turns > 0:
                yield _draft(AGENT_PAUSED, {"agent_id": name, "turns": turns})


def _draft(kind: str, payload: dict[str, Any]) -> EffectDraft:
    return {"kind": kind, "payload": payload, "source_id": SERVICE_SOURCE, "schema_version": SCHEMA_VERSION}


def policy_for(agent_id: str, config: SimulationConfig) -> ObservationPolicy:
    """Return an agent's policy: its row of the observability matrix; it sees everything if there is none."""
    if config.observability is None or not config.observability.enabled:
        return ObservationPolicy()
    return MatrixPolicy.of(
        config.observability, agent_id, config.state_variables.agent_vars, config.state_variables.global_vars
    )
