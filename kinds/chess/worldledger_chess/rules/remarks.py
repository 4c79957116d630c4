"""Comments as PGN has them: what a move's payload says of times, evaluation and words, written so that it is read back.

The inverse of `worldledger_chess.rules.clocks.read_comment`. Text stays as it is, line breaks included; a comment
with a ``}`` in it, which a comment in braces cannot have, becomes one to the end of the line (``;``). What no file
could hold (a ``}`` in a text of several lines, words that would be read as a command) is changed to what looks most
like it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from worldledger_chess.rules.clocks import is_short_time, read_comment

_MAX_HOURS: Final = 99_999
# One blank between two words: there a comment can be cut in two, for the reader joins them with one.
_JOINT: Final = re.compile(r"(?<=\S) (?=\S)")
# Behind a blank line a tag ends a comment that has another brace in it: the comment counts as never closed.
_NEXT_GAME: Final = re.compile(r"\n(?:[ \t\r\f\v]*\n)+(?=\s*\[)")


def milliseconds(seconds: Any) -> int | None:
    """Return a payload's time in whole milliseconds; None where there is none, or one that PGN cannot write."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < _MAX_HOURS * 3600:
        return None
    return round(seconds * 1000)


def remarks_of(payload: Mapping[str, Any], *, elapsed: int | None, commands_first: bool = False) -> list[str]:
    """Return the comments behind a move, as they are written.

    ``elapsed`` is what ``[%emt]`` is to say, in milliseconds; None for no such command. The text comes first, and then
    the commands eval, clk, emt and the others; with ``commands_first`` clk, emt, eval and the others, and then the
    text. Programs write either.
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
    """Return the comments that a text becomes; none where it is empty.

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
    """Cut a text where there are braces in it; None where that cannot be done."""
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
    """Tell whether a comment is read as this text and these commands, and nothing else."""
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
    # A clock takes back the one before it in the same comment, even if it cannot be read, so such ones go first.
    are_clocks = any(map(is_short_time, others)) or read_comment(" ".join(others)).unread
    return [*others, *known] if are_clocks else [*known, *others]


def _is_other(command: Any) -> bool:
    if not isinstance(command, str) or "}" in command or "\r" in command:
        return False
    said = read_comment(command)
    # A short time is kept as a command where the version that recorded it could not read it.
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
