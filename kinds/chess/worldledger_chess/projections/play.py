"""A game of chess as a world's effects tell it, for the projections that follow it: which effects count, and for what.

These are the rules of the fold (`worldledger_chess.rules.state`), so that projections and states agree. Only the
way is shorter: the payload of a move that is whole, as nearly all are, is seen to be so at a glance; any other is put
to the fold itself. Where those rules change, every projection that follows games gets a new version.

One world is one game: a GameStarted that comes after another counts for nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from operator import itemgetter
from typing import Any, Final

from worldledger.effects import SERVICE_SOURCE, Effect
from worldledger.errors import IllegalEffectError
from worldledger.rulesets.base import MalformedEffectError
from worldledger.world import WorldState
from worldledger_chess.rules.claims import (
    MAX_SECONDS,
    Claim,
    Players,
    Start,
    read_ending,
    read_player,
    read_players,
    read_seconds,
    read_start,
    read_text,
)
from worldledger_chess.rules.endings import OTHER, Player
from worldledger_chess.rules.positions import ORTHODOX
from worldledger_chess.rules.state import BOARD, move_made

IN_PROGRESS: Final = "in_progress"

_whole: Final = itemgetter("ply", "player", "thinking_time", "clock", "uci_notation", "san_notation", "fen")
# Less than the fold takes at its word, never more: what does not fit is put to the fold.
_UCI: Final = re.compile(r"(?:[a-h][1-8]|[PNBRQK]@)[a-h][1-8][nbrqk]?\Z")
_FEN: Final[dict[Player, re.Pattern[str]]] = {
    "white": re.compile(r"[1-8A-Za-z/]{1,100} b (?:-|[KQkq]{1,4}) (?:-|[a-h][36]) [0-9]{1,4} [0-9]{1,4}\Z"),
    "black": re.compile(r"[1-8A-Za-z/]{1,100} w (?:-|[KQkq]{1,4}) (?:-|[a-h][36]) [0-9]{1,4} [0-9]{1,4}\Z"),
}
_MAX_SAN: Final = 10

_Whole = tuple[int, Player, float | None, float | None, str, str, str]


class _Glance:
    """What a payload that is whole says: ply, player, thinking_time, clock, and the move's UCI, SAN and FEN.

    The projections of a world read each effect in turn, so the last payload is remembered.
    """

    def __init__(self) -> None:
        self._last: tuple[Mapping[str, Any] | None, _Whole | None] = None, None

    def __call__(self, payload: Mapping[str, Any]) -> _Whole | None:
        """Return it, None for a payload that is not seen to be whole."""
        last, found = self._last  # read and written as one, for several threads fold
        if last is not payload:
            found = self._look(payload)
            self._last = payload, found
        return found

    @staticmethod
    def _look(payload: Mapping[str, Any]) -> _Whole | None:
        try:
            found: _Whole = _whole(payload)
            ply, player, thinking_time, clock, uci, san, fen = found
            if (
                type(ply) is int
                and type(fen) is type(uci) is type(san) is str
                and 0 < len(san) <= _MAX_SAN
                and (thinking_time is None or (type(thinking_time) is float and 0.0 <= thinking_time <= MAX_SECONDS))
                and (clock is None or (type(clock) is float and 0.0 <= clock <= MAX_SECONDS))
                and _UCI.match(uci)
                and _FEN[player].match(fen)
            ):
                return found
        except (KeyError, TypeError):  # a member is missing, or the player cannot be looked up
            pass
        return None


_glance: Final = _Glance()


class Play:
    """A game, from where it stands on.

    ``turn``, ``fen`` and ``ply`` (how many moves were made) are those of the position, ``status`` is None before there
    is a game. ``mover``, ``uci``, ``san``, ``thinking_time`` and ``clock`` (seconds, or None) are of the last move
    that was made here.
    """

    __slots__ = (
        "clock",
        "fen",
        "mover",
        "orthodox",
        "ply",
        "san",
        "status",
        "thinking_time",
        "turn",
        "uci",
        "variant",
    )

    def __init__(
        self,
        variant: str | None = None,
        fen: str | None = None,
        turn: Player | None = None,
        ply: int = 0,
        status: str | None = None,
    ) -> None:
        self.ply = ply
        self.status = status
        self.uci = self.san = ""
        self.thinking_time: float | None = None
        self.clock: float | None = None
        self._stand(variant or "", fen or "", turn or "white")

    def _stand(self, variant: str, fen: str, turn: Player) -> None:
        self.variant = variant
        self.orthodox = variant in ORTHODOX
        self.fen = fen
        self.turn: Player = turn
        self.mover: Player = OTHER[turn]

    @classmethod
    def of(cls, state: WorldState) -> Play:
        """Return the game as a state has it."""
        board = state.entities.get(BOARD)
        if board is None:
            return cls()
        return cls(board["variant"], board["fen"], board["turn"], board["ply"], board["status"])

    def start(self, payload: Mapping[str, Any]) -> Start | None:
        """Take a GameStarted; return what it says, None where it counts for nothing."""
        if self.status is not None:
            return None
        try:
            start = read_start(payload)
        except IllegalEffectError:
            return None
        self._stand(start.variant, start.fen, start.fields.turn)
        self.status = IN_PROGRESS
        return start

    def go_on(self, effect: Effect) -> Players | None:
        """Take a GameContinued; return who plays from there, None where it counts for nothing."""
        if self.status != IN_PROGRESS or effect["source_id"] != SERVICE_SOURCE:
            return None
        try:
            return read_players(effect["payload"])
        except IllegalEffectError:
            return None

    def move(self, effect: Effect) -> bool:
        """Take a MoveMade; tell whether it counts."""
        if self.status != IN_PROGRESS:
            return False
        turn = self.turn
        whole = _glance(effect["payload"])
        if whole is None:
            return self._move_by_the_fold(effect)
        ply, player, thinking_time, clock, uci, san, fen = whole
        if player != turn or ply != self.ply + 1 or (san[-1] == "#" and not self.orthodox):
            return self._move_by_the_fold(effect)
        self.mover = turn
        self.turn = OTHER[turn]
        self.ply = ply
        self.fen = fen
        self.uci = uci
        self.san = san
        self.thinking_time = thinking_time
        self.clock = clock
        return True

    def _move_by_the_fold(self, effect: Effect) -> bool:
        turn = self.turn
        board: dict[str, Any] = {
            "status": self.status,
            "variant": self.variant,
            "fen": self.fen,
            "turn": turn,
            "ply": self.ply,
        }
        state = WorldState.initial()
        state.entities = {BOARD: board, turn: {"moves": 0, "thinking_time": 0.0, "timed_moves": 0}}
        try:
            move_made(state, effect)
        except MalformedEffectError:
            return False
        self.mover, self.turn, self.ply, self.fen = turn, board["turn"], board["ply"], board["fen"]
        self.uci, self.san = board["last_move"]["uci_notation"], board["last_move"]["san_notation"]
        self.thinking_time = read_seconds(effect["payload"], "thinking_time")
        self.clock = read_seconds(effect["payload"], "clock")
        return True

    def reject(self, payload: Mapping[str, Any]) -> tuple[Player, bool] | None:
        """Take a MoveRejected; give whose, and whether it was an illegal move, None where it counts for nothing."""
        if self.status != IN_PROGRESS:
            return None
        try:
            player = read_player(payload) or self.turn
            reason = read_text(payload, "reason")
        except IllegalEffectError:
            return None
        return player, reason in {None, "illegal_move"}

    def end(self, payload: Mapping[str, Any]) -> Claim | None:
        """Take a GameEnded; return what it says, None where it counts for nothing."""
        if self.status != IN_PROGRESS:
            return None
        try:
            claim = read_ending(payload)
        except IllegalEffectError:
            return None
        self.status = claim.status
        return claim
