"""A game's log as PGN: the inverse of `worldledger_chess.rules.pgn`, as far as the log has what a file had.

Reading the written text gives the same effects again: kinds, payloads and times. The log leaves out some parts of a
file; if the file had them, its ``digest`` differs from that of the written text:

- sidelines: each counted one is written as ``()``, which is an empty one;
- the order of tags, which is one that most programs write;
- repeated tags, the division into several comments, the spelling of moves and clocks, text after the result.

A line break in a Result, which PGN does not allow, is written as a blank. A game without any tag that could not be told
from the one before it gets its Result as a tag.

Some things can be written in several ways that are read as the same effects: a thinking time that the clocks also give
may have an ``[%emt]``, commands may come before or after a comment's words, and the moves may be followed by the
Result's own words (``Illegal move (h2h4) by Somebody``) or 0-1. The way with the recorded digest is chosen, so that the
written game is recognised as the recorded one.

A live game has no tags of its own: it gets the roster, ``GameId`` (the world), ``UTCDate``, ``UTCTime`` and what else
is known. Rejected attempts are written as comments, except for the one in the result of a recorded game.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import groupby, product
from typing import Any, Final, NamedTuple

import chess
import chess.pgn

from worldledger.errors import SimulationError
from worldledger_chess.rules.clocks import Stopwatch, is_short_time, read_comment, read_time_control
from worldledger_chess.rules.endings import (
    MARKERS,
    MAX_RESULT,
    Player,
    Reason,
    Rejected,
    ending_of,
    is_illegal_move_text,
    is_remarked_result,
    raw_result_of,
    standard_result,
)
from worldledger_chess.rules.gamelog import GameLog, game_digest
from worldledger_chess.rules.tags import GameFaultError, set_up, standard_names
from worldledger_chess.rules.times import moment

# -- tags: recorded ones, or those of a live game ---------------------------------------------------------------

#: The seven tags that every game should have (PGN standard, section 8.1.1).
ROSTER: Final = ("Event", "Site", "Date", "Round", "White", "Black", "Result")
_POSITION: Final = ("FEN", "SetUp", "Variant")
#: The tags that most programs write after the roster, in their order.
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
#: The Termination for a reason that the reader does not find by itself.
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
#: How the names of tags begin that say something about the players, or about their clocks.
_OF_PLAYERS: Final = ("White", "Black", "TimeControl")


def known(value: str | None) -> str | None:
    """Return a tag's value, stripped; None if it is missing or means unknown."""
    value = (value or "").strip()
    return None if value.strip("?.- ") == "" else value


def result_marker(log: GameLog) -> str:
    """Return the result in PGN's own words: ``1-0``, ``0-1``, ``1/2-1/2``, or ``*`` while the game goes on."""
    result = None if log.ended is None else log.ended.get("result")
    return MARKERS.get(result, "*") if isinstance(result, str) else "*"


def tags_of(log: GameLog, *, event: str | None) -> dict[str, str]:
    """Return the tags of a started game: the roster, the position, what most programs write, the others by name.

    Recorded tags stay as they are. To them, or to the roster if there are none, is added what the log knows besides:
    the players if the log names them, FEN and Variant, and Result and Termination of the end of a live game. A fork
    has its own GameId, players and result; where others play on, the tags about the players before are left out.
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
    is_fork = log.begun_in != log.world_id
    if log.continued:
        tags = {name: value for name, value in tags.items() if not name.startswith(_OF_PLAYERS)}
    if is_fork:
        tags |= {"GameId": log.world_id} | {name: log.name(player) for name, player in _PLAYERS}
    if is_fork or (log.ended is not None and "raw_result" not in log.ended):
        tags["Result"] = result_marker(log)
        _add_termination(tags, log)
    return _ordered(tags, [*ROSTER, *_POSITION, *_USUAL])


def orders_of(tags: dict[str, str]) -> list[dict[str, str]]:
    """Return the same tags in each of the orders of programs, that of `tags_of` first."""
    return [tags, _ordered(tags, [*ROSTER, *_USUAL])]


def _ordered(tags: dict[str, str], names: Sequence[str]) -> dict[str, str]:
    """Order tags: first the named ones, then the others by name."""
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
    """Add the position that the game began with to the tags, if it is missing."""
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


# -- comments: the times, evaluation and words of a move's payload, written so that they can be read back ----------
#
# This is the inverse of `worldledger_chess.rules.clocks.read_comment`. Text stays as it is, line breaks included; a
# comment with a ``}`` in it, which a comment in braces cannot have, becomes one to the end of the line (``;``). What no
# file can hold (a ``}`` in a text of several lines, words that would be read as a command) is replaced by something
# similar.

_MAX_HOURS: Final = 99_999
# One blank between two words: there a comment can be split, because the reader joins the parts with one.
_JOINT: Final = re.compile(r"(?<=\S) (?=\S)")
# After a blank line a tag ends a comment that has another brace in it: the comment counts as never closed.
_NEXT_GAME: Final = re.compile(r"\n(?:[ \t\r\f\v]*\n)+(?=\s*\[)")


def milliseconds(seconds: Any) -> int | None:
    """Return a payload's time in whole milliseconds; None if there is none, or one that PGN cannot write."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _MAX_HOURS * 3600:
        return None
    return round(seconds * 1000)


def remarks_of(payload: Mapping[str, Any], *, elapsed: int | None, commands_first: bool = False) -> list[str]:
    """Return the comments after a move, as they are written.

    ``elapsed`` is the value of ``[%emt]``, in milliseconds; None for no such command. The text comes first, then the
    commands eval, clk, emt and the others; with ``commands_first`` clk, emt, eval and the others, and then the text.
    Programs write either.
    """
    commands = _commands(payload, elapsed, "clk emt eval" if commands_first else "eval clk emt")
    said = payload.get("comment")
    text = said.replace("\r\n", "\n").replace("\r", "\n").strip() if isinstance(said, str) else ""
    if not commands:
        return plain_remarks(text)
    if text and "}" not in text:
        whole = " ".join([*commands, text] if commands_first else [text, *commands])
        if _is_read_as(whole, text, commands) and not _is_taken_for_open(whole):
            return [_in_braces(whole)]
    return [*plain_remarks(text), _in_braces(" ".join(commands))]


def plain_remarks(text: str, *, has_commands: bool = False) -> list[str]:
    """Return the comments for a text; none if it is empty.

    ``has_commands``: commands in it may be read as such, as before the first move, where they are kept verbatim.
    """
    text = text.strip()
    if not text:
        return []
    if not _is_taken_for_open(text) and (has_commands or _is_read_as(text, text, [])):
        cut = _cut(text)
        if cut is not None:
            return cut
    text = _NEXT_GAME.sub("\n", text).replace("}", ")").replace("[%", "[ %")
    return [_in_braces(text)]


def _cut(text: str) -> list[str] | None:
    """Split a text at its braces; None if that is impossible."""
    if "}" not in text:
        return [_in_braces(text)]
    runs = [(several, " ".join(run)) for several, run in groupby(_JOINT.split(text), lambda word: "\n" in word)]
    if any(several and "}" in run for several, run in runs):
        return None
    return [f"; {run}\n" if "}" in run else _in_braces(run) for _, run in runs]


def _is_taken_for_open(text: str) -> bool:
    return "{" in text and _NEXT_GAME.search(text) is not None


def _in_braces(text: str) -> str:
    return f"{{ {text} }}"


def _is_read_as(body: str, text: str, commands: Sequence[str]) -> bool:
    """Return whether a comment is read as exactly this text and these commands."""
    return read_comment(body) == read_comment(" ".join(commands))._replace(text=text)


def _commands(payload: Mapping[str, Any], elapsed: int | None, order: str) -> list[str]:
    clock = milliseconds(payload.get("clock"))
    values = {
        "eval": _evaluation(payload.get("evaluation")),
        "clk": None if clock is None else _time(clock),
        "emt": None if elapsed is None else _time(elapsed),
    }
    known = [f"[%{name} {values[name]}]" for name in order.split() if values[name] is not None]
    listed = payload.get("commands")
    others = [other for other in (listed if isinstance(listed, list) else ()) if _is_other(other)]
    # A clock removes the one before it in the same comment, even an unreadable one, so such ones go first.
    are_clocks = any(map(is_short_time, others)) or read_comment(" ".join(others)).unread
    return [*others, *known] if are_clocks else [*known, *others]


def _is_other(command: Any) -> bool:
    if not isinstance(command, str) or "}" in command or "\r" in command:
        return False
    said = read_comment(command)
    # A short time is kept as a command if the recording version could not read it.
    return said.text == "" and (said.others == [command] or (not said.others and is_short_time(command)))


def _time(value: int) -> str:
    seconds, fraction = divmod(value, 1000)
    more = f".{fraction:03d}".rstrip("0") if fraction else ""
    return f"{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}{more}"


def _evaluation(value: Any) -> str | None:
    """Write {cp | mate, depth?}; None for anything else."""
    if not isinstance(value, dict):
        return None
    mate, points, depth = value.get("mate"), value.get("cp"), value.get("depth")
    if type(mate) is int:
        written = f"#{mate}"
    elif type(points) is int:
        written = f"{points / 100:.2f}"
    else:
        return None
    written += f",{depth}" if type(depth) is int else ""
    return written if read_comment(f"[%eval {written}]").evaluation is not None else None


#: Most columns of a line of moves; a comment is not wrapped.
_COLUMNS: Final = 79
_LIKE_A_MOVE: Final = re.compile(r"[a-h][1-8]|[O0]-[O0]|--|@|Z0|0000")
_MAX_NAG: Final = 255
#: Most sidelines that are counted.
_MAX_SIDELINES: Final = 1000
#: Most characters of an attempt's text.
_MAX_ATTEMPT: Final = 60


class WrittenGame(NamedTuple):
    """A game as PGN.

    ``text`` ends with a line break; a blank line goes between two games. ``moves`` is the number of plies, ``result``
    its Result (``*`` while it goes on). ``same_digest``: whether reading the text gives the recorded digest; None if
    none was recorded.
    """

    text: str
    moves: int
    result: str
    same_digest: bool | None


def write_game(log: GameLog, *, event: str | None = None) -> WrittenGame:
    """Write a game as PGN.

    ``event`` is the event of a game without tags of its own. Raises SimulationError if no game has started.
    """
    if log.started is None:
        raise SimulationError("no game was started in this world")
    tags = tags_of(log, event=event)
    ends = _terminators(log, tags)
    if not tags and (log.started.get("comment") or not log.moves):
        # After another game its beginning could not be recognised.
        tags = {"Result": ends[0] or result_marker(log)}
    movetexts = _movetexts(log, tags)
    chosen, end, same = movetexts[0], ends[0], None
    digest = log.started.get("digest")
    if isinstance(digest, str) and log.begun_in == log.world_id:
        same = False
        for movetext, said, ordered in product(movetexts, ends, orders_of(tags)):
            if game_digest(list(ordered.items()), movetext.tokens_with(said)) == digest:
                chosen, end, tags, same = movetext, said, ordered, True
                break
    head, moves = written_tags(tags), chosen.text(end)
    result = raw_result_of(standard_names(tags).get("Result"), end) or "*"
    return WrittenGame(f"{head}\n{moves}" if head else moves, len(log.moves), result, same)


def _movetexts(log: GameLog, tags: dict[str, str]) -> list[_Movetext]:
    """Yield the ways in which the moves may be written, the best first."""
    told, needed = _times(log, tags)
    found: list[_Movetext] = []
    for elapsed, commands_first in product([told, needed], [False, True]):
        movetext = _Movetext(log, elapsed, commands_first=commands_first)
        if all(movetext.tokens != other.tokens for other in found):
            found.append(movetext)
    return found


def _times(log: GameLog, tags: dict[str, str]) -> tuple[list[int | None], list[int | None]]:
    """Return the times of moves, in milliseconds, and the same only where the clocks do not give them."""
    periods = read_time_control(standard_names(tags).get("TimeControl", ""))
    watches = (Stopwatch(periods), Stopwatch(periods))
    told: list[int | None] = []
    needed: list[int | None] = []
    for move in log.moves:
        took = milliseconds(move.payload.get("thinking_time"))
        by_clock, _ = watches[move.ply & 1].spent(milliseconds(move.payload.get("clock")), None)
        told.append(took)
        needed.append(None if took == by_clock else took)
    return told, needed


# -- the end -------------------------------------------------------------------------------------------------


def _terminators(log: GameLog, tags: dict[str, str]) -> list[str | None]:
    """Return the possible texts after the moves that are read as the recorded end, the best first."""
    tags = standard_names(tags)
    marker = result_marker(log)
    ended = log.ended
    candidates: list[str | None] = [marker]
    raw = None if ended is None else ended.get("raw_result")
    has_tag = known(tags.get("Result")) is not None
    if isinstance(raw, str) and raw != marker and _can_stand(raw, has_tag=has_tag, has_moves=bool(log.moves)):
        candidates.append(" ".join(raw.split()))
    if log.moves:
        candidates.append(None)
    fitting = [said for said in candidates if _is_read_right(log, tags, said, raw)]
    rejected = _last_attempt(log)
    if rejected is not None and not fitting:
        what = "" if rejected.attempted is None else f" ({rejected.attempted})"
        illegal = f"Illegal move{what} by {rejected.player}"
        fitting = [illegal] if _is_read_right(log, tags, illegal, raw) else []
    reason = None if ended is None else ended.get("reason")
    if isinstance(reason, str) and not fitting:
        remarked = f"{marker} {reason.replace('_', ' ')}"
        fitting = [remarked] if is_remarked_result(remarked) and _is_read_right(log, tags, remarked, raw) else []
    return fitting or [marker]


def _can_stand(raw: str, *, has_tag: bool, has_moves: bool) -> bool:
    """Return whether a Result's own words can follow the moves without being misread.

    python-chess looks for moves in them, but in brackets they count as a sideline. If no tag has the words, they have
    to be there nevertheless.
    """
    if len(raw) > MAX_RESULT or any(sign in raw for sign in "{};[]%") or raw.count("(") != raw.count(")"):
        return False
    if standard_result(raw) is not None:
        return " ".join(raw.split()) == raw
    words = " ".join(raw.split())
    if has_tag and _LIKE_A_MOVE.search(re.sub(r"\([^()]*\)", "", words) if has_moves else words):
        return False
    if is_remarked_result(raw) or (is_illegal_move_text(raw) and words.lower().startswith("illegal")):
        return has_tag or words == raw
    return has_tag and words != ""


def _is_read_right(log: GameLog, tags: dict[str, str], said: str | None, raw: Any) -> bool:
    tag = known(tags.get("Result"))
    if log.ended is not None and "raw_result" in log.ended:
        raw_tag = None if tag is None else tags["Result"]
        # Earlier versions recorded the tag's ``*`` when the result after the moves counted.
        if raw not in {raw_result_of(raw_tag, said), said if raw_tag is None else raw_tag}:
            return False
    ending = ending_of(
        log.board,
        tag=None if tag is None else " ".join(tag.split()),
        said=said,
        termination=tags.get("Termination", ""),
        players={"white": known(tags.get("White")) or "white", "black": known(tags.get("Black")) or "black"},
    )
    if log.ended is None:
        return ending.status == "in_progress"
    told = tuple(log.ended.get(name) for name in ("status", "result", "reason"))
    if told != (ending.status, ending.result, ending.reason):
        return False
    return not _is_recorded(log) or ending.rejected == _last_attempt(log)


def _last_attempt(log: GameLog) -> Rejected | None:
    """Return the attempt after the last move, which ended a recorded game."""
    last = log.attempts[-1] if log.attempts else None
    if last is None or last.after_ply != len(log.moves) or log.ended is None:
        return None
    return Rejected(last.player, last.attempted)


def _is_recorded(log: GameLog) -> bool:
    """Return whether the end was read from a recording: then it has the recorded words, if any."""
    return log.ended is not None and "raw_result" in log.ended


# -- the moves -----------------------------------------------------------------------------------------------


class _Movetext:
    """The moves and the text between them in one way of writing; ``tokens`` is the input of the digest."""

    def __init__(self, log: GameLog, elapsed: list[int | None], *, commands_first: bool) -> None:
        self.tokens: list[str] = []
        self._words: list[str] = []
        self._numbered = False  # whether Black's move needs no number
        self._commands_first = commands_first
        self._play(log, elapsed)

    def tokens_with(self, end: str | None) -> list[str]:
        """Return the tokens, with the text after the moves."""
        return self.tokens if end is None else [*self.tokens, standard_result(end) or end]

    def _play(self, log: GameLog, elapsed: list[int | None]) -> None:
        attempts = _shown_attempts(log)
        started = log.started or {}
        comment = started.get("comment")
        self._remarks(plain_remarks(comment, has_commands=True) if isinstance(comment, str) else [])
        nested = _nested_sidelines(log)
        if nested and not any(_count(move.payload) for move in log.moves):
            self._sidelines(nested, 0)
            nested = 0
        self._remarks(attempts.get(0, []))
        number, is_white = log.initial.fullmove_number, log.initial.turn
        for move, took in zip(log.moves, elapsed, strict=True):
            if is_white or not self._numbered:
                self._words.append(f"{number}." if is_white else f"{number}...")
            self._words.append(move.san)
            self.tokens.append(move.san)
            self._numbered = True
            nags = move.payload.get("nags")
            for nag in nags if isinstance(nags, list) else ():
                if type(nag) is int and 0 <= nag <= _MAX_NAG:
                    self._words.append(f"${nag}")
                    self.tokens.append(f"${nag}")
            self._remarks(remarks_of(move.payload, elapsed=took, commands_first=self._commands_first))
            self._remarks(attempts.get(move.ply, []))
            count = _count(move.payload)
            self._sidelines(count, nested if count else 0)
            nested = 0 if count else nested
            number, is_white = number + (not is_white), not is_white

    def _remarks(self, remarks: list[str]) -> None:
        for remark in remarks:
            body = remark[1:].rstrip("\n") if remark[0] == ";" else remark[1:-1]
            self.tokens.append("{" + " ".join(body.split()))
            self._words.append(remark)
            self._numbered = False

    def _sidelines(self, count: int, nested: int) -> None:
        """Write this many sidelines, and this many more inside the first of them."""
        for index in range(count):
            text = f"({'()' * nested})" if index == 0 else "()"
            self.tokens += text
            self._words.append(text)
            self._numbered = False

    def text(self, end: str | None) -> str:
        """Wrap the words into lines, followed by ``end``."""
        lines: list[str] = []
        line = ""
        for word in [*self._words, *([] if end is None else [end])]:
            first = word.partition("\n")[0]
            if line and len(line) + 1 + len(first) > _COLUMNS:
                lines.append(line)
                line = ""
            line = f"{line} {word}" if line else word
            if "\n" in word:
                whole, _, line = line.rpartition("\n")
                lines.append(whole)
        if line:
            lines.append(line)
        return "".join(f"{each}\n" for each in lines)


def _count(payload: Any) -> int:
    count = payload.get("variations")
    return count if type(count) is int and 0 <= count <= _MAX_SIDELINES else 0


def _nested_sidelines(log: GameLog) -> int:
    """Return the number of counted sidelines beyond those of the moves: inside others, or before all moves."""
    total = None if log.ended is None else log.ended.get("variations_total")
    beyond = total - sum(_count(move.payload) for move in log.moves) if type(total) is int else 0
    return beyond if 0 <= beyond <= _MAX_SIDELINES else 0


def _shown_attempts(log: GameLog) -> dict[int, list[str]]:
    """Return comments on rejected attempts, by the number of moves before; without the one in the result."""
    shown = log.attempts[:-1] if _is_recorded(log) and _last_attempt(log) is not None else log.attempts
    found: dict[int, list[str]] = {}
    for attempt in shown:
        what = "something" if attempt.attempted is None else " ".join(attempt.attempted.split()) or "nothing"
        what = what if len(what) <= _MAX_ATTEMPT else f"{what[: _MAX_ATTEMPT - 1]}…"
        reason = attempt.reason.replace("_", " ")
        text = f"{attempt.player} tried {what}: {reason}".replace("}", ")")
        found.setdefault(attempt.after_ply, []).extend(plain_remarks(text))
    return found
