"""The vocabulary of simulations: its kinds, the places of things in the state, and reading payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeGuard

from worldledger.canonical import MAX_INT, child
from worldledger.rulesets.reading import UnreadableError, read_name, read_object
from worldledger.world import WorldState

#: The entity that has the global variables, and the target of that name in an observability matrix. No agent can have
#: this name.
GLOBAL: Final = "global"
#: The members of the state's metadata with the simulation, and with the number of its turn.
PLACE: Final = "simulation"
TURN: Final = "turn"

SIMULATION_STARTED: Final = "SimulationStarted"
TURN_STARTED: Final = "TurnStarted"
TURN_ENDED: Final = "TurnEnded"
AGENT_STATE_CHANGED: Final = "AgentStateChanged"
GLOBAL_STATE_CHANGED: Final = "GlobalStateChanged"
REASONING_RECORDED: Final = "ReasoningRecorded"
AGENT_ADDED: Final = "AgentAdded"
AGENT_REMOVED: Final = "AgentRemoved"
AGENT_PAUSED: Final = "AgentPaused"
AGENT_RESUMED: Final = "AgentResumed"

#: The kinds that a view's patches tell, and those that only the log has: paused agents, and the reasoning.
UNOBSERVED: Final = frozenset(
    {
        SIMULATION_STARTED,
        AGENT_STATE_CHANGED,
        GLOBAL_STATE_CHANGED,
        REASONING_RECORDED,
        AGENT_ADDED,
        AGENT_REMOVED,
        AGENT_PAUSED,
        AGENT_RESUMED,
    }
)


class Beginning(NamedTuple):
    """The beginning of a simulation: after which turn, each agent's variables, the global ones, and the paused agents.

    ``paused`` has the turn in which each paused agent resumes, None if it waits to be resumed.
    """

    turn: int
    agents: dict[str, dict[str, Any]]
    global_state: dict[str, Any]
    paused: dict[str, int | None]


def read_beginning(payload: Mapping[str, Any]) -> Beginning:
    """Read SimulationStarted ``{turn, agents, global_state, paused?}``."""
    agents = read_object(payload, "agents")
    for name, entity in agents.items():
        if type(entity) is not dict or entity.get("name") != name or not name or name == GLOBAL:
            what = "each agent is an object with its name"
            raise UnreadableError(what, child("$.payload.agents", name))
    paused = {} if payload.get("paused") is None else read_object(payload, "paused")
    for name, turn in paused.items():
        if name not in agents or not (turn is None or _is_turn(turn)):
            raise UnreadableError(
                "paused has agents and the turns that they resume in", child("$.payload.paused", name)
            )
    return Beginning(read_turn(payload), agents, read_object(payload, "global_state"), paused)


def read_turn(payload: Mapping[str, Any]) -> int:
    """Read the number of a turn."""
    value = payload.get("turn")
    if _is_turn(value):
        return value
    raise UnreadableError("turn is a whole number from 0 on", "$.payload.turn")


def read_agent(payload: Mapping[str, Any], source_id: str) -> str:
    """Read an agent's name: ``agent_id``, or the source if that is left out."""
    return source_id if payload.get("agent_id") is None else read_name(payload, "agent_id")


def read_pause(payload: Mapping[str, Any]) -> int | None:
    """Read the number of turns of AgentPaused ``{agent_id, turns?}``; None: until AgentResumed."""
    turns = payload.get("turns")
    if turns is None or (_is_turn(turns) and turns > 0):
        return turns
    raise UnreadableError("turns is a whole number from 1 on", "$.payload.turns")


def read_reasoning(payload: Mapping[str, Any]) -> Any:
    """Read ReasoningRecorded ``{agent_id?, reasoning, model?, token_count?}``; return the reasoning."""
    reasoning = payload.get("reasoning")
    if not isinstance(reasoning, str | dict | list):
        raise UnreadableError("reasoning is a text, an object or a list", "$.payload.reasoning")
    if payload.get("model") is not None:
        read_name(payload, "model")
    count = payload.get("token_count")
    if count is not None and (type(count) is not int or count < 0):
        raise UnreadableError("token_count is a whole number from 0 on", "$.payload.token_count")
    return reasoning


# -- reading the state -----------------------------------------------------------------------------------------


def turn_of(state: WorldState) -> int:
    """Return the number of the last turn that was started; 0 before the first one."""
    turn: int = state.metadata[TURN]
    return turn


def is_started(state: WorldState) -> bool:
    """Return whether the simulation has begun."""
    return GLOBAL in state.entities


def must_have_begun(state: WorldState) -> None:
    """Raise UnreadableError, rule ``not_started``, unless the simulation has begun."""
    if not is_started(state):
        raise UnreadableError("the simulation has not begun", "$.kind", "not_started")


def known_agent(state: WorldState, agent_id: str, path: str = "$.payload.agent_id") -> dict[str, Any]:
    """Return the state's entry for an agent besides its variables. Raises UnreadableError, rule ``unknown_agent``."""
    known: dict[str, dict[str, Any]] = state.metadata[PLACE]["agents"]
    if agent_id not in known:
        raise UnreadableError(f"there is no agent {agent_id!r} in the simulation", path, "unknown_agent")
    return known[agent_id]


def _is_turn(value: Any) -> TypeGuard[int]:
    return type(value) is int and 0 <= value <= MAX_INT
