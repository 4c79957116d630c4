"""Errors of the routes of chess."""

from __future__ import annotations

from worldledger.errors import SimulationError


class GameNotFoundError(SimulationError):
    """No game of that name: a game is a world of a ruleset that has games; details: ``game_id``."""

    code = "game_not_found"


class AgentNotFoundError(SimulationError):
    """No agent of that name has acted in any world, as far as projections have come; details: ``agent_id``."""

    code = "agent_not_found"
