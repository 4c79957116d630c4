"""The input of players, their interface, and what goes wrong with them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, Literal, Protocol, runtime_checkable

import chess
import structlog

from worldledger.errors import RecoveryAction, SimulationError

# -- what goes wrong with players: an error says which player, what happened, and what to do --------------


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


@dataclass(frozen=True, slots=True)
class Position:
    """A position in which a player is to move, with all moves that led to it.

    ``initial_fen``: the FEN with which the game began, verbatim. ``chess960``: whether castling is written as in
    Chess960. ``moves``: all moves so far, as UCI. ``fen``: the position now, as python-chess writes it. ``player``: the
    side to move. ``legal_moves``: UCI, sorted. ``remaining_s``: seconds left for this move; None for no limit.
    """

    initial_fen: str
    chess960: bool
    moves: tuple[str, ...]
    fen: str
    player: Literal["white", "black"]
    legal_moves: tuple[str, ...]
    remaining_s: float | None = None

    @classmethod
    def of(cls, board: chess.Board, *, initial_fen: str | None = None, remaining_s: float | None = None) -> Position:
        """Return the position of a board that has the game's moves on its stack; ``initial_fen`` as text if known."""
        return cls(
            initial_fen=board.root().fen() if initial_fen is None else initial_fen,
            chess960=board.chess960,
            moves=tuple(move.uci() for move in board.move_stack),
            fen=board.fen(),
            player="white" if board.turn else "black",
            legal_moves=tuple(sorted(move.uci() for move in board.legal_moves)),
            remaining_s=remaining_s,
        )

    def board(self) -> chess.Board:
        """Return a new board with the moves on its stack. They are trusted: their legality is not checked.

        Raises ValueError for a FEN or a move that cannot be read.
        """
        board = chess.Board(self.initial_fen, chess960=self.chess960)
        for move in self.moves:
            board.push(chess.Move.from_uci(move))
        return board


@runtime_checkable
class Player(Protocol):
    """Moves for one side of one game, one move at a time."""

    @property
    def name(self) -> str:
        """The player's name in messages."""

    async def move(self, position: Position) -> str:
        """Return the move that the player attempts, as UCI or SAN. It need not be a legal one, nor a move at all.

        Raises PlayerError if there is none. May be cancelled at any time, and called again after that or after an
        error.
        """

    async def close(self) -> None:
        """Stop everything that the player has started. May be called more than once, and while it is moving."""


# -- players that need no program: the external one, and the random one ----------------------------------------


class ExternalPlayer:
    """Stands for a caller from outside; the service never moves for it."""

    name = "external"

    async def move(self, position: Position) -> str:
        """Raise PlayerError: the caller that plays this side sends the move."""
        raise PlayerError(self.name, "no_move", "moves from outside; the service has none to make for it")

    async def close(self) -> None:
        """Do nothing: nothing was started."""


class RandomPlayer:
    """Draws among the legal moves by seed.

    The move depends on the seed and the game so far (``initial_fen``, ``chess960``, ``moves``), and on nothing else:
    not on the process, its version of Python, what was asked before, or ``remaining_s``. It is the one at

        sha256(JSON of [seed, initial_fen, chess960, [moves]]) as a big-endian number, modulo the number of legal moves

    in the sorted list of legal moves, the JSON being UTF-8 without spaces and the seed a string: 1 and "1" are one
    seed. Both colours may have the same seed: they are never asked in the same position.
    """

    name = "random"

    def __init__(self, seed: int | str) -> None:
        self._seed = str(seed)

    async def move(self, position: Position) -> str:
        """Return a legal move, as UCI. Raises PlayerError if there is none."""
        if not position.legal_moves:
            raise PlayerError(self.name, "no_move", f"there is no legal move in {position.fen}: the game is over")
        history = [self._seed, position.initial_fen, position.chess960, position.moves]
        text = json.dumps(history, ensure_ascii=False, separators=(",", ":"))
        number = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
        return sorted(position.legal_moves)[number % len(position.legal_moves)]

    async def close(self) -> None:
        """Do nothing: nothing was started."""


# -- guarding a third party's player, so that it cannot hold up a game --------------------------------------

#: Seconds for a move if the game has no limit of its own.
DEFAULT_TIMEOUT_S: Final = 30.0
#: Seconds that a player may take to close.
CLOSING_S: Final = 5.0

_log = structlog.get_logger(__name__)


class GuardedPlayer:
    """Calls a player with a time limit, and accepts only text from it: anything else is a PlayerError.

    Code that blocks the event loop cannot be interrupted: such a player runs it in a thread (`asyncio.to_thread`).
    """

    def __init__(self, player: Player, name: str, *, timeout_s: float = DEFAULT_TIMEOUT_S) -> None:
        self.name = name
        self._player = player
        self._timeout_s = timeout_s
        self._closed = False

    async def move(self, position: Position) -> str:
        """Return the player's text. Raises PlayerError, also for any error of the player's own."""
        if self._closed:
            raise PlayerError(self.name, "closed", "is closed and moves no more")
        limit = self._timeout_s if position.remaining_s is None else min(self._timeout_s, position.remaining_s)
        try:
            async with asyncio.timeout(max(0.0, limit)) as clock:
                text: object = await self._player.move(position)
        except PlayerError:
            raise
        except Exception as error:  # a third party's class may raise anything
            if isinstance(error, TimeoutError) and clock.expired():
                raise PlayerError(self.name, "timeout", f"gave no move within {limit:g} s") from None
            raise PlayerError(self.name, "failed", f"failed: {type(error).__name__}: {error}") from error
        if not isinstance(text, str):
            raise PlayerError(self.name, "rubbish", f"gave a {type(text).__name__}, not a move as text")
        return text

    async def close(self) -> None:
        """Close the player, for a few seconds at most; a failure is logged and not raised."""
        self._closed = True
        try:
            async with asyncio.timeout(CLOSING_S):
                await self._player.close()
        except Exception as error:  # noqa: BLE001 - a third party's class may raise anything; the game is over anyway
            _log.warning("a player could not be closed", player=self.name, error=f"{type(error).__name__}: {error}")
