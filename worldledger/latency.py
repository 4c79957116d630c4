"""How long it takes until an agent sees what happened.

Source: docs/reference/contracts.md, "Policies, validators and latency". A model only computes; its caller waits.
"""

from __future__ import annotations

from math import dist, inf, isfinite
from typing import Any, Final

from worldledger.effects import Effect
from worldledger.protocols import MODEL_METHODS, LatencyModelProtocol, lacking
from worldledger.world import WorldState

#: Longest delay in seconds: more than 30 years, and a clock plus this is still exact enough.
MAX_DELAY: Final = 1e9


class LatencyModel:
    """Base of all latency models: override `calculate_delay`, or `delay` if the world's state matters.

    A model keeps nothing from one call to the next. It is stored by its registered name, version and `config`, see
    `worldledger.policies`.
    """

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the seconds until ``to_agent`` sees an effect whose source is ``from_agent``."""
        raise NotImplementedError(f"{type(self).__name__} says neither calculate_delay nor delay")

    def delay(self, from_agent: str, to_agent: str, effect: Effect, world_state: WorldState) -> float:
        """Return the same, given the state after the effect. By default the state does not matter."""
        return self.calculate_delay(from_agent, to_agent, effect)

    def config(self) -> dict[str, Any]:
        """Return the keyword arguments that make the same model again: by default, its public attributes."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}


class AdaptedLatency(LatencyModel):
    """Wraps ``model``, which is not a LatencyModel but has `calculate_delay` (`LatencyModelProtocol`)."""

    def __init__(self, model: LatencyModelProtocol) -> None:
        self.model = model

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the model's result."""
        return self.model.calculate_delay(from_agent, to_agent, effect)

    def config(self) -> dict[str, Any]:
        """Return the model's own ``config()``, or its public attributes if it has none."""
        own = getattr(self.model, "config", None)
        if callable(own):
            return dict(own())
        return {name: value for name, value in vars(self.model).items() if not name.startswith("_")}


def as_latency_model(model: Any) -> Any:
    """Return a latency model as a LatencyModel; anything else as it is."""
    if isinstance(model, LatencyModel | type) or lacking(model, MODEL_METHODS, methods=True):
        return model
    return AdaptedLatency(model)


class NoLatency(LatencyModel):
    """Everything is seen at once."""

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return 0.0."""
        return 0.0


class FixedLatency(LatencyModel):
    """Everything is seen after the same time, an agent's own effects at once."""

    def __init__(self, seconds: float) -> None:
        """Raise ValueError unless ``seconds`` is a number from 0 on."""
        self.seconds = _seconds("seconds", seconds)

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the fixed time, or 0.0 to oneself."""
        return 0.0 if from_agent == to_agent else self.seconds


class DistanceLatency(LatencyModel):
    """What happens farther away is seen later, an agent's own effects at once.

    The distance is that between the source and the agent after the effect. If one of them has no position, the delay is
    ``base_seconds``.
    """

    def __init__(self, seconds_per_unit: float, base_seconds: float = 0.0, max_seconds: float | None = None) -> None:
        """Raise ValueError unless each is a number from 0 on (``max_seconds`` None: no limit)."""
        self.seconds_per_unit = _seconds("seconds_per_unit", seconds_per_unit)
        self.base_seconds = _seconds("base_seconds", base_seconds)
        self.max_seconds = None if max_seconds is None else _seconds("max_seconds", max_seconds)

    def calculate_delay(self, from_agent: str, to_agent: str, effect: Effect) -> float:
        """Return the delay for an unknown distance."""
        return 0.0 if from_agent == to_agent else self._limited(self.base_seconds)

    def delay(self, from_agent: str, to_agent: str, effect: Effect, world_state: WorldState) -> float:
        """Return ``base_seconds`` and the time for the distance, at most ``max_seconds``."""
        if from_agent == to_agent:
            return 0.0
        here, there = world_state.spatial_index.get(to_agent), world_state.spatial_index.get(from_agent)
        if here is None or there is None or not self.seconds_per_unit:
            return self._limited(self.base_seconds)
        return self._limited(self.base_seconds + self.seconds_per_unit * dist(here, there))

    def _limited(self, seconds: float) -> float:
        return seconds if self.max_seconds is None else min(seconds, self.max_seconds)


def longest_delay(model: LatencyModel) -> float:
    """Return the most seconds by which a model may delay anything: infinite if it does not say."""
    if type(model) is NoLatency:
        return 0.0
    if type(model) is FixedLatency:
        return bounded(model.seconds)
    if type(model) is DistanceLatency and model.max_seconds is not None:
        return bounded(model.max_seconds)
    return inf


def bounded(delay: float) -> float:
    """Return a delay within bounds: from 0.0 to MAX_DELAY, 0.0 for NaN."""
    return min(max(0.0, delay), MAX_DELAY)


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
        raise ValueError(f"{name} is a number from 0 on, not {value!r}")
    return float(value) + 0.0  # makes 0.0 of -0.0
