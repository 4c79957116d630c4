"""Partial observability: which of the others' variables each observer sees, and how exactly.

Source: docs/reference/contracts.md, "Observability".

- ``config.py``: its configuration
- ``noise.py``: the draws, and the limits of numbers
- ``policy.py``: the matrix, and what it makes of a simulation's state, and of a world as an observation policy
"""

from worldledger.observability.config import (
    DefaultObservability,
    ObservabilityConfig,
    ObservabilityEntry,
    ObservabilityLevel,
    VariableVisibilityConfig,
)
from worldledger.observability.noise import Draws, bounds_of, noise_of
from worldledger.observability.policy import (
    MatrixPolicy,
    MatrixPolicyConfig,
    ObservabilityMatrix,
    construct_observation,
    observe_entity,
)

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
