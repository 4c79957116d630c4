"""The shapes that the routes of simulations refer to in the OpenAPI document."""

from typing import Final

from pydantic import BaseModel

from service.api.schemas.turns import Turn

SHAPES: Final[tuple[type[BaseModel], ...]] = (Turn,)
