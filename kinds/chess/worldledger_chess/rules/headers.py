"""The tags of a game that is written: those that were recorded, or those that tell of a game that was played here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import chess
import chess.pgn

from worldledger_chess.rules.endings import Player, Reason
from worldledger_chess.rules.gamelog import GameLog
from worldledger_chess.rules.tags import GameFaultError, set_up, standard_names
from worldledger_chess.rules.times import moment

#: The seven tags that every game should have (PGN standard, section 8.1.1).
ROSTER: Final = ("Event", "Site", "Date", "Round", "White", "Black", "Result")
_POSITION: Final = ("FEN", "SetUp", "Variant")
#: The tags that most programs write behind the roster, in the order in which they do.
_USUAL: Final = (
    "GameId",
    "UTCDate",
    "UTCTime",
    "WhiteElo",
    "BlackElo",
    "WhiteRatingDiff",
    "BlackRatingDiff",
    "WhiteTitle",
    "BlackTitle",
    "Variant",
    "TimeControl",
    "ECO",
    "Opening",
    "Termination",
    "FEN",
    "SetUp",
)
_MARKERS: Final = {"white_wins": "1-0", "black_wins": "0-1", "draw": "1/2-1/2"}
#: What Termination says of a reason, where the reader does not find it by itself.
_TERMINATIONS: Final[dict[Reason, str]] = {
    "insufficient_material": "insufficient material",
    "fifty_moves": "fifty moves",
    "threefold_repetition": "threefold repetition",
    "agreement": "normal",
    "resignation": "normal",
    "timeout": "time forfeit",
    "illegal_move": "illegal move",
    "abandoned": "abandoned",
    "adjudication": "adjudication",
    "rules_infraction": "rules infraction",
    "checkmate": "normal",
    "stalemate": "normal",
    "variant_end": "normal",
}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_+#=:-]*\Z")
_PLAYERS: Final[tuple[tuple[str, Player], ...]] = (("White", "white"), ("Black", "black"))


def known(value: str | None) -> str | None:
    """Return a tag's value, stripped; None where it is missing or stands for unknown."""
    value = (value or "").strip()
    return None if value.strip("?.- ") == "" else value


def result_marker(log: GameLog) -> str:
    """Return the result in PGN's own words: ``1-0``, ``0-1``, ``1/2-1/2``, or ``*`` while the game goes on."""
    result = None if log.ended is None else log.ended.get("result")
    return _MARKERS.get(result, "*") if isinstance(result, str) else "*"


def tags_of(log: GameLog, *, event: str | None) -> dict[str, str]:
    """Return the tags of a started game: the roster, the position, what most programs write, the others by name.

    Recorded tags stay as they are. To them, or to the roster where there are none, comes what is needed for the file
    to say what the log says: the players where the log names them, FEN and Variant, and Result and Termination of an
    end that was made here.
    """
    started = log.started or {}
    recorded = started.get("tags")
    if isinstance(recorded, dict):
        tags = {name: value for name, value in recorded.items() if _NAME.match(name) and isinstance(value, str)}
    else:
        tags = _played_here(log, event)
    named = standard_names(tags)
    for name, player in _PLAYERS:
        said = started.get(player)
        if isinstance(said, str) and known(said) is not None and name not in named:
            tags[name] = said
    _add_position(tags, log.initial)
    if log.ended is not None and "raw_result" not in log.ended:
        tags["Result"] = result_marker(log)
        _add_termination(tags, log)
    return _ordered(tags, [*ROSTER, *_POSITION, *_USUAL])


def orders_of(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return the same tags in each order in which programs write them, that of `tags_of` first."""
    return [tags, _ordered(tags, [*ROSTER, *_USUAL])]


def _ordered(tags: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    """Order tags: first those that are named, then the others by name."""
    return {name: tags[name] for name in dict.fromkeys([*names, *sorted(tags)]) if name in tags}


def _played_here(log: GameLog, event: str | None) -> dict[str, str]:
    started = log.started or {}
    tags = {"Event": event or "?", "Site": "?", "Date": "????.??.??", "Round": "?", "Result": result_marker(log)}
    try:
        begun = moment(log.started_at)
    except (ValueError, OverflowError):
        pass
    else:
        day = f"{begun:%Y.%m.%d}"
        tags |= {"Date": day, "UTCDate": day, "UTCTime": f"{begun:%H:%M:%S}"}
    for name, field in (
        ("Event", "event"),
        ("Site", "site"),
        ("Date", "date"),
        ("Round", "round"),
        ("TimeControl", "time_control"),
    ):
        value = started.get(field)
        if isinstance(value, str) and value:
            tags[name] = value
    tags |= {name: log.agent(player) for name, player in _PLAYERS}
    for name, player in _PLAYERS:
        said = started.get(player)
        if isinstance(said, str) and said.strip():
            tags[name] = said
    return tags | {"GameId": log.world_id}


def _add_position(tags: dict[str, str], initial: chess.Board) -> None:
    """Have the tags name the position that the game began with, if they do not."""
    board: chess.Board | None = None
    with suppress(GameFaultError):
        board, _ = set_up(tags, [])
    if (
        board is not None
        and type(board) is type(initial)
        and board.chess960 == initial.chess960
        and board.fen() == initial.fen()
    ):
        return
    game = chess.pgn.Game()
    game.setup(initial)
    for name in [name for name in tags if name.lower() in {"fen", "setup", "variant"}]:
        del tags[name]
    for name in ("FEN", "SetUp", "Variant"):
        if name in game.headers:
            tags[name] = game.headers[name]


def _add_termination(tags: dict[str, str], log: GameLog) -> None:
    tags.pop("Termination", None)
    reason = (log.ended or {}).get("reason")
    said = _TERMINATIONS.get(reason) if reason is not None else None
    if said is None:
        return
    last = log.attempts[-1] if log.attempts else None
    if reason == "illegal_move" and last is not None and last.after_ply == len(log.moves) and last.attempted:
        attempted = last.attempted
        if len(attempted) <= 20 and attempted.isprintable() and not set(attempted) & set("()"):
            said = f"illegal move ({attempted})"
    tags["Termination"] = said


def written_tags(tags: dict[str, str]) -> str:
    """Write tags, one a line. Quotes and backslashes in a value are escaped, and a line break becomes a blank."""
    return "".join(f'[{name} "{_escaped(value)}"]\n' for name, value in tags.items())


def _escaped(value: str) -> str:
    if "\n" in value or "\r" in value:
        value = " ".join(value.split())
    return value.replace("\\", "\\\\").replace('"', '\\"')
