"""The fold of a chess world: how its effects change its state. Source: docs/reference/contracts.md, "Chess".

The state has three entities. ``white`` and ``black``:

- ``agent_id``; ``name`` (the player's, or null); ``moves`` (how many); ``illegal_moves_attempted``;
- ``thinking_time`` (seconds, the sum of those known), ``timed_moves`` (the number of moves with a known time);
- ``clock`` (seconds left when last known, or null).

``board``:

- ``fen``, ``initial_fen`` (as python-chess writes them); ``variant``; ``turn`` (white or black); ``castling_rights``
  (empty for none); ``en_passant_square`` (or null); ``halfmove_clock``; ``fullmove_number``; ``is_check``;
- ``ply`` (how many were made); ``last_move`` ({ply, player, uci_notation, san_notation, from_square, to_square}, or
  null);
- ``status``, ``result``, ``reason`` (see `worldledger_chess.rules.endings`; null while the game goes on);
- ``started_at``, ``ended_at`` (or null), ``last_updated``: wall_time of the effects.

The moves themselves and the legal ones are not in it: the log has the former, ``fen`` determines the latter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import chess

from worldledger.drafts import MAX_WORD
from worldledger.effects import SERVICE_SOURCE, Effect
from worldledger.errors import IllegalEffectError
from worldledger.rulesets.base import MalformedEffectError, Touched
from worldledger.world import WorldState
from worldledger_chess.rules.claims import (
    Start,
    play,
    position_of,
    read_ending,
    read_player,
    read_players,
    read_seconds,
    read_start,
    read_text,
)
from worldledger_chess.rules.endings import Player
from worldledger_chess.rules.positions import ORTHODOX, UNREADABLE, Fields, fen_fields, position, read_fen

#: The entity of the game: its position and its status.
BOARD: Final = "board"

_UCI: Final = re.compile(r"(?:([a-h][1-8])|[PNBRQK]@)([a-h][1-8])[nbrqk]?\Z|0000\Z")
_MAX_SAN: Final = 16
_WITH_BOARD: Final[dict[Player, tuple[str, ...]]] = {"white": ("white", BOARD), "black": ("black", BOARD)}
_ALL: Final = ("white", "black", BOARD)


def game_started(state: WorldState, effect: Effect) -> Touched:
    """Fold GameStarted. One world is one game, so a second start is ignored."""
    if BOARD in state.entities:
        raise MalformedEffectError("the game was started before")
    try:
        start = read_start(effect["payload"])
    except IllegalEffectError as error:
        raise MalformedEffectError(str(error)) from None
    now = effect["wall_time"]
    state.entities["white"] = _new_player(start, "white")
    state.entities["black"] = _new_player(start, "black")
    state.entities[BOARD] = {
        "fen": start.fen,
        "initial_fen": start.fen,
        "variant": start.variant,
        **start.fields._asdict(),
        "is_check": start.is_check,
        "ply": 0,
        "last_move": None,
        "status": "in_progress",
        "result": None,
        "reason": None,
        "started_at": now,
        "ended_at": None,
        "last_updated": now,
    }
    return _ALL


def game_continued(state: WorldState, effect: Effect) -> Touched:
    """Fold GameContinued: from here on these agents play. Only the service says so, where a fork is played on.

    No clock runs on: what the players before had left is none of these.
    """
    board = _in_play(state)
    if effect["source_id"] != SERVICE_SOURCE:
        raise MalformedEffectError("only the service lets other agents go on with a game")
    try:
        agents, names = read_players(effect["payload"])
    except IllegalEffectError as error:
        raise MalformedEffectError(str(error)) from None
    for player, agent in agents.items():
        name = names[player]
        state.entities[player].update(agent_id=agent, name=name and name[:MAX_WORD], clock=None)
    board["last_updated"] = effect["wall_time"]
    return _ALL


def move_made(state: WorldState, effect: Effect) -> Touched:
    """Fold MoveMade.

    A payload that has the move in both notations and the ``fen`` after it is trusted: the PGN reader wrote it, or the
    rules compared it with the board. Any other move is played by python-chess.
    """
    payload = effect["payload"]
    board = _in_play(state)
    turn: Player = board["turn"]
    try:
        player = read_player(payload)
        if player is not None and player != turn:
            raise MalformedEffectError(f"it is the turn of {turn}")
        thinking_time = read_seconds(payload, "thinking_time")
        clock = read_seconds(payload, "clock")
        made = _as_stated(board, payload) or _as_played(board, payload)
    except IllegalEffectError as error:
        raise MalformedEffectError(str(error)) from None
    board["fen"], fields, board["is_check"], uci, san, origin, target = made
    (
        board["turn"],
        board["castling_rights"],
        board["en_passant_square"],
        board["halfmove_clock"],
        board["fullmove_number"],
    ) = fields
    board["ply"] = ply = board["ply"] + 1
    board["last_move"] = {
        "ply": ply,
        "player": turn,
        "uci_notation": uci,
        "san_notation": san,
        "from_square": origin,
        "to_square": target,
    }
    board["last_updated"] = effect["wall_time"]
    mover = state.entities[turn]
    mover["moves"] += 1
    if thinking_time is not None:
        # Rounded, so that the sum of milliseconds is the same as that of whole ones.
        mover["thinking_time"] = round(mover["thinking_time"] + thinking_time, 6)
        mover["timed_moves"] += 1
    if clock is not None:
        mover["clock"] = clock
    return _WITH_BOARD[turn]


def move_rejected(state: WorldState, effect: Effect) -> Touched:
    """Fold MoveRejected; by default it is of the side to move, and the reason is an illegal move."""
    payload = effect["payload"]
    board = _in_play(state)
    try:
        player = read_player(payload) or board["turn"]
        reason = read_text(payload, "reason")
    except IllegalEffectError as error:
        raise MalformedEffectError(str(error)) from None
    if reason in {None, "illegal_move"}:
        state.entities[player]["illegal_moves_attempted"] += 1
    board["last_updated"] = effect["wall_time"]
    return _WITH_BOARD[player]


def game_ended(state: WorldState, effect: Effect) -> Touched:
    """Fold GameEnded; the record counts, whatever is on the board."""
    board = _in_play(state)
    try:
        claim = read_ending(effect["payload"])
    except IllegalEffectError as error:
        raise MalformedEffectError(str(error)) from None
    board.update(claim._asdict())
    board["ended_at"] = board["last_updated"] = effect["wall_time"]
    return BOARD


def _new_player(start: Start, player: Player) -> dict[str, Any]:
    name = start.names[player]
    return {
        "agent_id": start.agents[player],
        "name": name and name[:MAX_WORD],  # a recorded name can be of any length, the state is bounded
        "moves": 0,
        "illegal_moves_attempted": 0,
        "thinking_time": 0.0,
        "timed_moves": 0,
        "clock": None,
    }


def _in_play(state: WorldState) -> dict[str, Any]:
    board: dict[str, Any] | None = state.entities.get(BOARD)
    if board is None or board["status"] != "in_progress":
        raise MalformedEffectError("no game is in progress")
    return board


#: A move that was made: the FEN after it, its fields, whether it gives check, both notations and both squares.
_Made: TypeAlias = tuple[str, Fields, bool, str, str, str | None, str | None]


def _as_stated(board: dict[str, Any], payload: dict[str, Any]) -> _Made | None:
    """Return the move as a complete payload states it; None if it is incomplete, or not of this position."""
    fen, uci, san = payload.get("fen"), payload.get("uci_notation"), payload.get("san_notation")
    if not (type(fen) is type(uci) is type(san) is str and san):
        return None
    fields, move = fen_fields(fen), _UCI.match(uci)
    ply = board["ply"] + 1
    if fields is None or move is None or len(san) > _MAX_SAN or payload.get("ply", ply) != ply:
        return None
    if fields.turn == board["turn"]:
        return None
    origin, target = move.groups()
    last = san[-1]
    is_check = last == "+"
    if last == "#" or target is None:
        # In a variant "#" may be another end than checkmate, and a null move shows nothing.
        is_check = target is not None and board["variant"] in ORTHODOX
        if not is_check:
            try:
                is_check = position(board["variant"], fen).is_check()
            except UNREADABLE:
                return None
    return fen, fields, is_check, uci, san, origin, target


def _as_played(board: dict[str, Any], payload: dict[str, Any]) -> _Made:
    """Play the move; raise IllegalEffectError if it cannot be made."""
    facts, fields, is_check = play(position_of(board), payload, ply=board["ply"] + 1, null_moves=True)
    names = ("uci_notation", "san_notation", "from_square", "to_square")
    uci, san, origin, target = (facts[name] for name in names)
    return facts["fen"], fields, is_check, uci, san, origin, target


# -- the state read as python-chess's board --------------------------------------------------------------------


def board_of(entities: Mapping[str, Any]) -> chess.Board:
    """Return python-chess's board of a world's entities, without its moves; the passed square is that of the last move.

    Raises ValueError as `BoardState.of` does.
    """
    entity = entities.get(BOARD)
    if entity is None:
        raise ValueError("the game has not started")
    if entity["variant"] not in ORTHODOX:
        raise ValueError(f"a BoardState is of standard chess or Chess960, not of {entity['variant']}")
    board = read_fen(entity["fen"], chess960=entity["variant"] == "chess960")
    last = entity["last_move"]
    if last is not None and board.ep_square is None and last["from_square"] is not None:
        origin, target = chess.parse_square(last["from_square"]), chess.parse_square(last["to_square"])
        if board.piece_type_at(target) == chess.PAWN and abs(origin - target) == 16:
            board.ep_square = (origin + target) // 2
    return board
