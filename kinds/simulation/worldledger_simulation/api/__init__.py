"""Simulations over HTTP: their routes, and how their errors are answered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from starlette.routing import BaseRoute
from worldledger_service.api.problems import Answer

from worldledger.errors import SimulationError
from worldledger_simulation.api import turns
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

ROUTES: Final[tuple[BaseRoute, ...]] = (*turns.router.routes,)


PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    InvalidSimulationConfigError: Answer(422, "The simulation is refused"),
}
