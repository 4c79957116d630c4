"""Simulations for the tests of what follows them: drafts, random logs, and their values turn by turn."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from worldledger_simulation.rules import RULESET

from tests.projections.playing import effects_of
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState, state_text

Draft = dict[str, Any]
#: By agent (or global) and keys: the canonical text of a leaf.
Values = dict[tuple[str, tuple[str | int, ...]], str]


# -- drafts --------------------------------------------------------------------------------------------------


def started(agents: dict[str, Any] | None = None, world: dict[str, Any] | None = None, turn: int = 0) -> Draft:
    """Draft: the simulation begins; each agent by its name, with its variables."""
    named = {name: {"name": name, **values} for name, values in (agents or {}).items()}
    return {
        "kind": "SimulationStarted",
        "payload": {"turn": turn, "agents": named, "global_state": world or {}},
        "source_id": "worldledger",
    }


def turn_started(turn: int) -> Draft:
    """Draft: a turn begins."""
    return {"kind": "TurnStarted", "payload": {"turn": turn}, "source_id": "engine"}


def turn_ended(turn: int) -> Draft:
    """Draft: a turn is over."""
    return {"kind": "TurnEnded", "payload": {"turn": turn}, "source_id": "engine"}


def changed(agent: str, *operations: dict[str, Any], **values: Any) -> Draft:
    """Draft: an agent's variables change, by operations or to values."""
    return {"kind": "AgentStateChanged", "payload": {"patch": _patch(operations, values)}, "source_id": agent}


def world_changed(*operations: dict[str, Any], **values: Any) -> Draft:
    """Draft: global variables change, by operations or to values."""
    return {"kind": "GlobalStateChanged", "payload": {"patch": _patch(operations, values)}, "source_id": "engine"}


def added(agent: str, **values: Any) -> Draft:
    """Draft: an agent comes."""
    return {
        "kind": "AgentAdded",
        "payload": {"agent_id": agent, "state": {"name": agent, **values}},
        "source_id": "engine",
    }


def removed(agent: str) -> Draft:
    """Draft: an agent goes."""
    return {"kind": "AgentRemoved", "payload": {"agent_id": agent}, "source_id": "engine"}


def reasoned(agent: str, reasoning: Any, **more: Any) -> Draft:
    """Draft: an agent says why."""
    return {"kind": "ReasoningRecorded", "payload": {"reasoning": reasoning, **more}, "source_id": agent}


def _patch(operations: Sequence[dict[str, Any]], values: dict[str, Any]) -> list[dict[str, Any]]:
    return [*operations, *({"op": "add", "path": f"/{name}", "value": value} for name, value in values.items())]


def simulation(*drafts: Draft, world_id: str = "w") -> list[Effect]:
    """Return the log of a simulation."""
    return effects_of(drafts, world_id=world_id, ruleset="simulation")


# -- random ones ---------------------------------------------------------------------------------------------

AGENTS = ["Ann", "Bob", "Čeněk the 3rd"]
_SCALARS = st.sampled_from([0, 1, 1.0, 2.5, -3, True, False, None, "", "a", "žluť"])
_KEYS = st.sampled_from(["food", "0", "a.b", "b", "Agriculture Town", 'say "hi"', "[0]", ""])
VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_VARIABLES = st.sampled_from(["gold", "inventory", "history", "agents"])
_ENTITIES = st.dictionaries(_VARIABLES, VALUES, max_size=3)
_PLACES = st.builds(
    lambda variable, rest: "/" + "/".join([variable, *rest]),
    _VARIABLES,
    st.lists(st.sampled_from(["food", "0", "1", "-", "b", "a.b"]), max_size=2),
)
_OPERATIONS = st.one_of(
    st.builds(lambda place, value: {"op": "add", "path": place, "value": value}, _PLACES, VALUES),
    st.builds(lambda name, value: {"op": "add", "path": f"/{name}", "value": value}, _VARIABLES, VALUES),
    st.builds(lambda place: {"op": "remove", "path": place}, _PLACES),
)
_AGENTS = st.sampled_from(AGENTS)
#: What happens in turns; not all of it counts. None is the next turn.
_HAPPENINGS = st.one_of(
    st.none(),
    st.builds(lambda agent, operations: changed(agent, *operations), _AGENTS, st.lists(_OPERATIONS, max_size=2)),
    st.builds(lambda operations: world_changed(*operations), st.lists(_OPERATIONS, max_size=2)),
    st.builds(lambda agent, values: added(agent, **values), _AGENTS, _ENTITIES),
    st.builds(removed, _AGENTS),
    st.builds(reasoned, _AGENTS, VALUES),
    st.integers(0, 5).map(turn_ended),
    st.integers(0, 5).map(turn_started),
    st.just({"kind": "Shrug"}),
)


@st.composite
def simulation_logs(draw: st.DrawFn) -> list[Effect]:
    """Draw the log of a simulation in which turns follow one another, mostly without gaps, and much happens."""
    early = draw(st.lists(_HAPPENINGS, max_size=1))
    begin = started(draw(st.dictionaries(_AGENTS, _ENTITIES, max_size=3)), draw(_ENTITIES), draw(st.integers(0, 2)))
    log = simulation(*(draft or turn_started(1) for draft in early), begin)
    drafts = [{name: effect[name] for name in ("kind", "payload", "source_id")} for effect in log[1:]]
    turn = log[-1]["payload"]["turn"]
    for happening in draw(st.lists(_HAPPENINGS, max_size=25)):
        if happening is None:
            turn += draw(st.sampled_from([1, 1, 1, 3]))
            drafts += draw(st.sampled_from([[], [turn_ended(turn - 1)]]))
            drafts.append(turn_started(turn))
            continue
        if happening["kind"] == "TurnStarted":
            turn = max(turn, happening["payload"]["turn"])
        drafts.append(happening)
    return simulation(*drafts)


# -- what is meant -------------------------------------------------------------------------------------------


def values_by_turn(log: Sequence[Effect]) -> dict[int, Values]:
    """Return the values at the end of each turn, and of the present one, by folding the log: all of them each time."""
    return {turn: values for _, turn, values in _moments(log)}


def last_changes(log: Sequence[Effect]) -> dict[tuple[int, str, str], int]:
    """Return the last effect of each turn that changed an agent's value, by turn, agent and path."""
    found: dict[tuple[int, str, str], int] = {}
    before: Values = {}
    for seq, turn, values in _moments(log):
        for agent, keys in values.keys() | before.keys():
            if values.get((agent, keys)) != before.get((agent, keys)):
                found[turn, agent, written(keys)] = seq
        before = values
    return found


def _moments(log: Sequence[Effect]) -> Iterator[tuple[int, int, Values]]:
    """Return the seq, the turn and the values after each effect from the simulation's beginning on."""
    folded = Fold(log[0]["world_id"], RULESET)
    for effect in log:
        folded.apply(effect)
        state = folded.state
        if "global" in state.entities:
            yield effect["global_seq"], state.metadata["turn"], values_of(state)


def values_of(state: WorldState) -> Values:
    """Return the values of a state."""
    return {
        (name, keys): state_text(leaf).decode()
        for name, entity in state.entities.items()
        for keys, leaf in _leaves((), entity)
        if keys != ("name",) or name == "global"
    }


def _leaves(keys: tuple[str | int, ...], value: Any) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    if not keys or (isinstance(value, dict | list) and value):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves((*keys, key), item)
    else:
        yield keys, value


def written(keys: Sequence[str | int]) -> str:
    """Write a path, by the rule as docs/reference/projections.md has it."""
    text = ""
    for place, key in enumerate(keys):
        if isinstance(key, int):
            text += f"[{key}]"
        elif not key or set(key) & set('.[]"'):
            text += f"[{json.dumps(key, ensure_ascii=False)}]"
        elif place == 1 and keys[0] == "agents":
            text += f"[{key}]"
        else:
            text += f".{key}" if place else key
    return text
