"""Social-RL runs over HTTP and WebSocket."""

from typing import Final

from starlette.routing import BaseRoute

from worldledger_social_rl.api import rounds

ROUTES: Final[tuple[BaseRoute, ...]] = (*rounds.router.routes,)
#: The group that they stand in, in the OpenAPI document.
TAGS: Final = ({"name": "rounds", "description": "Rounds of social-RL runs, and the policies of their agents."},)
