"""Reading a simulation's configuration for ``worldledger world create --config``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from worldledger_simulation.rules.config import load_config


def read_config(file: Path, *, named: bool) -> dict[str, Any] | None:
    """Read a YAML file, a JSON file with a simulation's sections, or any file if the kind is ``named``."""
    return load_config(file).to_value() if named or _is_simulation(file) else None


def _is_simulation(file: Path) -> bool:
    if file.suffix.lower() in {".yaml", ".yml"}:
        return True
    try:
        value = orjson.loads(file.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(value, dict) and not {"simulation", "state_variables"}.isdisjoint(value)
