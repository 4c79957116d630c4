"""The answers to the arena's errors over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from worldledger_service.api.problems import Answer

from worldledger.errors import SimulationError
from worldledger_chess.arena.errors import ArenaFullError, GameNotLiveError, InvalidMoveRequestError, NoSuchGameError
from worldledger_chess.arena.players import InvalidPlayerError, PlayerError, UnknownPlayerError

# -- errors of the routes of chess ------------------------------------------------------------------------------


class GameNotFoundError(SimulationError):
    """No game of that name: a game is a world of a ruleset that has games; details: ``game_id``."""

    code = "game_not_found"


class AgentNotFoundError(SimulationError):
    """No agent of that name has acted in any world, as far as projections have come.

    Details: ``agent_id``; ``near`` has similar names of agents.
    """

    code = "agent_not_found"


PROBLEMS: Final[Mapping[type[SimulationError], Answer]] = {
    GameNotFoundError: Answer(404, "No such game"),
    AgentNotFoundError: Answer(404, "No such agent"),
    NoSuchGameError: Answer(404, "The world has no such game"),
    GameNotLiveError: Answer(409, "The game is not played here"),
    InvalidMoveRequestError: Answer(422, "The attempt cannot be read"),
    InvalidPlayerError: Answer(422, "The player is refused"),
    UnknownPlayerError: Answer(422, "No such player is installed"),
    PlayerError: Answer(500, "A player of the service has failed"),
    ArenaFullError: Answer(503, "Too many games are being played", retry_after=1),
}
