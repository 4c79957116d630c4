"""One game as its log tells it: folded effect by effect, with facts that need the whole history. Pure.

It has what the world's state leaves out: the moves (which decide about repetition), which request made which effect,
and how many attempts in a row were rejected. So every answer follows from the log, and every process gives the same.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from typing import Any, Final, NamedTuple

import chess
import orjson
from pydantic import TypeAdapter

from worldledger.chain import StoredEffect, Verifier
from worldledger.effects import Effect
from worldledger.errors import FoldError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND, ForkPoint
from worldledger.lineage import fork_point
from worldledger.lru import Lru
from worldledger.rulesets.base import Ruleset
from worldledger_chess.arena.events import GameEvent, event_of
from worldledger_chess.arena.players import Position
from worldledger_chess.rules.endings import OTHER, Ending, Player, automatic_end
from worldledger_chess.rules.entities import Move, moves_of
from worldledger_chess.rules.live import LiveConfig
from worldledger_chess.rules.positions import UNREADABLE, position
from worldledger_chess.rules.state import BOARD
from worldledger_chess.rules.times import Moment

#: The source_id of the arena's own effects. No agent may have this name.
ARENA: Final = "arena"
#: Most events that are kept ready for watchers; others are made again on request.
_READY: Final = 32


class Entry(NamedTuple):
    """An effect that counted for the game.

    ``ply`` is the number of moves after it, ``rejected`` the number of attempts in a row that were rejected then;
    ``text`` is the effect as it is stored.
    """

    seq: int
    kind: str
    ply: int
    rejected: int
    text: bytes

    @property
    def effect(self) -> Effect:
        """The effect."""
        effect: Effect = orjson.loads(self.text)
        return effect


class Record:
    """The game of one world, up to `seq`.

    That of a fork begins with its ancestors' effects: `enter` each world of the line before its effects, the oldest
    first. What ancestors did is there as moves and as the state; entries, requests and live play are of the last world.
    """

    def __init__(self, game_id: str, ruleset: Ruleset) -> None:
        self.game_id = game_id
        self._fold = Fold(game_id, ruleset)
        self._verifier = Verifier(game_id)
        #: the game's configuration; None for a world that is not a live game, and for a fork that is not played on
        self.live: LiveConfig | None = None
        #: where a fork begins
        self.fork_of: ForkPoint | None = None
        self._configured: LiveConfig | None = None
        self.world_uuid = ""
        #: the present position with its moves; None before the game has started
        self.board: chess.Board | None = None
        #: the moves so far, as UCI
        self.moves_made: list[str] = []
        #: wall_time of the last effect of any kind, of the first that counted, and of the last move or the start
        self.last_at = 0.0
        self.started_at = 0.0
        self.turn_at = 0.0
        #: rejected attempts of the side to move since the last move
        self.rejected = 0
        self._illegal_before = 0
        #: the own effects that counted
        self.entries: list[Entry] = []
        #: those of all moves, from the first of the history on
        self._made: list[Entry] = []
        #: how many of them are ancestors', and what each side had done then
        self.inherited = 0
        self._before: dict[Player, dict[str, Any]] = {}
        self._requests: dict[tuple[str, str], int] = {}
        self._moves: list[Move] = []
        self._ready: Lru[int, GameEvent] = Lru(_READY)

    # -- its state -----------------------------------------------------------------------------------------

    @property
    def seq(self) -> int:
        """The seq of the last folded effect."""
        return self._fold.seq

    @property
    def entities(self) -> dict[str, Any]:
        """The entities of the world's state: not a copy."""
        return self._fold.state.entities

    @property
    def started(self) -> bool:
        """True if there is a game."""
        return self.board is not None

    @property
    def in_progress(self) -> bool:
        """True while the game goes on, according to the log."""
        return self.started and self.entities[BOARD]["status"] == "in_progress"

    @property
    def ply(self) -> int:
        """The number of moves so far."""
        ply: int = self.entities[BOARD]["ply"]
        return ply

    @property
    def turn(self) -> Player:
        """The side to move."""
        turn: Player = self.entities[BOARD]["turn"]
        return turn

    def agent(self, player: Player) -> str:
        """Return the agent of a colour."""
        agent: str = self.entities[player]["agent_id"]
        return agent

    def own_side(self, player: Player) -> dict[str, Any]:
        """Return a colour's entity with the counts of what was done in this world: of a fork, nothing inherited."""
        side = dict(self.entities[player])
        for name, inherited in self._before.get(player, {}).items():
            if name in _COUNTS:
                side[name] = round(side[name] - inherited, 6)
        return side

    @property
    def allowed_illegal(self) -> int:
        """How many illegal attempts the state may count for the side to move before the fallback is due."""
        most = self.live.max_illegal if self.live is not None else 0
        return self._illegal_before + most

    @property
    def deadline_at(self) -> float | None:
        """When the time of the side to move runs out, by the clock of ``wall_time``; None if there is no limit."""
        limit = None if self.live is None or not self.in_progress else self.live.limit(self.turn)
        return None if limit is None else self.turn_at + limit

    @cached_property
    def due_end(self) -> Ending | None:
        """The end of the game by the rules and the board, if there is one, whether or not the log has it yet."""
        return None if self.board is None else automatic_end(self.board)

    @property
    def unsettled(self) -> bool:
        """True if the game goes on in the log though it is due to end, or a fallback is due."""
        if self.live is None or not self.in_progress:
            return False
        return self.due_end is not None or self.rejected >= self.live.max_illegal

    def position(self, *, remaining_s: float | None = None) -> Position:
        """Return the input of a player; ``remaining_s``: seconds left for the move."""
        assert self.board is not None  # noqa: S101 - the game goes on
        entity = self.entities[BOARD]
        return Position(
            initial_fen=entity["initial_fen"],
            chess960=self.board.chess960,
            moves=tuple(self.moves_made),
            fen=entity["fen"],
            player=entity["turn"],
            legal_moves=tuple(sorted(map(self.board.uci, self.board.legal_moves))),
            remaining_s=remaining_s,
        )

    # -- its history ---------------------------------------------------------------------------------------

    def request(self, source_id: str, req_id: str) -> Entry | None:
        """Return the effect that a request has made, if it counted."""
        index = self._requests.get((source_id, req_id))
        return None if index is None else self.entries[index]

    def entry(self, seq: int) -> Entry | None:
        """Return the effect at a seq, if it counted for the game."""
        index = bisect_right(self.entries, seq, key=_seq) - 1
        return self.entries[index] if index >= 0 and self.entries[index].seq == seq else None

    def next_entry(self, seq: int) -> Entry | None:
        """Return the next effect after a seq that counted for the game."""
        index = bisect_right(self.entries, seq, key=_seq)
        return self.entries[index] if index < len(self.entries) else None

    @property
    def root(self) -> chess.Board | None:
        """The position before the first move of the history."""
        return None if self.board is None else taken_back(self.board, len(self.board.move_stack))

    def board_before(self, ply: int) -> chess.Board:
        """Return the board on which a move was made."""
        assert self.board is not None  # noqa: S101 - a move was made
        return taken_back(self.board, len(self.board.move_stack) - ply + 1)

    def move_seq(self, ply: int) -> int:
        """Return a move's effect; 0 for a move of an ancestor, which has none here."""
        return self._made[ply - 1].seq if ply > self.inherited else 0

    @property
    def last_move_seq(self) -> int:
        """The effect of the last move in the own log; 0 if no move was made there."""
        return self.move_seq(len(self._made)) if self._made else 0

    def moved_at(self, ply: int) -> float:
        """Return a move's wall_time."""
        wall_time: float = self._made[ply - 1].effect["wall_time"]
        return wall_time

    def move_at(self, ply: int) -> Move:
        """Return a move. Raises ValueError for one that is not a Move (null moves, drops)."""
        try:
            return Move.of(self._effect_of(ply))
        except ValueError:  # its payload is incomplete, as that of an imported move may be
            return self.moves()[ply - 1]

    def moves(self) -> list[Move]:
        """Return all moves. Raises ValueError as `move_at` does."""
        try:
            for ply in range(len(self._moves) + 1, len(self._made) + 1):
                self._moves.append(Move.of(self._effect_of(ply)))
        except ValueError:
            board = self.entities[BOARD]
            effects = [self._effect_of(ply) for ply in range(1, len(self._made) + 1)]
            self._moves = moves_of(effects, initial_fen=board["initial_fen"], variant=board["variant"])
        return list(self._moves)

    def _effect_of(self, ply: int) -> Effect:
        """Return a move's effect; without an invalid timestamp, which an intent's may be."""
        effect = self._made[ply - 1].effect
        try:
            _MOMENT.validate_python(effect["payload"].get("timestamp"))
        except ValueError:
            effect["payload"]["timestamp"] = None
        return effect

    def events(self, after_seq: int, limit: int) -> list[GameEvent]:
        """Return the first events for watchers of the effects after a seq."""
        first = bisect_right(self.entries, after_seq, key=_seq)
        return [self._event(entry) for entry in self.entries[first : first + limit]]

    def _event(self, entry: Entry) -> GameEvent:
        event = self._ready.get(entry.seq)
        if event is None:
            event = event_of(entry.effect)
            assert event is not None  # noqa: S101 - each kind that counts is one
            self._keep(event)
        return event

    def _keep(self, event: GameEvent) -> None:
        self._ready[event.global_seq] = event

    # -- updating ------------------------------------------------------------------------------------------

    def enter(self, world_id: str) -> None:
        """Go on with a log: the first one, or that of a fork of the world before at the effect that was folded last."""
        self._fold = Fold(world_id, self._fold.ruleset, self._fold.state)
        self._verifier = Verifier(world_id)
        self.inherited = len(self._made)
        self._before = {player: dict(self.entities[player]) for player in OTHER if player in self.entities}
        self.entries = []
        self._requests = {}
        self.live = None

    def apply(self, row: StoredEffect) -> None:
        """Fold the next effect of the log, if the chain holds. Raises TamperedError, FoldError or InvalidConfigError.

        After that the record must not be used any more.
        """
        if not self._verifier.feed_chain((row,)):
            assert self._verifier.finding is not None  # noqa: S101 - it says why
            raise self._verifier.finding.error()
        effect: Effect = orjson.loads(row.text)
        kind = effect["kind"]
        mover = self.entities[BOARD]["turn"] if self.started else None
        touched = self._fold.apply(effect)
        self.last_at = effect["wall_time"]
        if kind == GENESIS_KIND:
            self.world_uuid = effect["payload"]["world_uuid"]
            self._configured = LiveConfig.of(effect["payload"]["config"])
            self.fork_of = fork_point(effect["payload"])
            if self.fork_of is None:
                self.live = self._configured
        elif kind in _COUNTING and touched:
            self._count(effect, row.text, mover)

    def _count(self, effect: Effect, text: bytes, mover: Player | None) -> None:
        kind = effect["kind"]
        if kind == "MoveRejected":
            self.rejected += effect["payload"].get("player") in {None, mover}
        else:
            self.__dict__.pop("due_end", None)
        if kind == "GameStarted":
            self._begin(effect)
        elif kind == "GameContinued":
            self.live, self.started_at = self._configured, effect["wall_time"]
            self._next_turn(effect)
        elif kind == "MoveMade":
            self._push(effect)
        entry = Entry(effect["global_seq"], kind, self.ply, self.rejected, text)
        if kind == "MoveMade":
            self._made.append(entry)
        if effect["req_id"] is not None:
            self._requests[effect["source_id"], effect["req_id"]] = len(self.entries)
        self.entries.append(entry)

    def _begin(self, effect: Effect) -> None:
        board = self.entities[BOARD]
        self.board = self._position(effect)
        if self.live is not None:  # the state does not have the passed square, unless a capture is possible there
            begun = self.live.board()
            if begun.fen() == board["fen"]:
                self.board = begun
        self.started_at = effect["wall_time"]
        self._next_turn(effect)

    def _push(self, effect: Effect) -> None:
        assert self.board is not None  # noqa: S101 - it counted
        uci = self.entities[BOARD]["last_move"]["uci_notation"]
        self.moves_made.append(uci)
        try:
            self.board.push(self.board.parse_uci(uci))
        except UNREADABLE:  # an imported record that python-chess does not play
            self.board = self._position(effect)
        self._next_turn(effect)

    def _position(self, effect: Effect) -> chess.Board:
        """Return the board of the position in the log after an effect."""
        board = self.entities[BOARD]
        try:
            return position(board["variant"], board["fen"])
        except UNREADABLE as error:  # an imported record: live games are checked when they are written
            seq = effect["global_seq"]
            what = f"game {self.game_id}: the position after seq {seq} cannot be read ({error})"
            raise FoldError(what, world_id=self.game_id, global_seq=seq) from error

    def _next_turn(self, effect: Effect) -> None:
        self.turn_at = effect["wall_time"]
        self.rejected = 0
        self._illegal_before = self.entities[self.turn]["illegal_moves_attempted"]


def taken_back(board: chess.Board, count: int) -> chess.Board:
    """Return a copy of a board as it was ``count`` moves ago, including the last move before that."""
    board = board.copy(stack=count + 1)
    for _ in range(count):
        board.pop()
    return board


_MOMENT: Final[TypeAdapter[Moment | None]] = TypeAdapter(Moment | None)
_COUNTING: Final = frozenset({"GameStarted", "GameContinued", "MoveMade", "MoveRejected", "GameEnded"})


#: What the state counts of a side.
_COUNTS: Final = frozenset({"moves", "thinking_time", "timed_moves", "illegal_moves_attempted"})


def _seq(entry: Entry) -> int:
    return entry.seq
