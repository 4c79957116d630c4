"""Partial observability: which of the others' variables each observer sees, and how exactly.

Source: docs/reference/contracts.md, "Observability".

- ``config.py``: its configuration
- ``noise.py``: the draws, and the limits of numbers
- ``observation.py``: the matrix, and a simulation's state as one observer sees it
- ``policy.py``: the same as an observation policy of a world's agents
"""

from worldledger.observability.config import (
    DefaultObservability,
    ObservabilityConfig,
    ObservabilityEntry,
    ObservabilityLevel,
    VariableVisibilityConfig,
)
from worldledger.observability.noise import Draws, bounds_of, noise_of
from worldledger.observability.observation import ObservabilityMatrix, construct_observation, observe_entity
from worldledger.observability.policy import MatrixPolicy, MatrixPolicyConfig

__all__ = [
    "DefaultObservability",
    "Draws",
    "MatrixPolicy",
    "MatrixPolicyConfig",
    "ObservabilityConfig",
    "ObservabilityEntry",
    "ObservabilityLevel",
    "ObservabilityMatrix",
    "VariableVisibilityConfig",
    "bounds_of",
    "construct_observation",
    "noise_of",
    "observe_entity",
]
