"""The events for watchers of a game, made from the log's effects, so that any process can make them. Pure.

Source: docs/reference/contracts.md, "Chess".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

import orjson

from worldledger.drafts import MAX_WORD
from worldledger.effects import Effect
from worldledger_chess.arena.attempts import kept
from worldledger_chess.rules.entities import Move
from worldledger_chess.rules.times import moment

EventType: TypeAlias = Literal["game_started", "move_made", "move_rejected", "game_ended"]
EVENT_TYPES: Final[tuple[EventType, ...]] = get_args(EventType)

#: Longest text that is copied from an effect, in characters: an event has less than 64 KiB.
_MOST_CHARACTERS: Final = 1000
#: The members of a Move that an event has.
_MOVE: Final = tuple(name for name in Move.model_fields if name != "timestamp")


class GameEvent:
    """One event of a game, made once for all watchers.

    ``global_seq`` is its effect's, after which a watcher can continue. ``data`` is the parsed ``text``, JSON in UTF-8,
    less than 64 KiB: ``type``, ``game_id``, ``global_seq``, ``timestamp`` (ISO 8601, UTC) and

    - ``game_started``: ``variant``, ``fen``, ``white``, ``black`` ({agent_id, name}); where a fork is played on, the
      position of the fork point and those who play from there;
    - ``move_made``: ``move`` (a Move), ``agent_id``, ``ply``, ``fen`` after it (as in the log), ``turn``;
    - ``move_rejected``: ``player``, ``agent_id``, ``ply``, ``attempted``, ``reason``, ``detail``;
    - ``game_ended``: ``status``, ``result``, ``reason``, ``final_fen``, ``plies``.

    What the log does not say is null.
    """

    __slots__ = ("game_id", "global_seq", "text", "type")

    def __init__(self, type_: EventType, effect: Effect, said: Mapping[str, Any]) -> None:
        self.type = type_
        self.game_id = effect["world_id"]
        self.global_seq = effect["global_seq"]
        self.text = orjson.dumps(
            {
                "type": type_,
                "game_id": self.game_id,
                "global_seq": self.global_seq,
                "timestamp": moment(effect["wall_time"]).isoformat().replace("+00:00", "Z"),
                **said,
            }
        )

    @property
    def data(self) -> dict[str, Any]:
        """The parsed text."""
        data: dict[str, Any] = orjson.loads(self.text)
        return data

    def __repr__(self) -> str:
        return f"GameEvent({self.text.decode()})"


def event_of(effect: Effect) -> GameEvent | None:
    """Return the event that an effect is for watchers; None if they are not told of it."""
    found = _EVENTS.get(effect["kind"])
    if found is None:
        return None
    type_, say = found
    return GameEvent(type_, effect, say(effect, effect["payload"]))


def _started(effect: Effect, payload: Mapping[str, Any]) -> dict[str, Any]:
    agents = payload.get("agents")
    named = agents if isinstance(agents, dict) else payload
    sides = {
        player: {"agent_id": _text(named, player, MAX_WORD), "name": _text(payload, player, MAX_WORD)}
        for player in ("white", "black")
    }
    fen = _text(payload, "fen" if effect["kind"] == "GameContinued" else "initial_fen")
    return {"variant": _text(payload, "variant"), "fen": fen, **sides}


def _made(effect: Effect, payload: Mapping[str, Any]) -> dict[str, Any]:
    fen = _text(payload, "fen")
    move = {name: _plain(payload, name) for name in _MOVE}
    move["timestamp"] = _text(payload, "timestamp") or moment(effect["wall_time"]).isoformat().replace("+00:00", "Z")
    return {
        "move": move,
        "agent_id": _text(payload, "agent_id", MAX_WORD) or effect["source_id"],
        "ply": _plain(payload, "ply"),
        "fen": fen,
        "turn": None if fen is None else "white" if " w " in fen else "black",
    }


def _rejected(effect: Effect, payload: Mapping[str, Any]) -> dict[str, Any]:
    attempted = _text(payload, "attempted")
    return {
        "player": _text(payload, "player"),
        "agent_id": _text(payload, "agent_id", MAX_WORD) or effect["source_id"],
        "ply": _plain(payload, "ply"),
        "attempted": None if attempted is None else kept(attempted),
        "reason": _text(payload, "reason"),
        "detail": _text(payload, "detail"),
    }


def _ended(effect: Effect, payload: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(payload, name) for name in ("status", "result", "reason", "final_fen", "plies")}


def _text(payload: Mapping[str, Any], name: str, longest: int = _MOST_CHARACTERS) -> str | None:
    value = payload.get(name)
    return value[:longest] if isinstance(value, str) else None


def _plain(payload: Mapping[str, Any], name: str) -> Any:
    """Return a value that is a single word or number; None for any other."""
    value = payload.get(name)
    return _text(payload, name) if isinstance(value, str) else value if isinstance(value, (bool, int, float)) else None


_Say: TypeAlias = Callable[[Effect, Mapping[str, Any]], dict[str, Any]]
_EVENTS: Final[Mapping[str, tuple[EventType, _Say]]] = {
    "GameStarted": ("game_started", _started),
    "GameContinued": ("game_started", _started),
    "MoveMade": ("move_made", _made),
    "MoveRejected": ("move_rejected", _rejected),
    "GameEnded": ("game_ended", _ended),
}
