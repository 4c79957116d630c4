"""Validating a game's log without the fold: python-chess plays it again.

Source: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import chess

from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger_chess.rules.claims import Claim, Start, check_facts, read_ending, read_start
from worldledger_chess.rules.endings import Player, Status
from worldledger_chess.rules.entities import Game, Move
from worldledger_chess.rules.moves import FACTS, play_move
from worldledger_chess.rules.positions import UNREADABLE
from worldledger_chess.rules.times import moment

_KINDS: Final = frozenset({"GameStarted", "GameContinued", "MoveMade", "MoveRejected", "GameEnded"})
#: The statements of a MoveMade about its move.
_STATED: Final = tuple(name for name in FACTS if name != "san_notation")


def validate_game_state(effects: Iterable[Effect], game: Game | None = None) -> list[str]:
    """Return all problems with a game's log, and with a Game that was made from it; [] if there are none.

    ``effects`` is the world's whole log in order, up to the Game's effect; effects that do not belong to a game are
    skipped. Turns alternate, every move is legal and states only what is true, an end is one that the board allows,
    nothing follows it. After an illegal move the rest of the log is not checked.
    """
    replay = _Replay()
    for effect in effects:
        if effect["kind"] in _KINDS:
            replay.see(effect)
    if replay.start is None:
        replay.errors.append("The game has not started")
    elif game is not None and not replay.is_lost:
        replay.compare(game)
    return replay.errors


def move_errors(move: Move, board: chess.Board) -> list[str]:
    """Return the problems with a move on the board on which it is to be made; the board is not changed."""
    try:
        played = board.parse_uci(move.uci_notation)
    except ValueError:
        return [f"Illegal move in history: {move.uci_notation}", *_of_the_squares(move, board)]
    facts = play_move(board.copy(), played, ply=0, agent_id="")
    given = move.model_dump(exclude={"timestamp", "thinking_time"})
    return [
        f"{move.uci_notation}: {name} says {value!r}, but it is {facts[name]!r}"
        for name, value in given.items()
        if value != facts[name]
    ]


def _of_the_squares(move: Move, board: chess.Board) -> list[str]:
    colour = move.player == "white"
    errors = []
    if board.color_at(chess.parse_square(move.from_square)) is not colour:
        errors.append(f"{move.uci_notation}: {move.from_square} has no piece of {move.player}")
    if board.color_at(chess.parse_square(move.to_square)) is colour and not move.is_castling:
        errors.append(f"{move.uci_notation}: {move.to_square} has a piece of {move.player} already")
    return errors


class _Replay:
    """The game while it is played again. ``is_lost``: there was an illegal move, so there is no board after it."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.start: Start | None = None
        self.is_lost = False
        self._board = chess.Board()
        self._started_at = 0.0
        self._ended_at: float | None = None
        self._updated_at = 0.0
        self._claim: Claim | None = None
        self._moves: list[Move | str] = []

    @property
    def _turn(self) -> Player:
        return "white" if self._board.turn else "black"

    def see(self, effect: Effect) -> None:
        """Check the next effect."""
        kind, where = effect["kind"], f"{effect['kind']} {effect['global_seq']}"
        if kind == "GameStarted":
            self._begin(effect, where)
        elif self.start is None:
            self.errors.append(f"{where} comes before the game has started")
        elif self._ended_at is not None:
            self.errors.append(f"{where} comes after the end of the game")
        elif not self.is_lost:
            self._updated_at = effect["wall_time"]
            if kind == "MoveMade":
                self._move(effect["payload"])
            elif kind == "GameEnded":
                self._end(effect, where)

    def _begin(self, effect: Effect, where: str) -> None:
        if self.start is not None:
            self.errors.append(f"{where}: the game was started before")
            return
        try:
            self.start = read_start(effect["payload"])
        except IllegalEffectError as error:
            self.errors.append(f"{where}: {error.reason}")
            return
        self._board = self.start.board()
        self._started_at = self._updated_at = effect["wall_time"]

    def _move(self, payload: Mapping[str, Any]) -> None:
        turn, count = self._turn, len(self._moves)
        player = payload.get("player")
        if player not in (None, turn):
            self.errors.append(_turn_mismatch(count, turn))
        text = payload.get("uci_notation") or payload.get("san_notation") or ""
        try:
            move = self._board.parse_uci(text) if payload.get("uci_notation") else self._board.parse_san(text)
            if not move:
                raise ValueError("a null move")
        except (*UNREADABLE, TypeError, AttributeError):
            self.errors.append(f"Illegal move in history: {text}")
            self.is_lost = True
            return
        facts = play_move(self._board, move, ply=count + 1, agent_id="")
        self._moves.append(facts["uci_notation"])
        try:
            check_facts({name: value for name, value in payload.items() if name != "player"}, _stated(facts))
        except IllegalEffectError as error:
            about = "Board state doesn't match move history" if error.details.get("field") == "fen" else "Wrong fact"
            self.errors.append(f"{about}: ply {count + 1}: {error.reason}")

    def _end(self, effect: Effect, where: str) -> None:
        self._ended_at = effect["wall_time"]
        payload = effect["payload"]
        if payload.get("result") is None:
            self.errors.append("Terminal game must have result")
            return
        try:
            self._claim = read_ending(payload)
            check_facts(payload, {"final_fen": self._board.fen(), "plies": len(self._moves)})
        except IllegalEffectError as error:
            self.errors.append(f"{where}: {error.reason}")
            return
        self._check_status(self._claim.status)

    def _check_status(self, status: Status) -> None:
        outcome = self._board.outcome()
        mated = outcome is not None and outcome.winner is not None
        stuck = outcome is not None and outcome.termination is chess.Termination.STALEMATE
        if (status == "checkmate" and not mated) or (status == "stalemate" and not stuck):
            self.errors.append(f"Terminal state {status} is not on the board: {self._board.fen()}")

    def compare(self, game: Game) -> None:
        """Compare a Game with the played one."""
        count, turn = len(self._moves), self._turn
        if game.current_turn != turn:
            self.errors.append(_turn_mismatch(count, turn))
        if [move.uci_notation for move in game.move_history] != self._moves:
            self.errors.append("Move history is not that of the log")
        board = self._board.fen(en_passant="fen")
        if game.board_state.fen not in {board, self._board.fen()}:
            self.errors.append("Board state doesn't match move history")
        status = "in_progress" if self._claim is None else self._claim.status
        result = None if self._claim is None else self._claim.result
        if game.status != status:
            self.errors.append(f"Status is {game.status}, but by the log it is {status}")
        if game.status != "in_progress":
            if game.result is None:
                self.errors.append("Terminal game must have result")
            if game.ended_at is None:
                self.errors.append("Terminal game must have end timestamp")
        if game.result != result:
            self.errors.append(f"Result is {game.result}, but by the log it is {result}")
        ended = None if self._ended_at is None else moment(self._ended_at)
        for name, at in (
            ("started_at", moment(self._started_at)),
            ("ended_at", ended),
            ("last_updated", moment(self._updated_at)),
        ):
            if getattr(game, name) != at:
                self.errors.append(f"{name} is not that of the log")


def _stated(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: facts[name] for name in _STATED}


def _turn_mismatch(count: int, turn: Player) -> str:
    return f"Turn mismatch: {'odd' if count % 2 else 'even'} moves should be {turn}'s turn"


__all__ = ["move_errors", "validate_game_state"]
