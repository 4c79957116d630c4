"""Measures of simulations that are compared: every variable that is a number."""

from __future__ import annotations

from typing import Any, Final

from worldledger.effects import Effect
from worldledger.measures import Measures
from worldledger.world import WorldState
from worldledger_simulation.rules.words import TURN


def values(state: WorldState, began: Effect) -> dict[str, float]:
    """Return the numbers at the end of a turn: ``global.price``, ``Trader_1.gold``."""
    return {
        f"{name}.{variable}": value
        for name, entity in sorted(state.entities.items())
        for variable, value in sorted(entity.items())
        if type(value) in {int, float}
    }


def outcome(state: WorldState) -> dict[str, Any]:
    """Return the last turn, and how many agents there are."""
    return {"turn": state.metadata[TURN], "agents": len(state.metadata["simulation"]["agents"])}


#: The key of the noise that agents see is the world's own uuid.
_OWN: Final = ("payload.policy.config.noise_key", "/metadata/agents/*/policy/config/noise_key")
MEASURES: Final = Measures(values=values, outcome=outcome, left_out=_OWN)
