"""The shapes that the routes of simulations refer to in the OpenAPI document."""

from typing import Final

from pydantic import BaseModel

from worldledger_simulation.api.shapes import Turn

SHAPES: Final[tuple[type[BaseModel], ...]] = (Turn,)
