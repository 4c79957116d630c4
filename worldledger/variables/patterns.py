"""Patterns of strings: Python's syntax, Pydantic's linear-time engine, and nothing that the two interpret differently.

A pattern is written as for Python's `re` and has to match a string as a whole, as `re.fullmatch` does. It is run by
the regular expressions of Rust, whose time grows linearly with the string's length: no pattern can be made to take
exponential time. `translate` writes a pattern anew in their syntax, so that each accepts the same strings; what has no
counterpart there (look-around, back-references, …) is refused.

Source: docs/reference/simulation-config.md, "Patterns": Python `re` syntax, full string match.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from pydantic_core import SchemaError, SchemaValidator, core_schema

from worldledger.variables.limits import MAX_PATTERN, MAX_PATTERN_COST, MAX_PATTERN_DEPTH

# -- reading Python's syntax, and rewriting it in that of Rust's regular expressions --------------------------------

#: Python's own character classes, in Rust's syntax.
_CLASSES: Final = {"d": r"\p{Nd}", "w": r"\p{L}\p{N}_", "s": r"\s\x1c-\x1f"}
_CONTROLS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "a": "\a"}
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}
_REPEAT: Final = re.compile(r"\{([0-9]*)(,?)([0-9]*)\}")
_GROUP: Final = re.compile(r"\?(?::|P<[^>]*>|([ims]*)(?:-([ims]+))?:)")
_FLAGS: Final = re.compile(r"\(\?([imsu]+)\)")
_REFUSED_GROUPS: Final = {
    "?=": "look-ahead is",
    "?!": "look-ahead is",
    "?<": "look-behind is",
    "?P=": "back-references are",
    "?(": "conditional groups are",
    "?>": "atomic groups are",
    "?#": "comments are",
}
#: Python treats these four as one letter when case is ignored; Unicode's simple folding does not.
_DOTTED: Final = "iI\u0130\u0131"
#: A class of Unicode's characters is many times as large as one letter.
_CLASS_COST: Final = 8
TOO_LARGE: Final = (
    f"the pattern is too large with its repetitions written out (at most {MAX_PATTERN_COST} units: a letter takes 1, "
    rf". 2, a class such as \w {_CLASS_COST}; for lengths use max_length)"
)


class PatternError(ValueError):
    """A pattern that cannot be used; the message says why."""


class Piece(NamedTuple):
    """A part of a pattern: its translation, its size, whether it can consume characters, whether it ends in ``$``."""

    text: str
    cost: int
    consumes: bool
    ends: bool = False


class PatternParser:
    """Reads a pattern from left to right and translates it."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._depth = 0
        self._flags = frozenset[str]()

    def whole(self) -> Piece:
        """Read and translate the whole pattern. Raises PatternError."""
        flags = _FLAGS.match(self._pattern)
        if flags is not None:
            self._flags = frozenset(flags[1]) - {"u"}
            self._at = flags.end()
        piece = self._alternatives()
        if self._at < len(self._pattern):
            raise self._wrong("unbalanced parenthesis")
        return piece

    def _wrong(self, reason: str) -> PatternError:
        return PatternError(f"{reason}, at position {self._at}")

    def _peek(self, text: str) -> bool:
        return self._pattern.startswith(text, self._at)

    def _take(self) -> str:
        if self._at >= len(self._pattern):
            raise self._wrong("the pattern ends too early")
        self._at += 1
        return self._pattern[self._at - 1]

    def _alternatives(self) -> Piece:
        branches = [self._sequence()]
        while self._peek("|"):
            self._at += 1
            branches.append(self._sequence())
        return Piece(
            "|".join(branch.text for branch in branches),
            sum(branch.cost for branch in branches),
            any(branch.consumes for branch in branches),
            any(branch.ends for branch in branches),
        )

    def _sequence(self) -> Piece:
        text, cost, consumes, ends = "", 0, False, False
        while self._at < len(self._pattern) and not self._peek("|") and not self._peek(")"):
            start = self._at
            piece = self._repeated(self._one())
            if ends and piece.consumes:
                self._at = start
                raise self._wrong(r"$ before the end also matches before a last line break: write \Z, or leave it out")
            text += piece.text
            cost += piece.cost
            consumes |= piece.consumes
            ends |= piece.ends
        return Piece(text, cost, consumes, ends)

    def _repeated(self, piece: Piece) -> Piece:
        counts = self._counts()
        if counts is None:
            return piece
        low, high = counts
        # Which match a lazy repetition prefers does not matter when the whole string is matched.
        if self._peek("?"):
            self._at += 1
        elif self._peek("+"):
            raise self._wrong("possessive repetitions are not supported")
        if self._counts() is not None:
            raise self._wrong("multiple repeat")
        if high is not None and high < low:
            raise self._wrong("min repeat greater than max repeat")
        if piece.ends and (high is None or high > 1):
            raise self._wrong(r"$ within a repetition: write \Z, or leave it out")
        times = f"{{{low},{'' if high is None else high}}}"
        cost = (piece.cost + 1) * max(high if high is not None else low + 1, 1)
        if cost > MAX_PATTERN_COST:
            raise self._wrong(TOO_LARGE)
        return Piece(f"(?:{piece.text}){times}", cost, piece.consumes, piece.ends)

    def _counts(self) -> tuple[int, int | None] | None:
        """Read the least and greatest number of a repetition (None: any), if there is one here."""
        for sign, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._peek(sign):
                self._at += 1
                return counts
        found = _REPEAT.match(self._pattern, self._at)
        if found is None or found[0] == "{}":
            return None  # for Python, this brace is an ordinary character
        self._at = found.end()
        low = int(found[1][:9] or "0")
        return low, (low if not found[2] else int(found[3][:9]) if found[3] else None)

    def _one(self) -> Piece:
        char = self._take()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._set()
            case "\\":
                return self._escape()
            case ".":
                return Piece("(?s:.)" if "s" in self._flags else ".", 2, consumes=True)
            case "^":
                return Piece("(?m:^)" if "m" in self._flags else r"\A", 1, consumes=False)
            case "$" if "m" in self._flags:
                return Piece("(?m:$)", 1, consumes=False)
            case "$":
                return Piece(r"\z", 1, consumes=False, ends=True)
            case "*" | "+" | "?":
                raise self._wrong("nothing to repeat")
        return self._letter(char)

    def _letter(self, char: str) -> Piece:
        if "i" in self._flags and char in _DOTTED:
            return Piece(f"[{_DOTTED}]", 2, consumes=True)
        return Piece(self._folded(_written(char)), 1, consumes=True)

    def _folded(self, text: str) -> str:
        return f"(?i:{text})" if "i" in self._flags else text

    def _group(self) -> Piece:
        for start, what in _REFUSED_GROUPS.items():
            if self._peek(start):
                raise self._wrong(f"{what} not supported (patterns are matched in linear time)")
        outer = self._flags
        if self._peek("?"):
            found = _GROUP.match(self._pattern, self._at)
            if found is None:
                raise self._wrong("this kind of group, or a flag other than i, m and s, is not supported")
            self._flags = (outer | frozenset(found[1] or "")) - frozenset(found[2] or "")
            self._at = found.end()
        self._depth += 1
        if self._depth > MAX_PATTERN_DEPTH:
            raise self._wrong(f"groups are nested at most {MAX_PATTERN_DEPTH} deep")
        piece = self._alternatives()
        if self._take() != ")":
            raise self._wrong("missing )")
        self._depth -= 1
        self._flags = outer
        return piece._replace(text=f"(?:{piece.text})")

    def _escape(self) -> Piece:
        char = self._take()
        if char in "AZ":
            return Piece(rf"\{char.lower()}" if char == "Z" else r"\A", 1, consumes=False)
        if char in "bB":
            raise self._wrong(r"\b and \B are not supported: the engines differ in what a word is")
        if char in "123456789":
            return self._letter(self._octal(char, "back-references are not supported"))
        if char.lower() in _CLASSES:
            inside = _CLASSES[char.lower()]
            return Piece(f"[{'^' if char.isupper() else ''}{inside}]", _CLASS_COST, consumes=True)
        return self._letter(self._escaped(char))

    def _escaped(self, char: str) -> str:
        """Return the one character that an escape stands for, in a set or outside."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "0":
            return self._octal(char, "not an octal escape")
        if char in _HEX_DIGITS:
            digits = self._pattern[self._at : self._at + _HEX_DIGITS[char]]
            if not re.fullmatch(f"[0-9a-fA-F]{{{_HEX_DIGITS[char]}}}", digits) or int(digits, 16) > 0x10FFFF:
                raise self._wrong(f"incomplete or impossible escape \\{char}")
            self._at += len(digits)
            return chr(int(digits, 16))
        if char.isascii() and char.isalnum():
            raise self._wrong(f"\\{char} is not supported")
        return char

    def _octal(self, first: str, otherwise: str) -> str:
        found = re.compile(r"0[0-7]{0,2}|[1-3][0-7]{2}").match(self._pattern, self._at - 1)
        if found is None:
            raise self._wrong(otherwise)
        self._at += len(found[0]) - len(first)
        return chr(int(found[0], 8))

    def _set(self) -> Piece:
        inside, cost = "", 1
        if self._peek("["):
            raise self._wrong(r"a set that begins with [ may become a nested set in Python: write \[")
        negated = self._peek("^")
        self._at += negated
        first = True
        while first or not self._peek("]"):
            low = self._member()
            first = False
            if len(low) > 1:
                inside += low
                cost = _CLASS_COST
            elif self._peek("-") and not self._peek("-]"):
                self._at += 1
                if self._peek("-"):
                    raise self._wrong(r"-- in a set may become a set operation in Python: write \-")
                high = self._member()
                if len(high) > 1 or high < low:
                    raise self._wrong("bad character range")
                inside += self._range(low, high)
                cost = cost if high.isascii() else _CLASS_COST
            else:
                inside += self._range(low, low)
        self._at += 1
        cost = _CLASS_COST if negated or self._flags & {"i"} else cost
        return Piece(self._folded(f"[{'^' if negated else ''}{inside}]"), cost, consumes=True)

    def _member(self) -> str:
        """Read a character of a set; a class is given as its translation, which is longer."""
        char = self._take()
        if char in "-&~|" and self._peek(char):
            raise self._wrong(f"{char * 2} in a set may become a set operation in Python: write \\{char}")
        if char != "\\":
            return char
        char = self._take()
        if char.lower() in _CLASSES:
            inside = _CLASSES[char.lower()]
            return f"[^{inside}]" if char.isupper() else inside
        if char == "b":
            return "\b"
        return self._octal(char, "not supported in a set") if char in "1234567" else self._escaped(char)

    def _range(self, low: str, high: str) -> str:
        also = ""
        if "i" in self._flags and any(low <= char <= high for char in _DOTTED):
            also = _DOTTED
        return f"{_written(low)}-{_written(high)}{also}"


def _written(char: str) -> str:
    """Write one character so that it means itself, in a set or outside."""
    if 0xD800 <= ord(char) <= 0xDFFF:
        raise PatternError("half a surrogate pair is no character")
    return char if char.isascii() and char.isalnum() else rf"\x{{{ord(char):x}}}"


__all__ = ["PatternError", "translate"]


@lru_cache(maxsize=1024)
def translate(pattern: str) -> str:
    """Return the pattern that matches, in Pydantic's engine, the strings that ``re.fullmatch(pattern, …)`` matches.

    Raises PatternError with the reason for one that Python does not compile, that is too large, or that uses what the
    engine does not have.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern has at most {MAX_PATTERN} characters (got {len(pattern)})")
    piece = PatternParser(pattern).whole()
    if piece.cost > MAX_PATTERN_COST:
        raise PatternError(TOO_LARGE)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"no regular expression of Python's: {error}") from None
    text = rf"\A(?:{piece.text})\z"
    try:
        SchemaValidator(core_schema.str_schema(pattern=text))
    except SchemaError:
        raise PatternError("the pattern is too large, or not one that the linear-time engine has") from None
    return text
