"""Parameters of a query: found in its text, and put into it as literals of the types that the query wants.

``:name`` stands for a parameter with a name, ``$1`` for one by its number. Only the names that are given are looked
for, and never in strings, quoted names, comments or behind another colon, so that ``value::text`` and ``a[1:n]`` stay
what they are.

The values go in as literals and not beside the query: it is run inside of a function, which cannot hand on any number
of values of any types, and PostgreSQL plans it knowing them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from math import isinf, isnan
from typing import Any, Final, NamedTuple, TypeAlias

import orjson

from worldledger.errors import QueryRefusedError

Params: TypeAlias = Mapping[str, Any] | Sequence[Any]

#: Longest query, in characters; its parameters may be as long again.
MAX_QUERY: Final = 1_000_000

_TOKEN: Final = re.compile(
    r"""
      --[^\n]*
    | (?P<comment>/\*)
    | [eE]'(?:[^'\\]|\\.|'')*'?
    | '(?:[^']|'')*'?
    | "(?:[^"]|"")*"?
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | \$(?P<number>\d+)
    | (?P<word>[^\W\d][\w$]*)
    | ::
    | :(?P<name>[^\W\d]\w*)
    | \d+
    | .
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT: Final = re.compile(r"/\*|\*/")
_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


class Marked(NamedTuple):
    """A place of a query where a parameter stands: its name or number, and where its mark begins and ends."""

    key: str
    start: int
    end: int


class Placed(NamedTuple):
    """A query with its parameters in it, and from where to where each of them stands."""

    text: str
    marks: Sequence[Marked]
    places: Sequence[tuple[int, int]]

    def position(self, place: int) -> tuple[int, str | None]:
        """Return the place of the original query for one of this text (from 0 on), and the parameter that it is in."""
        shift = 0
        for mark, (start, end) in zip(self.marks, self.places, strict=True):
            if place < start:
                break
            if place < end:
                return mark.start, mark.key
            shift = mark.end - end
        return place + shift, None


def find(query: str, params: Params) -> list[Marked]:
    """Find the places of the parameters. Raises QueryRefusedError for one that has no place, or no value."""
    named = isinstance(params, Mapping)
    marks = []
    for found in _tokens(query):
        key = found["name"] if named else found["number"]
        if key is not None and (not named or key in params):
            marks.append(Marked(key, found.start(), found.end()))
    used = {mark.key for mark in marks}
    known = set(params) if isinstance(params, Mapping) else {str(n) for n in range(1, len(params) + 1)}
    sign = ":" if named else "$"
    for key in sorted(known - used):
        raise QueryRefusedError(f"the query has no parameter {sign}{key}", parameter=key)
    for key in sorted(used - known):
        raise QueryRefusedError(f"the parameter {sign}{key} has no value", parameter=key)
    return marks


def words(query: str) -> set[str]:
    """Return the words of a query that may name something: those that stand in no string and no comment."""
    return {found["word"].lower() for found in _tokens(query) if found["word"]}


def numbered(query: str, marks: Sequence[Marked]) -> Placed:
    """Return the query with ``$1``, ``$2`` … for its parameters, in the order in which they come first."""
    keys = list(dict.fromkeys(mark.key for mark in marks))
    return _placed(query, marks, [f"${keys.index(mark.key) + 1}" for mark in marks])


def filled(query: str, marks: Sequence[Marked], params: Params, types: Mapping[str, str]) -> Placed:
    """Return the query with the parameters' values, each as a literal of its type (as SQL names it)."""
    literals = []
    for mark in marks:
        value = params[mark.key] if isinstance(params, Mapping) else params[int(mark.key) - 1]
        literals.append(f"({literal(value, mark.key, types[mark.key])}::{types[mark.key]})")
    return _placed(query, marks, literals)


def check_text(text: str, what: str) -> None:
    """Raise QueryRefusedError for a text that PostgreSQL cannot be sent."""
    if _UNSTORABLE.search(text):
        raise QueryRefusedError(f"{what} has a NUL or half of a surrogate pair in it, which PostgreSQL cannot hold")
    if len(text) > MAX_QUERY:
        raise QueryRefusedError(f"{what} has {len(text):,} characters; at most {MAX_QUERY:,} are taken")


def literal(value: Any, key: str, kind: str) -> str:
    """Return a value as SQL, in the form in which it is cast to a type."""
    text = _text(value, key, kind)
    if text is None:
        return "null"
    check_text(text, f"the parameter {key}")
    quoted = text.replace("'", "''")
    return f" E'{quoted.replace(chr(92), chr(92) * 2)}'" if "\\" in quoted else f"'{quoted}'"


def _text(value: Any, key: str, kind: str) -> str | None:
    match value:
        case None:
            return None
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case float() if isnan(value) or isinf(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case int() | float() | Decimal():
            return str(value)
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return f"\\x{value.hex()}"
        case list() | tuple() if kind.endswith("[]"):
            return "{" + ",".join(_element(item, key, kind) for item in value) + "}"
        case list() | tuple() | dict():
            try:
                return orjson.dumps(value).decode()
            except TypeError as error:
                raise QueryRefusedError(f"the parameter {key} is no JSON: {error}", parameter=key) from None
        case _:
            what = f"the parameter {key} is a {type(value).__name__}, which is no value of SQL"
            raise QueryRefusedError(what, parameter=key)


def _element(value: Any, key: str, kind: str) -> str:
    if isinstance(value, list | tuple) and not kind.startswith("json"):
        return _text(value, key, kind) or ""
    text = _text(value, key, kind.removesuffix("[]"))
    return "NULL" if text is None else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _placed(query: str, marks: Sequence[Marked], texts: Sequence[str]) -> Placed:
    pieces: list[str] = []
    places: list[tuple[int, int]] = []
    done = length = 0
    for mark, text in zip(marks, texts, strict=True):
        pieces += [query[done : mark.start], text]
        length += mark.start - done
        places.append((length, length + len(text)))
        length += len(text)
        done = mark.end
    return Placed("".join([*pieces, query[done:]]), marks, places)


def _tokens(query: str) -> Iterator[re.Match[str]]:
    """Return the tokens of a query, comments (which may stand in each other) and dollar-quoted strings left out."""
    place = 0
    while place < len(query):
        found = _TOKEN.match(query, place)
        if found is None:  # cannot be: the last alternative takes any character
            return
        place = found.end()
        if found["comment"]:
            place = _end_of_comment(query, place)
        elif found["dollar"]:
            end = query.find(found["dollar"], place)
            place = len(query) if end < 0 else end + len(found["dollar"])
        else:
            yield found


def _end_of_comment(query: str, place: int) -> int:
    depth = 1
    while depth:
        found = _COMMENT.search(query, place)
        if found is None:
            return len(query)
        depth += 1 if found[0] == "/*" else -1
        place = found.end()
    return place
