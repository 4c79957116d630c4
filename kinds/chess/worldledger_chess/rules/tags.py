"""The tag pairs of one game's text, and the position and variant that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

import chess
import chess.pgn

from worldledger_chess.rules.positions import UNPLAYABLE, status_text

_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9_+#=:-]*"
# A value may be wrapped, but never over a blank line or over the next tag.
_TAG: Final = re.compile(rf'\[\s*({_NAME})\s+"((?:[^"\\\n]++|\\[^\n]|\n(?!\s*[\n\[]))*+)"\s*\]')
# The form that many programs write: quotes inside the value, or a backslash at its end.
_LOOSE_TAG: Final = re.compile(rf'\[\s*({_NAME})\s+"([^\n]*)"\s*\][ \t]*(?=\n|\Z)')
_GAP: Final = re.compile(r"(?:\s+|(?<![^\n])%[^\n]*|;[^\n]*)*")
_ESCAPE: Final = re.compile(r'\\(["\\])')

#: Most warnings that are kept of one game.
MAX_WARNINGS: Final = 20

#: Tags without which the moves would have another meaning.
_VITAL: Final = re.compile(r"\s*(?:FEN|Variant|SetUp)", re.IGNORECASE)
#: The tags that are read, by their names in lower case: programs also write ``Fen`` and ``setup``.
_READ: Final = {
    name.lower(): name
    for name in (
        *("Event", "Site", "Date", "Round", "White", "Black", "Result"),
        *("FEN", "SetUp", "Variant", "TimeControl", "Termination"),
    )
}


class GameFaultError(Exception):
    """The reason why one game is refused. It does not leave this folder: the reader makes a BrokenGame from it."""


@dataclass
class Tags:
    """``pairs`` in the order of the file, repeated ones included; ``end`` is where the moves begin in the text."""

    pairs: list[tuple[str, str]] = field(default_factory=list)
    end: int = 0
    warnings: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, str]:
        """Return the tags by name; of a repeated tag the last one, as python-chess does."""
        return dict(self.pairs)


def standard_names(tags: dict[str, str]) -> dict[str, str]:
    """Return the tags, with those that are read under the names of the PGN standard, ignoring case.

    A tag with exactly the standard's name takes precedence.
    """
    return {**{_READ.get(name.lower(), name): value for name, value in tags.items()}, **tags}


def read_tags(text: str, first_line: int) -> Tags:
    """Read the tag pairs at the head of a game's text.

    Values are raw strings: only PGN's two escapes, of quote and backslash, are undone, and a wrapped value is joined by
    a space (except for Result, which stays verbatim). A malformed tag is left out with a warning, or raises
    GameFaultError if the position depends on it.
    """
    tags = Tags()
    seen: set[str] = set()
    gap = _GAP.match(text)
    at = gap.end() if gap else 0
    while at < len(text) and text[at] == "[":
        match = _TAG.match(text, at) or _LOOSE_TAG.match(text, at)
        if match is None:
            at = _skip_malformed(text, at, first_line, tags.warnings)
        else:
            name = match[1]
            value = _ESCAPE.sub(r"\1", match[2]) if "\\" in match[2] else match[2]
            if "\n" in value and name != "Result":
                value = " ".join(value.split("\n"))
            if name in seen:
                tags.warnings.append(f"the tag {name} is given twice; the last one counts")
            seen.add(name)
            tags.pairs.append((name, value))
            at = match.end()
        tags.end = at  # a comment on the game may follow
        gap = _GAP.match(text, at)
        at = gap.end() if gap else at
    return tags


def _skip_malformed(text: str, at: int, first_line: int, warnings: list[str]) -> int:
    end = text.find("\n", at)
    end = len(text) if end < 0 else end
    if len(warnings) >= MAX_WARNINGS and not _VITAL.match(text, at + 1, end):
        return end
    line = first_line + text.count("\n", 0, at)
    shown = text[at : min(end, at + 60)]
    if _VITAL.match(shown, 1):
        raise GameFaultError(f"line {line}: a tag that the position hangs on cannot be read: {shown!r}")
    warnings.append(f"line {line}: not a tag, left out: {shown!r}")
    return end


def set_up(tags: dict[str, str], warnings: list[str]) -> tuple[chess.Board, str]:
    """Return the board before the first move and the variant: ``standard``, ``chess960`` or python-chess's name.

    Raises GameFaultError for a variant that python-chess cannot play, and for an unreadable or unplayable FEN.
    """
    tags = standard_names(tags)
    wanted = {name: tags[name] for name in ("Variant", "FEN") if tags.get(name, "").strip() not in {"", "?"}}
    headers = chess.pgn.Headers(wanted)
    try:
        headers.variant()
    except ValueError:
        raise GameFaultError(f"the variant {wanted['Variant']!r} is not one that can be played") from None
    try:
        board = headers.board()
    except (ValueError, IndexError, KeyError) as error:
        raise GameFaultError(f"the FEN tag cannot be read: {error}") from None
    if board.chess960 and "FEN" not in wanted:
        warnings.append("Chess960 without a start position (FEN); the game is taken to start from the usual position")
    elif tags.get("SetUp") == "1" and "FEN" not in wanted:
        warnings.append("SetUp is 1 but there is no FEN; the game is taken to start from the usual position")
    if "FEN" in wanted:
        status = board.status()
        if status & UNPLAYABLE:
            raise GameFaultError(f"the position of the FEN tag cannot be played: {status_text(status)}")
        if status:
            warnings.append(f"the position of the FEN tag is unusual: {status_text(status)}")
    variant = board.uci_variant or "standard"
    if variant == "chess":
        variant = "chess960" if board.chess960 else "standard"
    return board, variant
