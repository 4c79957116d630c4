"""The projections over simulations."""

from typing import Final

from worldledger_projections.base import Projection

from worldledger_simulation.projections.state_variables import StateVariables
from worldledger_simulation.projections.turns import Reasoning, Turns

PROJECTIONS: Final[tuple[Projection, ...]] = (Turns(), StateVariables(), Reasoning())
