"""Games of chess over HTTP and WebSocket: what is served of them."""

from typing import Final

from starlette.routing import BaseRoute

from worldledger_chess.api import games, live_games, watching
from worldledger_chess.api.openenv import routes, sockets

_ROUTERS = (live_games, watching, games, routes, sockets)
ROUTES: Final[tuple[BaseRoute, ...]] = (
    *(route for module in _ROUTERS for route in module.router.routes),
    watching.ROUTE,
    sockets.ROUTE,
)
#: The groups that they stand in, in the OpenAPI document.
TAGS: Final = (
    {"name": "games", "description": "Games of chess: playing and watching them, and what projections tell of them."},
    {"name": "openenv", "description": "The same games for the clients of OpenEnv: reset, step, state."},
)
