"""The shapes that the routes of chess refer to in the OpenAPI document."""

from typing import Final

from pydantic import BaseModel

from worldledger_chess.api.openenv.shapes import (
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
from worldledger_chess.api.played import AgentPage, AgentStats, GamePage, GameSummary, MovePage
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
