"""What is served of games of chess over HTTP and WebSocket."""

from typing import Final

from starlette.routing import BaseRoute

from service.api import agents, games, live_games
from service.api.openenv import routes, sockets
from service.api.ws import watching

_ROUTERS = (live_games, watching, games, agents, routes, sockets)
ROUTES: Final[tuple[BaseRoute, ...]] = (
    *(route for module in _ROUTERS for route in module.router.routes),
    watching.ROUTE,
    sockets.ROUTE,
)
