"""The page on configurations: its example can be used, and it names every field there is."""

from __future__ import annotations

import re
from pathlib import Path

from worldledger_simulation.rules.config import SimulationConfig
from worldledger_simulation.rules.sections import (
    AgentConfig,
    EngineConfig,
    SimulationSettings,
    StateVariablesConfig,
    ValidatorConfig,
)

from worldledger.observability import ObservabilityConfig, ObservabilityEntry, VariableVisibilityConfig
from worldledger.variables import VariableDefinition

from .reading import read

_PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "simulation-config.md").read_text(encoding="utf-8")


def test_the_example() -> None:
    """The example is read, and nothing about it is worth a warning."""
    (example,) = re.findall(r"^```text\n(simulation:\n.*?)^```$", _PAGE, re.MULTILINE | re.DOTALL)
    assert read(example).warnings() == []


def test_every_field_is_named() -> None:
    """Each field of each section stands on the page."""
    for model in (
        SimulationConfig,
        SimulationSettings,
        EngineConfig,
        AgentConfig,
        ValidatorConfig,
        StateVariablesConfig,
        ObservabilityConfig,
        ObservabilityEntry,
        VariableVisibilityConfig,
        VariableDefinition,
    ):
        for name, field in model.model_fields.items():
            assert f"`{field.alias or name}`" in _PAGE, name
