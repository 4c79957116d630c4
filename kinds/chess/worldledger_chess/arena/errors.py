"""The errors that only live games know, in the one tree of `worldledger.errors`."""

from __future__ import annotations

from worldledger.errors import RecoveryAction, SimulationError


class NoSuchGameError(SimulationError):
    """No game of that name: there is such a world, but it is none of chess, or no game has begun; details: ``game_id``.

    Where there is no such world at all WorldNotFoundError is raised.
    """

    code = "no_such_game"


class GameNotLiveError(SimulationError):
    """A game that is not played: an imported one, or one that is over where it was to be played on.

    Details: ``game_id``; where it was to be played on also ``global_seq``.
    """

    code = "game_not_live"


class ArenaFullError(SimulationError):
    """As many games as may be in memory are being played by players of this process; details: ``limit``."""

    code = "arena_full"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class InvalidMoveRequestError(SimulationError):
    """What is asked of a game cannot be read at all: no text as a move, no req_id …; details: ``path`` (JSON path)."""

    code = "invalid_move_request"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, reason: str, path: str = "$") -> None:
        super().__init__(f"{path}: {reason}", path=path)
