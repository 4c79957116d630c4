"""All projections, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from projections.agent_stats import AgentStats
from projections.agents import Agents
from projections.base import Projection
from projections.entities import Entities
from projections.errors import ProjectionNotFoundError
from projections.games import Games
from projections.moves import Moves
from projections.reasoning import Reasoning
from projections.social_adaptations import PolicyAdaptations
from projections.social_feedback import Feedback
from projections.social_messages import Messages
from projections.social_rounds import Rounds
from projections.social_runs import SocialRuns
from projections.state_variables import StateVariables
from projections.turns import Turns
from projections.world_summaries import WorldSummaries

#: Every projection there is.
ALL: Final[tuple[Projection, ...]] = (
    WorldSummaries(),
    Entities(),
    Games(),
    Moves(),
    Agents(),
    AgentStats(),
    Turns(),
    StateVariables(),
    Reasoning(),
    SocialRuns(),
    Rounds(),
    Messages(),
    Feedback(),
    PolicyAdaptations(),
)

BY_NAME: Final[Mapping[str, Projection]] = MappingProxyType({projection.name: projection for projection in ALL})


def find(name: str) -> Projection:
    """Give the projection of that name; raise ProjectionNotFoundError where there is none."""
    projection = BY_NAME.get(name)
    if projection is None:
        known = sorted(BY_NAME)
        what = f"there is no projection {name!r}; there are {', '.join(known)}"
        raise ProjectionNotFoundError(what, projection=name, known=known)
    return projection
