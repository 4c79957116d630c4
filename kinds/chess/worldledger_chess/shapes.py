"""The shapes that the routes of chess refer to in the OpenAPI document."""

from typing import Final

from pydantic import BaseModel

from service.api.schemas.games import (
    Game,
    GameSession,
    MoveOutcome,
    MoveRequest,
    NewGame,
    Resignation,
    ResignOutcome,
    SessionList,
)
from service.api.schemas.openenv import (
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
from service.api.schemas.played import AgentPage, AgentStats, GamePage, GameSummary, MovePage

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
