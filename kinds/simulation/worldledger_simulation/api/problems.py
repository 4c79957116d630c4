"""How the errors of simulations are answered over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from worldledger_service.api.problems import Answer

from worldledger.errors import SimulationError
from worldledger_simulation.rules.errors import InvalidSimulationConfigError

PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    InvalidSimulationConfigError: Answer(422, "The simulation is refused"),
}
