"""What is served of games of chess over HTTP and WebSocket."""

from typing import Final

from pydantic import BaseModel
from starlette.routing import BaseRoute

from worldledger_chess.api import agents, games, live_games, watching
from worldledger_chess.api.games import AgentPage, AgentStats, GamePage, GameSummary, MovePage
from worldledger_chess.api.openenv import routes, sockets
from worldledger_chess.api.openenv.episodes import (
    OpenEnvAction,
    OpenEnvHealth,
    OpenEnvMetadata,
    OpenEnvObservation,
    OpenEnvReset,
    OpenEnvResult,
    OpenEnvSchemas,
    OpenEnvState,
    OpenEnvStep,
)
from worldledger_chess.api.shapes import (
    Game,
    GameSession,
    MoveOutcome,
    MoveRequest,
    NewGame,
    Resignation,
    ResignOutcome,
    SessionList,
)

_ROUTERS = (live_games, watching, games, agents, routes, sockets)
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
#: The shapes that they refer to, there.
SHAPES: Final[tuple[type[BaseModel], ...]] = (
    Game,
    GameSession,
    MoveOutcome,
    MoveRequest,
    NewGame,
    Resignation,
    ResignOutcome,
    SessionList,
    OpenEnvAction,
    OpenEnvHealth,
    OpenEnvMetadata,
    OpenEnvObservation,
    OpenEnvReset,
    OpenEnvResult,
    OpenEnvSchemas,
    OpenEnvState,
    OpenEnvStep,
    AgentPage,
    AgentStats,
    GamePage,
    GameSummary,
    MovePage,
)
