"""The handlers of simulations: how each kind of effect changes the state.

Types are not checked here: an invalid value never became an effect, and an effect says exactly what it leads to. So a
log is read the same way however the rules for values change. A handler reads the whole payload before it changes
anything; an entity is replaced, never changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from worldledger.canonical import MAX_INT
from worldledger.effects import Effect
from worldledger.rulesets.base import Handler, Touched
from worldledger.rulesets.reading import UnreadableError, patched, read_name, read_object, read_patch, read_point
from worldledger.world import WorldState
from worldledger_simulation.rules import words
from worldledger_simulation.rules.models import variables_digest
from worldledger_simulation.rules.words import GLOBAL, PLACE, TURN, known_agent


def begin(state: WorldState, config: Mapping[str, Any]) -> None:
    """Note the configuration's turns and variables; the values come with SimulationStarted."""
    given = _member(config, "state_variables")
    variables = {name: _member(given, name) for name in ("agent_vars", "global_vars")}
    state.metadata[TURN] = 0
    state.metadata[PLACE] = {
        "acted": {},
        "actions_per_turn": _most(_member(config, "engine").get("actions_per_turn")),
        "agents": {},
        "max_turns": _most(_member(config, "simulation").get("max_turns")),
        "open": False,
        "variables": variables,
        "variables_digest": variables_digest(variables),
    }


def _member(value: Mapping[str, Any], name: str) -> dict[str, Any]:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _most(value: Any) -> int | None:
    """Return a limit, None for an invalid one: the genesis of an imported world may say anything."""
    return value if type(value) is int and 1 <= value <= MAX_INT else None


def start(state: WorldState, effect: Effect) -> Touched:
    """SimulationStarted: add the agents and the global variables."""
    if words.is_started(state):
        raise UnreadableError("the simulation has begun before", "$.kind", "already_started")
    beginning = words.read_beginning(effect["payload"])
    state.metadata[TURN] = beginning.turn
    for name, entity in beginning.agents.items():
        _put(state, name, entity)
        _know(state, name)
    for name, resume_turn in beginning.paused.items():
        state.metadata[PLACE]["agents"][name] = {"paused": True, "resume_turn": resume_turn}
    _put(state, GLOBAL, beginning.global_state)
    return tuple(state.entities)


# -- turns ---------------------------------------------------------------------------------------------------


def start_turn(state: WorldState, effect: Effect) -> Touched:
    """TurnStarted: open a turn, without actions so far; agents whose pause is over act again.

    Every entity counts as touched: what agents see of it has the turn's noise.
    """
    turn = words.read_turn(effect["payload"])
    words.must_have_begun(state)
    if turn <= words.turn_of(state):
        raise UnreadableError("turns follow one another", "$.payload.turn", "turn_order")
    simulation = state.metadata[PLACE]
    state.metadata[TURN] = turn
    simulation["open"] = True
    simulation["acted"] = {}
    for name, known in simulation["agents"].items():
        if known["resume_turn"] is not None and known["resume_turn"] <= turn:
            _know(state, name)
    return tuple(state.entities)


def end_turn(state: WorldState, effect: Effect) -> Touched:
    """TurnEnded: close the turn."""
    if words.read_turn(effect["payload"]) != words.turn_of(state) or not state.metadata[PLACE]["open"]:
        raise UnreadableError("that is not the open turn", "$.payload.turn", "turn_order")
    state.metadata[PLACE]["open"] = False
    return ()


# -- values --------------------------------------------------------------------------------------------------


def change_agent(state: WorldState, effect: Effect) -> Touched:
    """AgentStateChanged: apply the patch to an agent's variables."""
    payload, source_id = effect["payload"], effect["source_id"]
    agent_id = words.read_agent(payload, source_id)
    known_agent(state, agent_id)
    entity = patched(state.entities[agent_id], read_patch(payload))
    if entity.get("name") != agent_id:
        raise UnreadableError("an agent keeps its name", "$.payload.patch", "name")
    _put(state, agent_id, entity)
    if source_id == agent_id:
        acted = state.metadata[PLACE]["acted"]
        acted[agent_id] = acted.get(agent_id, 0) + 1
    return agent_id


def change_global(state: WorldState, effect: Effect) -> Touched:
    """GlobalStateChanged: apply the patch to the global variables."""
    words.must_have_begun(state)
    _put(state, GLOBAL, patched(state.entities[GLOBAL], read_patch(effect["payload"])))
    return GLOBAL


def record_reasoning(state: WorldState, effect: Effect) -> Touched:
    """ReasoningRecorded: leave the state as it is; the log and a projection keep the reasoning."""
    words.read_reasoning(effect["payload"])
    known_agent(state, words.read_agent(effect["payload"], effect["source_id"]))
    return ()


# -- agents --------------------------------------------------------------------------------------------------


def add_agent(state: WorldState, effect: Effect) -> Touched:
    """AgentAdded: add an agent."""
    payload = effect["payload"]
    name, entity = read_name(payload, "agent_id"), read_object(payload, "state")
    words.must_have_begun(state)
    if name in state.entities:
        raise UnreadableError(f"there is {name!r} already", "$.payload.agent_id", "agent_exists")
    if entity.get("name") != name:
        raise UnreadableError("the state has the agent's name", "$.payload.state", "name")
    _put(state, name, entity)
    _know(state, name)
    return name


def remove_agent(state: WorldState, effect: Effect) -> Touched:
    """AgentRemoved: remove an agent and its variables."""
    name = read_name(effect["payload"], "agent_id")
    known_agent(state, name)
    simulation = state.metadata[PLACE]
    del state.entities[name], simulation["agents"][name]
    state.spatial_index.pop(name, None)
    simulation["acted"].pop(name, None)
    return name


def pause_agent(state: WorldState, effect: Effect) -> Touched:
    """AgentPaused: keep an agent from acting until it is resumed or the given number of turns has passed.

    The turns are the open one and those that follow it, or the next ones if none is open.
    """
    payload = effect["payload"]
    name, turns = read_name(payload, "agent_id"), words.read_pause(payload)
    known_agent(state, name)
    simulation = state.metadata[PLACE]
    resume_turn = None
    if turns is not None:
        first = words.turn_of(state) + (not simulation["open"])
        resume_turn = min(first + turns, MAX_INT)
    simulation["agents"][name] = {"paused": True, "resume_turn": resume_turn}
    return ()


def resume_agent(state: WorldState, effect: Effect) -> Touched:
    """AgentResumed: let a paused agent act again."""
    name = read_name(effect["payload"], "agent_id")
    known_agent(state, name)
    _know(state, name)
    return ()


def _know(state: WorldState, name: str) -> None:
    state.metadata[PLACE]["agents"][name] = {"paused": False, "resume_turn": None}


def _put(state: WorldState, entity_id: str, entity: dict[str, Any]) -> None:
    """Set an entity, and its place if it has a variable ``position`` of 2 or 3 numbers."""
    state.entities[entity_id] = entity
    try:
        state.spatial_index[entity_id] = read_point(entity.get("position"), "")
    except UnreadableError:
        state.spatial_index.pop(entity_id, None)


HANDLERS: Final[Mapping[str, Handler]] = {
    words.SIMULATION_STARTED: start,
    words.TURN_STARTED: start_turn,
    words.TURN_ENDED: end_turn,
    words.AGENT_STATE_CHANGED: change_agent,
    words.GLOBAL_STATE_CHANGED: change_global,
    words.REASONING_RECORDED: record_reasoning,
    words.AGENT_ADDED: add_agent,
    words.AGENT_REMOVED: remove_agent,
    words.AGENT_PAUSED: pause_agent,
    words.AGENT_RESUMED: resume_agent,
}
