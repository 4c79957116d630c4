"""What goes wrong with players: an error says which player, what happened, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from worldledger.errors import RecoveryAction, SimulationError

#: Why a player has no move.
Reason = Literal["cannot_start", "timeout", "crashed", "rubbish", "no_move", "failed", "closed"]


class PlayerError(SimulationError):
    """A player that was to move and has no move; details: ``player``, ``reason``.

    ``reason`` is one of

    - ``cannot_start``: an engine's program is not there, is no UCI engine, or does not take its options;
    - ``timeout``: no move came within the time;
    - ``crashed``: an engine ended by itself;
    - ``rubbish``: an engine wrote more than anybody reads, or a player gave something that is no text;
    - ``no_move``: it was asked where it has nothing to say: nothing after "bestmove", an external player;
    - ``failed``: the player, or the library that speaks with the engine, raised an error;
    - ``closed``: `Player.close` was called.

    Asking again is allowed after each but ``closed``; an engine is then started anew.
    """

    code = "player_failed"
    recovery = RecoveryAction.RETRY

    def __init__(self, player: str, reason: Reason, what: str, **details: Any) -> None:
        super().__init__(f"player {player}: {what}", player=player, reason=reason, **details)
        self.player = player
        self.reason: Reason = reason


class UnknownPlayerError(SimulationError):
    """A player that nobody offers here; details: ``name``, ``known``, ``path`` (JSON path)."""

    code = "unknown_player"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, name: str, known: Sequence[str], path: str = "$", *, why: str | None = None) -> None:
        said = f"there is no player {name!r} here" if why is None else why
        super().__init__(
            f"{path}: {said}; known: {', '.join(known)}, and a UCI engine as 'uci:PATH'. A player of your own is "
            "offered by a package's entry point in the group worldledger.players",
            name=name,
            known=list(known),
            path=path,
        )


class InvalidPlayerError(SimulationError):
    """A player's description that cannot be read or is not allowed; details: ``path`` (JSON path)."""

    code = "invalid_player"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, reason: str, path: str = "$", **details: Any) -> None:
        super().__init__(f"{path}: {reason}", path=path, **details)
        self.reason = reason
        self.path = path
