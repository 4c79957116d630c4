"""The game in the log of a chess world: moves, attempts and the end, effect by effect.

That of a fork is read after the part of its ancestors' logs that is its history.

An effect counts here if the fold counts it (`worldledger_chess.rules.state`): effects that it takes for malformed, a
move after the end for example, are not part of the game.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final

import chess

from worldledger.canonical import canonical_json
from worldledger.effects import Effect
from worldledger.errors import SimulationError
from worldledger.names import slug
from worldledger.rulesets.base import Handler, MalformedEffectError
from worldledger.world import WorldState
from worldledger_chess.rules import state as fold
from worldledger_chess.rules.claims import read_start
from worldledger_chess.rules.endings import Player
from worldledger_chess.rules.positions import UNREADABLE

_HANDLERS: Final[dict[str, Handler]] = {
    "GameStarted": fold.game_started,
    "GameContinued": fold.game_continued,
    "MoveMade": fold.move_made,
    "MoveRejected": fold.move_rejected,
    "GameEnded": fold.game_ended,
}


@dataclass(frozen=True)
class LoggedMove:
    """A move that was made.

    ``ply`` (from 1), ``player``, ``agent_id``, ``uci`` and ``san`` as the state has them, ``move`` for python-chess;
    ``payload``, ``world_id``, ``global_seq`` and ``wall_time`` are the effect's.
    """

    ply: int
    player: Player
    agent_id: str
    uci: str
    san: str
    move: chess.Move
    payload: Mapping[str, Any]
    world_id: str
    global_seq: int
    wall_time: float


@dataclass(frozen=True)
class LoggedAttempt:
    """A rejected attempt, made after ``after_ply`` moves; ``attempted`` is its text, null if unknown."""

    after_ply: int
    player: Player
    agent_id: str
    attempted: str | None
    reason: str
    world_id: str
    global_seq: int


@dataclass
class GameLog:
    """The game of a chess world, as far as its log was read.

    - ``world_id``: the world whose effect was read last; ``begun_in``: that of GameStarted, another one for a fork.
    - ``started``, ``ended``: the payloads of GameStarted and GameEnded; ended is None while the game goes on.
    - ``continued``: whether other agents than those that GameStarted names have gone on with it.
    - ``initial`` is the board before the first move, ``board`` the present one, with its move stack.
    - ``moves`` and ``attempts`` in their order; ``entities``: white, black and board of the world's state.
    - ``started_at``: wall_time of GameStarted, epoch seconds.
    """

    world_id: str = ""
    begun_in: str = ""
    started: dict[str, Any] | None = None
    ended: dict[str, Any] | None = None
    started_at: float = 0.0
    continued: bool = False
    initial: chess.Board = field(default_factory=chess.Board)
    board: chess.Board = field(default_factory=chess.Board)
    moves: list[LoggedMove] = field(default_factory=list)
    attempts: list[LoggedAttempt] = field(default_factory=list)
    _state: WorldState = field(default_factory=WorldState.initial, repr=False)

    @classmethod
    def of(cls, effects: Iterable[Effect]) -> GameLog:
        """Read a whole log. Raises as `feed` does."""
        log = cls()
        for effect in effects:
            log.feed(effect)
        return log

    @property
    def entities(self) -> dict[str, Any]:
        """The entities of the world's state: not a copy."""
        return self._state.entities

    def agent(self, player: Player) -> str:
        """Return the agent_id of a colour."""
        agent: str = self._state.entities[player]["agent_id"]
        return agent

    def name(self, player: Player) -> str:
        """Return the name of a colour's player, its agent_id if it has none."""
        name: str | None = self._state.entities[player]["name"]
        return name or self.agent(player)

    def feed(self, effect: Effect) -> None:
        """Add the next effect. Raises SimulationError for a recorded move that cannot be played."""
        self.world_id = effect["world_id"]
        handler = _HANDLERS.get(effect["kind"])
        if handler is None:
            return
        before = self._state.entities.get(fold.BOARD, {}).get("turn", "white")
        try:
            handler(self._state, effect)
        except MalformedEffectError:
            return
        payload = effect["payload"]
        if effect["kind"] == "GameStarted":
            self.begun_in, self.started, self.started_at = effect["world_id"], payload, effect["wall_time"]
            self.initial = read_start(payload).board()
            self.board = self.initial.copy()
        elif effect["kind"] == "GameContinued":
            self.continued = True
        elif effect["kind"] == "MoveMade":
            self._move(effect, before)
        elif effect["kind"] == "MoveRejected":
            self._attempt(effect, payload.get("player") or before)
        else:
            self.ended = payload

    def _move(self, effect: Effect, player: Player) -> None:
        last = self._state.entities[fold.BOARD]["last_move"]
        uci = last["uci_notation"]
        try:
            move = self.board.parse_uci(uci)
            self.board.push(move)
        except UNREADABLE:
            raise SimulationError(
                f"world {effect['world_id']}, seq {effect['global_seq']}: {uci} cannot be played in {self.board.fen()}",
                world_id=effect["world_id"],
                global_seq=effect["global_seq"],
            ) from None
        self.moves.append(
            LoggedMove(
                ply=last["ply"],
                player=player,
                agent_id=self.agent(player),
                uci=uci,
                san=last["san_notation"],
                move=move,
                payload=effect["payload"],
                world_id=effect["world_id"],
                global_seq=effect["global_seq"],
                wall_time=effect["wall_time"],
            )
        )

    def _attempt(self, effect: Effect, player: Player) -> None:
        payload = effect["payload"]
        attempted = payload.get("attempted")
        self.attempts.append(
            LoggedAttempt(
                after_ply=len(self.moves),
                player=player,
                agent_id=self.agent(player),
                attempted=attempted if attempted is None or type(attempted) is str else repr(attempted),
                reason=payload.get("reason") or "illegal_move",
                world_id=effect["world_id"],
                global_seq=effect["global_seq"],
            )
        )


# -- the identity of a game: a digest of its content, and a world's name made from it ---------------------


#: Most characters of each player's name in a world's name.
_NAME_LENGTH: Final = 22
_PROFILE: Final = "worldledger-pgn/1"


def game_digest(tags: Sequence[tuple[str, str]], tokens: Sequence[str]) -> str:
    """Return lower-case hex of SHA-256 over the tags in order and the tokens of the movetext.

    White space is not content: runs of it count as one blank, and around a value it does not count. So neither line
    endings nor encoding nor the width of the lines change the digest, while any other tag, move, comment or sideline
    does.
    """
    pairs = [[name, " ".join(value.split())] for name, value in tags]
    return sha256(canonical_json([_PROFILE, pairs, list(tokens)])).hexdigest()


def world_name(white: str | None, black: str | None, date: str, digest: str) -> str:
    """Return ``white-vs-black-date-digest`` in ``[a-z0-9-]``, at most 72 characters; the digest part has 12 of them.

    Names are cut; a name without any ASCII characters is replaced by the colour; unknown parts of the date are left
    out.
    """
    day = "-".join(part for part in re.findall(r"[0-9?]+", date[:10]) if "?" not in part)
    names = [_name(white) or "white", "vs", _name(black) or "black"]
    return "-".join([*names, *([day] if day else []), digest[:12]])


def _name(player: str | None) -> str:
    return slug((player or "")[:200], _NAME_LENGTH)
