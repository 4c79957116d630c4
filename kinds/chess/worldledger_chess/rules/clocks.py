"""Times and evaluations: the commands in PGN comments, the TimeControl tag and the time of a move.

All times are whole milliseconds inside and seconds outside, so that sums do not drift. Source: the PGN standard's
TimeControl (section 9.6) and the command comments ``[%clk]``, ``[%emt]`` and ``[%eval]`` as python-chess reads them.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

_COMMAND: Final = re.compile(r"\s?\[%\s*([A-Za-z_]\w*)(?:[ \t,]++([^\[\]]*+))?\]")
_TIME: Final = re.compile(r"(\d{1,5}):(\d{1,2}):(\d{1,2})(?:\.(\d{0,9}))?\Z")
#: The form that some programs write: ``1:40`` (minutes and seconds), ``0.01`` or ``7`` (seconds).
_SHORT_TIME: Final = re.compile(r"(?:(\d{1,5}):(?=\d{1,2}(?!\d)))?(\d{1,7})(?:\.(\d{0,9}))?\Z")
_EVAL: Final = re.compile(
    r"(?:#(?P<mate>[+-]?\d{1,6})|(?P<cp>[+-]?(?:\d{1,6}(?:\.\d{0,4})?|\.\d{1,4})))(?:,(?P<depth>\d{1,4}))?\Z"
)
_CONTROL: Final = re.compile(r"(?:(\d{1,5})/)?(\d{1,8})(?:\.\d+)?(?:\+(\d{1,5}(?:\.\d{1,3})?))?\Z")


class Commands(NamedTuple):
    """The commands in a comment; times in milliseconds, ``others`` verbatim, ``unread`` counted in others."""

    text: str
    clock: int | None
    elapsed: int | None
    evaluation: dict[str, int] | None
    others: list[str]
    unread: list[str]


class Period(NamedTuple):
    """One period of a time control: ``moves`` (None: the rest of the game), base and increment in milliseconds."""

    moves: int | None
    base: int
    increment: int


def read_comment(comment: str) -> Commands:
    """Split a comment into its text and its commands.

    The text is verbatim except for the commands, one blank before each, and the blanks around the whole. Commands other
    than clk, emt and eval, and unreadable ones of those three, are kept as they are.
    """
    if "[%" not in comment:
        return Commands(comment.strip(), None, None, None, [], [])
    clock = elapsed = None
    evaluation = None
    others: list[str] = []
    unread: list[str] = []
    for match in _COMMAND.finditer(comment):
        name, value = match[1], (match[2] or "").strip()
        found: Any = None
        if name == "clk":
            found = clock = _milliseconds(value)
        elif name == "emt":
            found = elapsed = _milliseconds(value)
        elif name == "eval":
            found = evaluation = _evaluation(value)
        if found is None:
            others.append(match[0].strip())
            if name in {"clk", "emt", "eval"}:
                unread.append(match[0].strip())
    return Commands(_COMMAND.sub("", comment).strip(), clock, elapsed, evaluation, others, unread)


def is_short_time(command: str) -> bool:
    """Return whether this is one ``[%clk]`` or ``[%emt]`` without hours, which earlier versions could not read."""
    match = _COMMAND.fullmatch(command)
    return (
        match is not None and match[1] in {"clk", "emt"} and _short_milliseconds((match[2] or "").strip()) is not None
    )


def _milliseconds(value: str) -> int | None:
    match = _TIME.match(value)
    if match is None:
        return _short_milliseconds(value)
    hours, minutes, seconds, fraction = match.groups()
    if int(minutes) > 59 or int(seconds) > 59:
        return None
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    return whole * 1000 + (int((fraction + "000")[:3]) if fraction else 0)


def _short_milliseconds(value: str) -> int | None:
    match = _SHORT_TIME.match(value)
    if match is None:
        return None
    minutes, seconds, fraction = match.groups()
    if minutes is not None and int(seconds) > 59:
        return None
    whole = int(minutes or 0) * 60 + int(seconds)
    return whole * 1000 + (int((fraction + "000")[:3]) if fraction else 0)


def _evaluation(value: str) -> dict[str, int] | None:
    """Return {cp | mate, depth?} from White's side: centipawns, or moves to mate (negative: White is mated)."""
    match = _EVAL.match(value)
    if match is None:
        return None
    mate = match["mate"]
    found = {"cp": round(float(match["cp"]) * 100)} if mate is None else {"mate": int(mate)}
    if match["depth"] is not None:
        found["depth"] = int(match["depth"])
    return found


def read_time_control(value: str) -> list[Period]:
    """Read a TimeControl tag such as ``40/7200:3600`` or ``180+2``; unknown, none or another form gives []."""
    periods = []
    for part in value.replace(" ", "").split(":"):
        match = _CONTROL.match(part)
        if match is None:
            return []
        moves, base, increment = match.groups()
        periods.append(
            Period(int(moves) if moves else None, int(base) * 1000, round(float(increment) * 1000) if increment else 0)
        )
    return periods


class Stopwatch:
    """Computes the time of each move of one player.

    ``[%emt]`` counts if it is there. Otherwise it is the difference of the player's last two ``[%clk]``, plus the
    increment of the TimeControl tag; without that tag there is no increment, and the first move's time is unknown. If
    the clock rose by more, and the next period of the time control does not explain it, the time is unknown.
    """

    def __init__(self, periods: list[Period]) -> None:
        self._periods = list(periods)
        self._left: int | None = periods[0].base if periods else None
        self._moves = 0

    def spent(self, clock: int | None, elapsed: int | None) -> tuple[int | None, bool]:
        """Return the milliseconds that this player's next move took, and whether the clocks contradict themselves."""
        self._moves += 1
        before, self._left = self._left, clock
        if before is None or clock is None:
            return elapsed, False
        period = self._periods[0] if self._periods else None
        took = before - clock + (period.increment if period else 0)
        if took < 0 and period is not None and len(self._periods) > 1 and self._moves >= (period.moves or 0):
            self._moves -= period.moves or 0
            del self._periods[0]
            took += self._periods[0].base
        if elapsed is not None:
            return elapsed, False
        return (took, False) if took >= 0 else (None, True)
