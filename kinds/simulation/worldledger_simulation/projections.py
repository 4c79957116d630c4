"""The projections over simulations."""

from typing import Final

from projections.base import Projection
from projections.reasoning import Reasoning
from projections.state_variables import StateVariables
from projections.turns import Turns

PROJECTIONS: Final[tuple[Projection, ...]] = (Turns(), StateVariables(), Reasoning())
