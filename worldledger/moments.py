"""Moments of a world as people and programs write them: ``1200``, ``head``, ``turn:5``, ``sim:12.5``, an ISO 8601 time.

- ``seq:N`` or a bare ``N``: after the effect with this global_seq; ``head``: after the last effect there is
- ``step:N``, and the units of a world's ruleset, as ``UNIT:N``: at the end of the N-th, which is after the last effect
  before the next one begins
- ``sim:T``: after the last effect at or before this sim_time
- ``parent:MOMENT``: that moment of the world that this one is a fork of, up to the fork point
- ``2026-01-31T12:00:00Z`` or ``wall:2026-01-31T12:00:00Z``: after the last effect at or before this wall time

A world's ruleset declares its units (`worldledger.rulesets.Ruleset.units`). If it does not say what a step is, a step
is an effect that is not of a system kind.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from typing import Any, Final, NamedTuple

from worldledger.errors import InvalidKindError
from worldledger.kinds import installed

#: The unit that every world has.
STEP: Final = "step"
#: The unit that a comparison of worlds is aligned by unless one is named: the first that their kind declares.
AUTO: Final = "auto"

_PARENT: Final = "parent:"
_DIGITS: Final = re.compile(r"[0-9]{1,19}")
_UNIT: Final = re.compile(r"([a-z][a-z_]{0,63}):([0-9]{1,19})")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Unit(NamedTuple):
    """A unit that the effects of a world can be counted in.

    Each one begins with an effect of one of these ``kinds``. ``number`` is the member of its payload with its number,
    or a function that reads the number from the payload (None: it has none); consecutive effects with the same number
    are one. ``has_zero``: 0 is what lies before the first one. ``restarts``: if a number begins twice, as only imports
    cause, the last beginning counts.
    """

    kinds: tuple[str, ...]
    number: str | Callable[[Mapping[str, Any]], int | None]
    has_zero: bool = False
    restarts: bool = False


class Moment(NamedTuple):
    """A seq, a sim_time, a wall_time in epoch seconds, or a unit with its number; with none of them, the head.

    It is a moment of the world's own history, or with ``parents`` of that of its parent, its parent's parent and so on.
    """

    seq: int | None = None
    sim_time: float | None = None
    wall_time: float | None = None
    unit: tuple[str, int] | None = None
    parents: int = 0


HEAD: Final = Moment()


class UnreadableMomentError(ValueError):
    """A text that is not a moment; its message says what it should be."""


@cache
def moment_rule() -> str:
    """Say what a moment may be, with the units that the installed kinds of worlds declare: for messages and help."""
    try:
        units = [unit for kind in installed().values() for unit in kind.units]
    except InvalidKindError:  # said where kinds are used
        units = []
    named = ", ".join(f"{unit}:N" for unit in dict.fromkeys((STEP, *units)))
    return f"seq:N (or N), head, {named}, sim:SECONDS, a time in ISO 8601 or parent:MOMENT"


def parse_moment(text: str) -> Moment:
    """Read a moment. Raises UnreadableMomentError."""
    older, rest = _parents(text)
    if older:
        return parse_moment(rest)._replace(parents=older)
    if text == "head":
        return HEAD
    if _DIGITS.fullmatch(text):
        return Moment(seq=int(text))
    word, _, rest = text.partition(":")
    if word == "sim":
        return Moment(sim_time=parse_number(rest))
    if word == "wall":
        return Moment(wall_time=parse_wall_time(rest))
    if _DATE.match(text):
        return Moment(wall_time=parse_wall_time(text))
    found = _UNIT.fullmatch(text)
    if found is None:
        raise UnreadableMomentError(f"{text!r} is no moment: give {moment_rule()}")
    if word == "seq":
        return Moment(seq=int(rest))
    return Moment(unit=(found[1], int(found[2])))


def _parents(text: str) -> tuple[int, str]:
    """Return how many times a text begins with ``parent:``, and what comes then."""
    older = 0
    while text.startswith(_PARENT):
        older, text = older + 1, text.removeprefix(_PARENT)
    return older, text


def seq_or_moment(at_seq: int | None, at: str | None) -> Moment:
    """Return the moment that either argument names: the head if both are None. Raises UnreadableMomentError."""
    if at is None:
        return Moment(seq=at_seq)
    if at_seq is not None:
        raise UnreadableMomentError("give one moment: at_seq or at")
    return parse_moment(at)


def parse_number(text: str) -> float:
    """Read a finite number. Raises UnreadableMomentError."""
    if _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise UnreadableMomentError(f"{text!r} is not a finite number")


def parse_wall_time(text: str) -> float:
    """Read an ISO 8601 time with its offset from UTC; return epoch seconds. Raises UnreadableMomentError."""
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            return moment.timestamp()
    except (ValueError, OverflowError):
        what = f"{text!r} is no ISO 8601 time, such as 2026-01-31T12:00:00Z"
    else:
        what = f"{text!r} does not say in which time zone: end it with Z (UTC) or an offset such as +02:00"
    raise UnreadableMomentError(what)


def parse_place(text: str) -> tuple[str, Moment | None]:
    """Read ``WORLD@MOMENT``; the moment is None where only a world is named. Raises UnreadableMomentError.

    No world's name has an ``@``.
    """
    name, at, moment = text.partition("@")
    return name, parse_moment(moment) if at else None
