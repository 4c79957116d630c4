"""The projections over games of chess."""

from typing import Final

from worldledger_projections.base import Projection

from worldledger_chess.projections.agent_stats import AgentStats
from worldledger_chess.projections.agents import Agents
from worldledger_chess.projections.games import Games
from worldledger_chess.projections.moves import Moves

PROJECTIONS: Final[tuple[Projection, ...]] = (Games(), Moves(), Agents(), AgentStats())
