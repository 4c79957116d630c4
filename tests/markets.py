"""A little simulation for tests of the interfaces: traders with typed variables, each seeing a part of it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from worldledger.effects import EffectDraft

#: Bea sees Ann's public variables blurred and nothing of Cid; Cid, who stands in no entry, sees nothing at all.
MARKET: dict[str, Any] = {
    "simulation": {"name": "market", "max_turns": 9},
    "engine": {"actions_per_turn": 2},
    "agents": [
        {"name": "Ann", "state": {"inventory": {"food": 10.5, "metal": 5.0}, "location": [10.0, 20.0]}},
        {"name": "Bea", "state": {"gold": 7}},
        "Cid",
    ],
    "state_variables": {
        "agent_vars": {
            "gold": {"type": "int", "min": 0, "default": 100},
            "mood": {"type": "categorical", "values": ["calm", "angry"], "default": "calm"},
            "inventory": {"type": "dict", "key_type": "str", "value_type": "float"},
            "history": {"type": "list", "item_type": "str", "max_length": 10},
            "location": {"type": "tuple", "item_types": ["float", "float"], "default": [0.0, 0.0]},
            "plan": {"type": "str", "max_length": 50},
            "stats": {
                "type": "object",
                "schema": {"health": {"type": "float", "min": 0, "max": 100, "default": 100}},
            },
        },
        "global_vars": {"price": {"type": "float", "min": 0, "default": 2.5}, "season": {"type": "str"}},
    },
    "observability": {
        "enabled": True,
        "variable_visibility": {"external": ["gold", "inventory", "price"], "internal": ["plan", "stats"]},
        "matrix": [
            ["Ann", "Ann", "insider", 0.0],
            ["Ann", "Bea", "insider", 0.0],
            ["Ann", "Cid", "insider", 0.0],
            ["Ann", "global", "insider", 0.0],
            ["Bea", "Bea", "insider", 0.0],
            ["Bea", "Ann", "external", 0.2],
            ["Bea", "global", "external", 0.0],
        ],
    },
}


def market(**changes: Any) -> dict[str, Any]:
    """Return the configuration, with other sections where they are named."""
    return {**deepcopy(MARKET), **changes}


def effect(kind: str, source_id: str = "engine", **payload: Any) -> EffectDraft:
    """Make a draft of the vocabulary of simulations."""
    return {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0"}


def change(agent_id: str, path: str, value: Any, op: str = "replace") -> EffectDraft:
    """Make the draft by which an agent changes one of its variables."""
    return effect("AgentStateChanged", agent_id, patch=[{"op": op, "path": path, "value": value}])


#: Two turns: in the first Ann acts twice, Bea once and Cid is paused; the second is open.
TURNS: list[EffectDraft] = [
    effect("TurnStarted"),
    change("Ann", "/gold", 90),
    change("Ann", "/history/-", "bought food", "add"),
    change("Bea", "/mood", "angry"),
    effect("GlobalStateChanged", patch=[{"op": "replace", "path": "/price", "value": 3.5}]),
    effect("AgentPaused", agent_id="Cid", turns=5),
    effect("TurnEnded"),
    effect("TurnStarted"),
    change("Bea", "/gold", 8),
]
#: Where they stand in the log of a new world: the genesis and the beginning are 1 and 2, the agents 3 to 5.
FIRST, ENDED, SECOND, HEAD = 6, 12, 13, 14
