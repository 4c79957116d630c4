"""What is served of simulations over HTTP."""

from typing import Final

from pydantic import BaseModel
from starlette.routing import BaseRoute

from worldledger_simulation.api import turns
from worldledger_simulation.api.turns import Turn

ROUTES: Final[tuple[BaseRoute, ...]] = (*turns.router.routes,)
#: The shapes that they refer to, in the OpenAPI document.
SHAPES: Final[tuple[type[BaseModel], ...]] = (Turn,)
