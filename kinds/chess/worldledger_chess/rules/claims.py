"""What the payloads of a chess world say, read the same way by the rules and by the fold.

Everything here raises IllegalEffectError for what cannot be read: the rules let it through to the caller, the fold
takes it as a malformed effect. So whatever the rules accept, the fold can read.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, get_args

import chess

from worldledger.drafts import MAX_WORD
from worldledger.errors import IllegalEffectError
from worldledger_chess.rules.endings import Player, Reason, Result, Status
from worldledger_chess.rules.moves import FACTS, play_move
from worldledger_chess.rules.positions import (
    MAX_FEN,
    STANDARD,
    UNREADABLE,
    VARIANTS,
    Fields,
    fen_fields,
    position,
)

PLAYERS: Final[tuple[Player, ...]] = get_args(Player)
ENDED: Final[tuple[Status, ...]] = tuple(status for status in get_args(Status) if status != "in_progress")
RESULTS: Final[tuple[Result, ...]] = get_args(Result)
REASONS: Final[tuple[Reason, ...]] = get_args(Reason)

#: Longest time that a payload can state, in seconds: more than 30 years, and so few that sums stay finite.
MAX_SECONDS: Final = 1e9
#: Boards after the latest moves, by variant and FEN: what comes next in a game need not read its FEN again. Each is
#: taken out by who uses it.
_LATEST: Final[dict[tuple[str, str], chess.Board]] = {}
_MOST_LATEST: Final = 1000
#: Longest text of a move that is read at all.
_MAX_MOVE: Final = 20


class Players(NamedTuple):
    """The players: for each colour the agent, and the player's name."""

    agents: dict[Player, str]
    names: dict[Player, str | None]


class Start(NamedTuple):
    """What a GameStarted says: of each colour the agent and the player's name, and the position to start from.

    ``initial`` is the position as it says it; ``fen``, ``fields``, ``is_check`` and ``status`` are read from that.
    """

    agents: dict[Player, str]
    names: dict[Player, str | None]
    variant: str
    initial: str | None
    fen: str
    fields: Fields
    is_check: bool
    status: chess.Status

    def board(self) -> chess.Board:
        """Return the position as a board of one's own."""
        return position(self.variant, self.initial)


class Played(NamedTuple):
    """A move that was made: what is true of it, as the PGN reader writes it, and of the position after it."""

    facts: dict[str, Any]
    fields: Fields
    is_check: bool


class Claim(NamedTuple):
    """What a GameEnded says."""

    status: Status
    result: Result
    reason: Reason | None


def read_start(payload: Mapping[str, Any]) -> Start:
    """Read a GameStarted.

    ``agents`` names the agent of each colour; without it, ``white`` and ``black`` do. ``variant`` is standard where it
    is missing, ``initial_fen`` the variant's usual position.
    """
    agents, names = read_players(payload)
    variant = read_text(payload, "variant")
    if variant is None:
        variant = STANDARD
    elif variant not in VARIANTS:
        raise _unreadable(f"variant is one of {', '.join(sorted(VARIANTS))}", "$.payload.variant")
    initial = read_text(payload, "initial_fen")
    try:
        read = _read_position if initial is None or len(initial) <= MAX_FEN else _read_position.__wrapped__
        return Start(agents, names, variant, initial, *read(variant, initial))
    except UNREADABLE as error:
        raise _off_the_rules(error, "$.payload.initial_fen") from None


@lru_cache(maxsize=256)  # most games begin alike
def _read_position(variant: str, text: str | None) -> tuple[str, Fields, bool, chess.Status]:
    """Return what a Start says of the position with this FEN, by default the variant's usual one.

    Raises one of `UNREADABLE`.
    """
    board = position(variant, text)
    fen = board.fen()
    return fen, _fields(fen), board.is_check(), board.status()


def read_players(payload: Mapping[str, Any]) -> Players:
    """Read who plays, from a GameStarted or a GameContinued."""
    names: dict[Player, str | None] = {player: read_text(payload, player) for player in PLAYERS}
    agents = payload.get("agents")
    if agents is None:
        named: dict[Player, Any] = dict(names)
        where, hint = "$.payload", "; without agents, white and black name them"
    elif isinstance(agents, dict):
        named = {player: agents.get(player) for player in PLAYERS}
        where, hint = "$.payload.agents", ""
    else:
        raise _unreadable("agents is an object with white and black", "$.payload.agents")
    for player, agent in named.items():
        if type(agent) is not str or not 0 < len(agent) <= MAX_WORD:
            raise _unreadable(
                f"the agent of {player} is a text of 1 to {MAX_WORD} characters{hint}", f"{where}.{player}"
            )
    return Players(named, names)


def read_text(payload: Mapping[str, Any], name: str) -> str | None:
    """Read a text; None where it is missing."""
    text = payload.get(name)
    if text is None or type(text) is str:
        return text
    raise _unreadable(f"{name} is a text", f"$.payload.{name}")


def read_player(payload: Mapping[str, Any]) -> Player | None:
    """Read whose effect it is; None where ``player`` is missing."""
    player = payload.get("player")
    if player is None:
        return None
    if player not in PLAYERS:
        raise _unreadable("player is white or black", "$.payload.player")
    return "white" if player == "white" else "black"


def read_seconds(payload: Mapping[str, Any], name: str) -> float | None:
    """Read a time; None where it is missing."""
    seconds = payload.get(name)
    if seconds is None:
        return None
    if (type(seconds) is float or type(seconds) is int) and 0 <= seconds <= MAX_SECONDS:
        return float(seconds)
    raise _unreadable(f"{name} is a number of seconds from 0 to {MAX_SECONDS:.0f}", f"$.payload.{name}")


def read_ending(payload: Mapping[str, Any]) -> Claim:
    """Read how a game ended, in the words of `worldledger_chess.rules.endings`; ``reason`` may be missing."""
    words: dict[str, Any] = {}
    for name, known in (("status", ENDED), ("result", RESULTS), ("reason", REASONS)):
        word = payload.get(name)
        if word not in known and not (word is None and name == "reason"):
            raise IllegalEffectError(
                f"the {name} of an ended game is one of {', '.join(known)}", f"$.payload.{name}", rule=name
            )
        words[name] = word
    return Claim(**words)


def position_of(board: Mapping[str, Any]) -> chess.Board:
    """Return python-chess's board for the entity ``board``: the caller's own."""
    latest = _LATEST.pop((board["variant"], board["fen"]), None)
    if latest is not None:
        return latest
    try:
        return position(board["variant"], board["fen"])
    except UNREADABLE as error:
        raise _off_the_rules(error, "$.payload") from None


def play(board: chess.Board, payload: Mapping[str, Any], *, ply: int, null_moves: bool) -> Played:
    """Push a MoveMade's move on the board.

    The move is ``uci_notation``, or without that ``san_notation``, which then may be written as loosely as
    python-chess reads it. With ``null_moves`` a null move is taken that says so by ``is_null``. Raises
    IllegalEffectError where the move is not legal, and where another field misstates it.
    """
    uci, san = read_text(payload, "uci_notation"), read_text(payload, "san_notation")
    if uci is None and san is None:
        raise _unreadable("a move has uci_notation, or san_notation", "$.payload.uci_notation")
    try:
        move = _find(board, uci, san)
        if not move and not (null_moves and payload.get("is_null") is True and not board.is_check()):
            raise _illegal(board, uci or san or "", uci is None, "is not legal")
        facts = play_move(board, move, ply=ply, agent_id="")
        fields = _fields(facts["fen"])
        is_check = board.is_check()
    except UNREADABLE as error:
        raise _off_the_rules(error, "$.payload") from None
    loose = "san_notation" if uci is None else None
    check_facts(payload, {name: facts[name] for name in FACTS if name != loose})
    return Played(facts, fields, is_check)


def remember(board: chess.Board, played: Played) -> None:
    """Keep a board that a move was made on, as it would be read from its FEN; it is the caller's no more."""
    if type(board) is not chess.Board:  # a variant knows more than its FEN
        return
    board.clear_stack()
    if played.fields.en_passant_square is None:
        board.ep_square = None
    _LATEST["chess960" if board.chess960 else STANDARD, played.facts["fen"]] = board
    if len(_LATEST) > _MOST_LATEST:
        _LATEST.pop(next(iter(_LATEST)), None)


def check_facts(payload: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Raise IllegalEffectError for the first fact that the payload states otherwise; what it leaves out is right."""
    for name, fact in facts.items():
        given = payload.get(name)
        if given is not None and (given != fact or type(given) is not type(fact)):
            raise IllegalEffectError(
                f"{name} says {_short(given)}, but in this game it is {fact!r}",
                f"$.payload.{name}",
                rule="field_mismatch",
                field=name,
            )


def _find(board: chess.Board, uci: str | None, san: str | None) -> chess.Move:
    text = san or "" if uci is None else uci
    if len(text) > _MAX_MOVE:
        raise _illegal(board, text, uci is None, "cannot be read as a move")
    try:
        return board.parse_san(text) if uci is None else board.parse_uci(text)
    except chess.InvalidMoveError:
        why = "cannot be read as a move"
    except chess.AmbiguousMoveError:
        why = "is ambiguous"
    except chess.IllegalMoveError:
        why = "is not legal"
    raise _illegal(board, text, uci is None, why)


def _illegal(board: chess.Board, text: str, is_san: bool, why: str) -> IllegalEffectError:
    name = "san_notation" if is_san else "uci_notation"
    fen = board.fen()
    return IllegalEffectError(
        f"{_short(text)} {why} in {fen}", f"$.payload.{name}", rule="illegal_move", move=text[:_MAX_MOVE], fen=fen
    )


def _fields(fen: str) -> Fields:
    fields = fen_fields(fen)
    if fields is None:
        raise ValueError(f"its FEN is too long: {fen}")
    return fields


def _off_the_rules(error: Exception, path: str) -> IllegalEffectError:
    return IllegalEffectError(f"the position cannot be played: {_short(str(error))}", path, rule="invalid_position")


def _unreadable(reason: str, path: str) -> IllegalEffectError:
    return IllegalEffectError(reason, path, rule="payload")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
