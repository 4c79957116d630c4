"""The projections over games of chess."""

from typing import Final

from projections.agent_stats import AgentStats
from projections.agents import Agents
from projections.base import Projection
from projections.games import Games
from projections.moves import Moves

PROJECTIONS: Final[tuple[Projection, ...]] = (Games(), Moves(), Agents(), AgentStats())
