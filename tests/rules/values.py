"""JSON values for Hypothesis, and an independent judge of what the write gate must refuse."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

_ANY_CHARACTER = st.characters(exclude_categories=())  # lone surrogates and NUL included
_WEIRD_TEXT = st.text(_ANY_CHARACTER, max_size=8)
_WEIRD_FLOATS = st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 0.0, 1e16, 1e22, 5e-324, -1.5, 1e308, 2.0**53])
_WEIRD_INTS = st.sampled_from([0, -1, 2**53 - 1, 2**53, -(2**53), 1 - 2**53, 2**63, 2**64, 10**400])

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | _WEIRD_INTS
    | st.floats()
    | _WEIRD_FLOATS
    | st.text(max_size=8)
    | _WEIRD_TEXT
)

#: Any JSON value, and values that JSON cannot hold (NaN, lone surrogates …) among them.
ANY_JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4) | _WEIRD_TEXT, inner, max_size=4),
    max_leaves=12,
)

_SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8)

#: JSON values that the gate must let through.
GOOD_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(1 - 2**53, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).map(lambda number: number + 0.0 if number else 0.0)
    | _SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_SAFE_TEXT, inner, max_size=4),
    max_leaves=12,
)

GOOD_OBJECTS: st.SearchStrategy[dict[str, Any]] = st.dictionaries(_SAFE_TEXT, GOOD_JSON, max_size=4)


def _bad_text(text: str) -> bool:
    return any(letter == "\x00" or 0xD800 <= ord(letter) <= 0xDFFF for letter in text)


def _bad_number(value: Any) -> bool:
    if type(value) is int:
        return not -(2**53) < value < 2**53
    return type(value) is float and (not math.isfinite(value) or (value == 0 and math.copysign(1, value) < 0))


def offences(value: Any, path: str = "$") -> Iterator[str]:
    """Return the path of everything in a JSON value that must be refused (a bad key is its object's offence)."""
    if isinstance(value, str):
        if _bad_text(value):
            yield path
    elif isinstance(value, dict):
        for key, item in value.items():
            if _bad_text(key):
                yield path
            plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", key)
            yield from offences(item, f"{path}.{key}" if plain else f"{path}[{json.dumps(key)}]")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from offences(item, f"{path}[{index}]")
    elif _bad_number(value):
        yield path


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal and of the same types (1, 1.0 and true are three values)."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(same(*pair) for pair in zip(one, other, strict=True))
    return bool(one == other)


def nested(levels: int, *, objects: bool = False) -> Any:
    """Make a value of that many levels."""
    value: Any = {} if objects else []
    for _ in range(levels - 1):
        value = {"a": value} if objects else [value]
    return value
