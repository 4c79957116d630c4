"""Configurations for these tests, and what is said about them."""

from __future__ import annotations

from typing import Any

import pytest
from worldledger_simulation.rules.config import SimulationConfig, load_config
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

from worldledger.errors import dotted

MARKET = """\
simulation:
  name: Market day
  max_turns: 20
engine:
  actions_per_turn: 2
  parameters: {model: small, temperature: 0.5}
agents:
  - Trader_1
  - name: Trader_2
    type: merchant
    state: {gold: "12", inventory: {food: 3}, slots: {1: axe}}
    weight: 2
    parameters: {prompt: "Buy low."}
  - name: Überseehändlerin
    permissions: [submit_intent, "intent:custom"]
state_variables:
  agent_vars:
    gold: {type: int, min: 0, default: 5}
    inventory: {type: dict, key_type: str, value_type: float, default: {}}
    slots: {type: dict, key_type: int, value_type: str, default: {1: sword, "2": bow}}
    location: {type: tuple, item_types: [float, float], default: [0, 0]}
    mood: {type: categorical, values: [calm, angry], default: calm}
    notes: {type: str, max_length: 500, default: null}
  global_vars:
    price: {type: float, min: 0, max: 100, default: 1.5}
observability:
  enabled: true
  variable_visibility:
    external: [gold, location, price, mood, slots, notes]
    internal: [inventory]
  matrix:
    - [Trader_1, Trader_1, insider, 0.0]
    - [Trader_1, Trader_2, external, 0.2]
    - [Trader_2, global, insider, null]
  default: {level: unaware, noise: 0.0}
"""


def read(text: str) -> SimulationConfig:
    """Read a configuration from YAML."""
    return load_config(text.encode(), name="f.yaml")


def refusal(text: str) -> InvalidSimulationConfigError:
    """Return the error of a configuration that is refused."""
    with pytest.raises(InvalidSimulationConfigError) as caught:
        read(text)
    return caught.value


def problems(text: str) -> list[tuple[int | None, str, str]]:
    """Return line, path and message of everything that is wrong."""
    return [(found.line, dotted(found.path), found.message) for found in refusal(text).problems]


def wrong(value: Any) -> list[tuple[str, str]]:
    """Return path and message of everything that is wrong with a value."""
    with pytest.raises(InvalidSimulationConfigError) as caught:
        SimulationConfig.from_value(value)
    return [(dotted(found.path), found.message) for found in caught.value.problems]


def small(**sections: Any) -> dict[str, Any]:
    """Return a small configuration with other sections."""
    return {"simulation": {"name": "s"}, "agents": ["A", "B"], **sections}
