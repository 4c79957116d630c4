"""Measures of social-RL runs that are compared: the mean feedback of the agents in each round."""

from __future__ import annotations

from math import fsum
from typing import Any, Final

from worldledger.effects import Effect
from worldledger.measures import Measures
from worldledger.world import WorldState
from worldledger_social_rl.rules.words import known

_METRICS: Final = ("engagement", "theoretical_alignment", "contribution_value")


def values(state: WorldState, began: Effect) -> dict[str, float]:
    """Return the mean over the agents that had feedback in the round, a value by metric."""
    number = known(state)["round_number"]
    vectors = [entity["feedback"] for entity in state.entities.values() if entity.get("feedback_round") == number]
    found = {}
    for metric in _METRICS:
        told = [vector[metric] for vector in vectors if type(vector.get(metric)) in {int, float}]
        if told:
            found[metric] = fsum(told) / len(told)
    return found


def outcome(state: WorldState) -> dict[str, Any]:
    """Return how many rounds there were, and whether the last one has ended."""
    here = known(state)
    return {"rounds": here["rounds"], "round_open": here["round_open"]}


def labels(state: WorldState) -> dict[str, Any]:
    """Return condition, seed and model of the run, as far as the record has them."""
    here = known(state)
    told = {"condition": here["condition"], "seed": here["seed"], "model": (here["meta"] or {}).get("model")}
    return {name: value for name, value in told.items() if value is not None}


MEASURES: Final = Measures(
    values=values,
    outcome=outcome,
    labels=labels,
    left_out=(
        *("sim_time", "payload.timestamp", "payload.meta.timestamp", "payload.meta.experiment_id"),
        *("payload.config.digest", "payload.config.recording", "payload.duration_seconds"),
        *("/metadata/social_rl/meta/timestamp", "/metadata/social_rl/meta/experiment_id"),
        *("/metadata/social_rl/policy_state/timestamp",),
    ),
)
