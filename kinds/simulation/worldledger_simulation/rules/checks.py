"""The checks of simulations: what is refused before it becomes an effect, by the name of the rule.

- ``payload``: the payload cannot be read; the path names the value
- ``already_started``, ``not_started``: a simulation begins once
- ``turn_order``, ``turn_open``, ``turn_closed``, ``max_turns``: turns follow one another, each is ended before the next
- ``unknown_agent``, ``agent_exists``, ``name``: agents and their names
- ``patch``: the patch fails
- ``variables``: a value that its variable may not have; the message has its dot path
- ``not_for_agents``, ``not_yours``, ``paused``, ``turn_closed``, ``other_turn``,
  ``actions_per_turn``: intents (`check_intent`)

Values are converted to the types of their variables as the models do (a text "3.5" for a float, see
docs/reference/simulations.md); if that makes a difference, the patch is rewritten before it is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from collections.abc import Set as AbstractSet
from operator import itemgetter
from typing import Any, Final

from worldledger.drafts import CheckedDraft
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import IllegalEffectError, dotted, worded
from worldledger.names import namesake, taken
from worldledger.patches import diff
from worldledger.rulesets.base import Check, Knowing
from worldledger.rulesets.payloads import COUNT, NAME, OBJECT, PATCH, Schema, payload, says
from worldledger.rulesets.reading import (
    MAX_ENTITY,
    UnreadableError,
    patched,
    read_name,
    read_object,
    read_patch,
    refusing,
)
from worldledger.variables import ObjectState, StateInvalidError, dump_state, validate_state
from worldledger.world import WorldState, state_text
from worldledger_simulation.rules import words
from worldledger_simulation.rules.models import defaults_of, models_of, variables_digest
from worldledger_simulation.rules.words import GLOBAL, PLACE, known_agent, must_have_begun

#: Checks a payload by the state that it would follow; returns the payload to write, None for the same.
_Look = Callable[[dict[str, Any], str, WorldState], dict[str, Any] | None]


def exact(model: type[ObjectState], value: Any, where: tuple[str, ...]) -> dict[str, Any]:
    """Return the values of variables exactly as their types have them, as they are stored.

    ``where`` is the prefix of the dot paths of problems. Raises IllegalEffectError, rule ``variables``.
    """
    try:
        return dump_state(validate_state(model, value))
    except StateInvalidError as error:
        paths = [((*where, *path), message) for path, message in error.problems]
        problems = [{"path": dotted(path), "message": worded(path, message)} for path, message in paths]
        # By path: equal definitions share models, in whatever order, and refusals are stored in the log.
        problems.sort(key=itemgetter("path"))
        told = "; ".join(f"{problem['path']}: {problem['message']}" for problem in problems)
        raise IllegalEffectError(told, "$.payload", rule="variables", problems=problems) from None


# -- each kind -----------------------------------------------------------------------------------------------


def _start(payload: dict[str, Any], _: str, state: WorldState) -> dict[str, Any]:
    if words.is_started(state):
        raise UnreadableError("the simulation has begun before", "$.kind", "already_started")
    beginning = words.read_beginning(payload)
    models = models_of(state)
    agents = {name: exact(models.agent, entity, ("agents", name)) for name, entity in beginning.agents.items()}
    return {**payload, "agents": agents, "global_state": exact(models.world, beginning.global_state, ("global_state",))}


def _start_turn(payload: dict[str, Any], _: str, state: WorldState) -> dict[str, Any]:
    must_have_begun(state)
    simulation, last = state.metadata[PLACE], words.turn_of(state)
    if simulation["open"]:
        raise UnreadableError(f"turn {last} is not ended", "$.payload.turn", "turn_open")
    turn = last + 1 if payload.get("turn") is None else words.read_turn(payload)
    if turn != last + 1:
        raise UnreadableError(f"after turn {last} comes turn {last + 1}, not {turn}", "$.payload.turn", "turn_order")
    most = simulation["max_turns"]
    if most is not None and turn > most:
        raise UnreadableError(f"the simulation has {most} turns", "$.payload.turn", "max_turns")
    return {**payload, "turn": turn}


def _end_turn(payload: dict[str, Any], _: str, state: WorldState) -> dict[str, Any]:
    turn = words.turn_of(state)
    if not state.metadata[PLACE]["open"]:
        raise UnreadableError("no turn is open", "$.payload.turn", "turn_closed")
    said = turn if payload.get("turn") is None else words.read_turn(payload)
    if said != turn:
        raise UnreadableError(f"the open turn is {turn}, not {said}", "$.payload.turn", "turn_order")
    return {**payload, "turn": turn}


def _change_agent(payload: dict[str, Any], source_id: str, state: WorldState) -> dict[str, Any] | None:
    agent_id = words.read_agent(payload, source_id)
    known_agent(state, agent_id)
    before = state.entities[agent_id]
    after = patched(before, read_patch(payload))
    if after.get("name") != agent_id:
        raise UnreadableError("an agent keeps its name", "$.payload.patch", "name")
    return _rewritten(payload, before, after, exact(models_of(state).agent, after, ("agents", agent_id)))


def _change_global(payload: dict[str, Any], _: str, state: WorldState) -> dict[str, Any] | None:
    must_have_begun(state)
    before = state.entities[GLOBAL]
    after = patched(before, read_patch(payload))
    return _rewritten(payload, before, after, exact(models_of(state).world, after, ("global_state",)))


def _rewritten(payload: dict[str, Any], before: Any, after: Any, right: dict[str, Any]) -> dict[str, Any] | None:
    """Return the payload whose patch leads to values of the exact types; None if this one does."""
    text = state_text(right)
    if state_text(after) == text:
        return None
    patch = diff(before, right)
    if len(text) > MAX_ENTITY // 2:  # values of the exact types may take more space
        patched(before, patch)
    return {**payload, "patch": patch}


def _record_reasoning(payload: dict[str, Any], source_id: str, state: WorldState) -> None:
    words.read_reasoning(payload)
    known_agent(state, words.read_agent(payload, source_id))


def _add_agent(payload: dict[str, Any], _: str, state: WorldState) -> dict[str, Any]:
    must_have_begun(state)
    name = read_name(payload, "agent_id")
    if name == SERVICE_SOURCE:
        raise UnreadableError(f"{name!r} is the service's own source_id", "$.payload.agent_id", "name")
    if name in state.entities:
        raise UnreadableError(f"there is {name!r} already", "$.payload.agent_id", "agent_exists")
    other = namesake(name, (*state.metadata[PLACE]["agents"], *state.metadata["agents"]))
    if other is not None:
        raise UnreadableError(taken(name, other), "$.payload.agent_id", "agent_exists")
    given = {} if payload.get("state") is None else read_object(payload, "state")
    if given.get("name", name) != name:
        raise UnreadableError("the state has another name than agent_id", "$.payload.state", "name")
    models = models_of(state)
    entity = exact(models.agent, {**defaults_of(models.agent_vars), **given, "name": name}, ("agents", name))
    return {**payload, "state": entity}


def _about_agent(payload: dict[str, Any], _: str, state: WorldState) -> None:
    known_agent(state, read_name(payload, "agent_id"))


def _pause_agent(payload: dict[str, Any], _: str, state: WorldState) -> None:
    known_agent(state, read_name(payload, "agent_id"))
    words.read_pause(payload)


def _check(look: _Look) -> Check:
    def see(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> dict[str, Any] | None:
        if state is None:
            raise ValueError(f"{draft.kind} is judged by the state")
        return look(payload, draft.source_id, state)

    return refusing(see)


CHECKS: Final[Mapping[str, Check]] = {
    words.SIMULATION_STARTED: _check(_start),
    words.TURN_STARTED: _check(_start_turn),
    words.TURN_ENDED: _check(_end_turn),
    words.AGENT_STATE_CHANGED: _check(_change_agent),
    words.GLOBAL_STATE_CHANGED: _check(_change_global),
    words.REASONING_RECORDED: _check(_record_reasoning),
    words.AGENT_ADDED: _check(_add_agent),
    words.AGENT_REMOVED: _check(_about_agent),
    words.AGENT_PAUSED: _check(_pause_agent),
    words.AGENT_RESUMED: _check(_about_agent),
}


_ABOUT: Final[Mapping[str, Schema]] = {"agent_id": says(NAME, "The agent.")}
_ITS_OWN: Final[Mapping[str, Schema]] = {"agent_id": says(NAME, "The agent; the source, if left out.")}
_TURN: Final[Mapping[str, Schema]] = {"turn": says(COUNT, "Its number, which is filled in if it is left out.")}
PAYLOADS: Final[Mapping[str, Schema]] = {
    words.SIMULATION_STARTED: payload(
        "The simulation begins.",
        {
            "turn": says(COUNT, "After which turn."),
            "agents": says(OBJECT, "Each agent's variables, by name."),
            "global_state": says(OBJECT, "The global variables."),
        },
        {"paused": says(OBJECT, "Paused agents, with the turn in which each resumes.")},
    ),
    words.TURN_STARTED: payload("The next turn begins.", {}, _TURN),
    words.TURN_ENDED: payload("The open turn ends.", {}, _TURN),
    words.AGENT_STATE_CHANGED: payload(
        "An agent's variables change.", {"patch": says(PATCH, "A JSON Patch on its variables.")}, _ITS_OWN
    ),
    words.GLOBAL_STATE_CHANGED: payload(
        "Global variables change.", {"patch": says(PATCH, "A JSON Patch on the global variables.")}
    ),
    words.REASONING_RECORDED: payload(
        "What an agent has thought.",
        {"reasoning": {"type": ["string", "object", "array"]}},
        {**_ITS_OWN, "model": says(NAME, "The model that thought it."), "token_count": COUNT},
    ),
    words.AGENT_ADDED: payload(
        "Another agent joins.", {"agent_id": NAME}, {"state": says(OBJECT, "Variables that differ from the defaults.")}
    ),
    words.AGENT_REMOVED: payload("An agent leaves.", _ABOUT),
    words.AGENT_PAUSED: payload(
        "An agent pauses.",
        _ABOUT,
        {"turns": says({**COUNT, "minimum": 1}, "For so many; until resumed, if left out.")},
    ),
    words.AGENT_RESUMED: payload("A paused agent goes on.", _ABOUT),
}


# -- intents -------------------------------------------------------------------------------------------------


def check_intent(kind: str, payload: Mapping[str, Any], agent_id: str, state: WorldState) -> None:
    """Check an agent's intent: to change its own variables in an open turn, or to record its reasoning.

    Turns, global variables and the set of agents are up to the engine, by drafts of effects.
    """
    if kind not in CHECKS:
        return
    if kind not in (words.AGENT_STATE_CHANGED, words.REASONING_RECORDED):
        what = f"an agent changes its own variables and records its reasoning; {kind} is the engine's to say"
        raise IllegalEffectError(what, "$.payload.kind", rule="not_for_agents")
    try:
        known = known_agent(state, agent_id, "$.agent_id")
    except UnreadableError as error:
        raise IllegalEffectError(error.reason, error.path, rule=error.rule) from None
    if payload.get("agent_id") not in (None, agent_id):
        what = f"this intent is {agent_id!r}'s, and speaks of another agent"
        raise IllegalEffectError(what, "$.payload.agent_id", rule="not_yours")
    simulation, turn = state.metadata[PLACE], words.turn_of(state)
    if payload.get("turn") is not None and (type(payload["turn"]) is not int or payload["turn"] != turn):
        what = f"this intent is meant for another turn than the present one, {turn}"
        raise IllegalEffectError(what, "$.payload.turn", rule="other_turn")
    if kind != words.AGENT_STATE_CHANGED:
        return
    _check_operations(payload)
    if known["paused"]:
        resume_turn = known["resume_turn"]
        until = "until it is resumed" if resume_turn is None else f"until turn {resume_turn}"
        raise IllegalEffectError(f"{agent_id!r} is paused {until}", "$.agent_id", rule="paused")
    if not simulation["open"]:
        raise IllegalEffectError(
            f"no turn is open: turn {turn} is over" if turn else "no turn was started", "$.kind", rule="turn_closed"
        )
    most = simulation["actions_per_turn"]
    if most is not None and simulation["acted"].get(agent_id, 0) >= most:
        what = f"{agent_id!r} has acted in turn {turn} as often as it may, which is {most}"
        raise IllegalEffectError(what, "$.agent_id", rule="actions_per_turn")


def _check_operations(payload: Mapping[str, Any]) -> None:
    """Refuse operations that could reveal a variable of the agent's own that it does not see exactly."""
    operations = payload.get("patch")
    for index, operation in enumerate(operations if isinstance(operations, list) else ()):
        name = operation.get("op") if isinstance(operation, dict) else None
        if name in ("test", "copy", "move"):
            what = f"an agent's patch adds, removes and replaces; {name} looks at what the agent may not see"
            raise IllegalEffectError(what, f"$.payload.patch[{index}].op", rule="patch")


# -- judging by what an agent is shown -------------------------------------------------------------------------------


def as_shown(kind: str, payload: dict[str, Any], agent_id: str, shown: WorldState, knowing: Knowing) -> dict[str, Any]:
    """Return the payload of an agent's intent as far as it can be judged by what the agent is shown.

    ``shown`` is reduced to this agent and, of its variables, to those that the intent changes and the agent is shown
    everywhere: the others do not matter. No agent is shown that it is paused. An operation on a hidden variable is
    replaced by one that changes nothing.
    """
    place = shown.metadata.get(PLACE)
    if place is None:
        return payload
    gone = agent_id not in shown.entities and knowing.is_absent(agent_id)
    known = {} if gone else {agent_id: {"paused": False, "resume_turn": None}}
    place = shown.metadata[PLACE] = {**place, "agents": known}
    operations = payload.get("patch")
    if kind != words.AGENT_STATE_CHANGED or not isinstance(operations, list):
        return payload
    own = shown.entities.get(agent_id, {})
    defined: dict[str, Any] = place["variables"]["agent_vars"]
    hidden = defined.keys() - own.keys()
    seen = [_without(operation, hidden) for operation in operations]
    changed = {name for operation in seen for name in _named(operation, own)} & defined.keys()
    variables = {"agent_vars": {name: each for name, each in defined.items() if name in changed}, "global_vars": {}}
    place["variables"] = variables
    place["variables_digest"] = variables_digest(variables)
    shown.entities[agent_id] = {**{name: own[name] for name in changed}, "name": agent_id}
    if any("name" in _named(operation, own) for operation in seen):
        return {**payload, "patch": [operation for operation in seen if operation is not None]}
    nothing = {"op": "replace", "path": "/name", "value": agent_id}
    return {**payload, "patch": [nothing if operation is None else operation for operation in seen]}


def _without(operation: Any, hidden: AbstractSet[str]) -> Any:
    """Return an operation without its references to hidden variables; None if nothing remains."""
    path = operation.get("path") if isinstance(operation, dict) else None
    if not isinstance(path, str):
        return operation
    if not path and isinstance(value := operation.get("value"), dict):
        return {**operation, "value": {name: item for name, item in value.items() if name not in hidden}}
    return None if path and _variable(path) in hidden else operation


def _named(operation: Any, own: Mapping[str, Any]) -> Collection[str]:
    """Return the names of the members that an operation may change."""
    path = operation.get("path") if isinstance(operation, dict) else None
    if not isinstance(path, str):
        return ()
    return (_variable(path),) if path else {*own, "name"}


def _variable(path: str) -> str:
    return path.split("/")[1].replace("~1", "/").replace("~0", "~") if path.startswith("/") else path
