"""SimulationState: the typed view of a simulation's WorldState, and its checkpoint.

Source: docs/reference/simulations.md, "State" and "Checkpoints".
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field, SerializeAsAny

from worldledger.variables import ObjectState, dump_state, validate_state
from worldledger.world import WorldState
from worldledger_simulation.rules import words
from worldledger_simulation.rules.models import Models, models_of
from worldledger_simulation.rules.words import GLOBAL, PLACE


class SimulationState(BaseModel):
    """What a simulation is at one moment, typed: ground truth, or what somebody observes of it.

    - ``turn``: the last turn that was started; 0 before the first.
    - ``agents``: name -> the agent's variables, an instance of the model that `create_agent_state_model` makes.
    - ``global_state``: the global variables, of the model of `create_global_state_model`.
    - ``reasoning_chains``: empty here. Reasoning is in the log and in its projection, not in the state.
    - ``world_uuid``: of the world, 32 hex digits, where it is known: noise is drawn by it. It is not dumped.
    """

    turn: int = Field(ge=0)
    agents: dict[str, SerializeAsAny[ObjectState]]
    global_state: SerializeAsAny[ObjectState]
    reasoning_chains: list[Any] = Field(default_factory=list)
    world_uuid: str | None = Field(default=None, exclude=True)

    @classmethod
    def of(cls, state: WorldState, *, world_uuid: str | None = None) -> SimulationState:
        """Return the typed view of a simulation's state.

        Raises ValueError for a world that is no simulation that has begun, and StateInvalidError (a ValueError) where
        the log has led to values that the variables may not have, which only an import can bring.
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
        """Make it of JSON values. Raises StateInvalidError."""
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
