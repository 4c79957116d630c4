"""The projections over simulations."""

from typing import Final

from worldledger_projections.base import Projection

from worldledger_simulation.projections.reasoning import Reasoning
from worldledger_simulation.projections.state_variables import StateVariables
from worldledger_simulation.projections.turns import Turns

PROJECTIONS: Final[tuple[Projection, ...]] = (Turns(), StateVariables(), Reasoning())
