"""The write gate: what goes in comes out again byte for byte, or is refused with its path."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import orjson
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.canonical import MAX_DEPTH, MAX_INT, PROFILE, canonical_json, child, decode, gate, outside_strings
from worldledger.errors import InvalidEffectError

from .values import ANY_JSON, nested, offences, same


@dataclass
class Point:
    """What orjson would write by itself."""

    x: int = 1


class Word(str):
    """A string that is not quite one."""

    __slots__ = ()


class Colour(StrEnum):
    """An enum that is a string."""

    RED = "red"


class Level(IntEnum):
    """An enum that is an int."""

    HIGH = 3
    BEYOND = 2**53


class Trap(Enum):
    """Values that orjson writes without a word."""

    NAN = math.nan
    MINUS_ZERO = -0.0
    NUL = "a\x00"
    INSIDE = {"deep": [1, -0.0]}  # noqa: RUF012 - a value, not a default


REFUSED: dict[str, tuple[Any, str, str]] = {
    "NaN": ({"a": math.nan}, "$.a", "finite"),
    "infinity": ([1, math.inf], "$[1]", "finite"),
    "minus infinity": ({"a": {"b": -math.inf}}, "$.a.b", "finite"),
    "an int of 2^53": ({"a": [2**53]}, "$.a[0]", "2^53-1"),
    "an int of -2^53": ({"a": -(2**53)}, "$.a", "2^53-1"),
    "an int beyond 64 bits": ({"a": 2**64}, "$.a", "2^53-1"),
    "an enormous int": ({"a": 10**5000}, "$.a", "2^53-1"),
    "-0.0": ({"a": -0.0}, "$.a", "-0.0"),
    "-0.0 in a list": ([0.0, [-0.0]], "$[1][0]", "-0.0"),
    "NUL in a string": ({"a": "x\x00y"}, "$.a", "NUL"),
    "NUL in a key": ({"a": {"x\x00y": 1}}, "$.a", "NUL"),
    "a lone surrogate in a string": ({"a": ["\ud800"]}, "$.a[0]", "surrogate"),
    "a lone surrogate in a key": ({"\udfff": 1}, "$", "surrogate"),
    "a key that is an int": ({"a": {1: 2}}, "$.a", "not a string"),
    "a key that is null": ({None: 2}, "$", "not a string"),
    "a key that is a subclass of str": ({"a": {Word("x"): 2}}, "$.a", "key"),
    "a key that is an enum": ({"a": {Colour.RED: 2}}, "$.a", "key"),
    "a naive datetime": ({"at": datetime(2024, 1, 1)}, "$.at", "ISO 8601"),  # noqa: DTZ001 - the point
    "an aware datetime": ({"at": datetime(2024, 1, 1, tzinfo=UTC)}, "$.at", "ISO 8601"),
    "a date": ({"at": date(2024, 1, 1)}, "$.at", "ISO 8601"),
    "bytes": ({"a": b"x"}, "$.a", "bytes"),
    "a set": ({"a": {1}}, "$.a", "set"),
    "a Decimal": ({"a": Decimal(1)}, "$.a", "Decimal"),
    "a dataclass": ({"a": Point()}, "$.a", "Point"),
    "a subclass of str": ({"a": Word("x")}, "$.a", "Word"),
    "an object": ({"a": object()}, "$.a", "object"),
    "an enum of NaN": ({"a": Trap.NAN}, "$.a", "finite"),
    "an enum of -0.0": ({"a": Trap.MINUS_ZERO}, "$.a", "-0.0"),
    "an enum of text with NUL": ({"a": Trap.NUL}, "$.a", "NUL"),
    "an enum of a container": ({"a": Trap.INSIDE}, "$.a.deep[1]", "-0.0"),
    "an enum of a large int": ({"a": Level.BEYOND}, "$.a", "2^53-1"),
    "a path with odd keys": ({"a b": {"ä": {'"': math.nan}}}, '$["a b"]["\\u00e4"]["\\""]', "finite"),
    "the first offence of several": ({"a": 1, "b": math.nan, "c": math.inf}, "$.b", "finite"),
    "a level too many of lists": (nested(MAX_DEPTH + 1), "$" + "[0]" * MAX_DEPTH, "deeper than 100"),
    "a level too many of objects": (nested(MAX_DEPTH + 1, objects=True), "$" + ".a" * MAX_DEPTH, "deeper than 100"),
    "nesting beyond what orjson writes": (nested(400), "$" + "[0]" * MAX_DEPTH, "deeper than 100"),
    "nesting beyond Python's recursion": (nested(50_000), "$" + "[0]" * MAX_DEPTH, "deeper than 100"),
}

TAKEN: dict[str, tuple[Any, bytes]] = {
    "nothing": ({}, b"{}"),
    "null, true, false": ([None, True, False], b"[null,true,false]"),
    "keys sorted by code point": (
        {"b": 1, "a": 2, "Z": 3, "é": 4, "\U0001f600": 5, "\uff00": 6},
        '{"Z":3,"a":2,"b":1,"é":4,"\uff00":6,"\U0001f600":5}'.encode(),
    ),
    "the largest ints": ([MAX_INT, -MAX_INT, 0], b"[9007199254740991,-9007199254740991,0]"),
    "floats": ([0.0, 1.0, -1.5, 0.1, 5e-324], b"[0.0,1.0,-1.5,0.1,5e-324]"),
    "floats near -0.0": ([-0.05, -0.01], b"[-0.05,-0.01]"),
    "text like what is refused": (["-0.0", "null", "\\u0000", "NaN"], b'["-0.0","null","\\\\u0000","NaN"]'),
    "control characters and quotes": (['\n\t\x01\x7f"\\/'], b'["\\n\\t\\u0001\x7f\\"\\\\/"]'),
    "a tuple as a list": ({"a": (1, 2)}, b'{"a":[1,2]}'),
    "an enum's value": ([Colour.RED, Level.HIGH], b'["red",3]'),
    "a uuid's text": (UUID(int=1), b'"00000000-0000-0000-0000-000000000001"'),
    "a pair of surrogates as one character": (["\U0001f600"], '["\U0001f600"]'.encode()),
    "the deepest nesting": (nested(MAX_DEPTH), b"[" * MAX_DEPTH + b"]" * MAX_DEPTH),
    "many brackets side by side": ([[]] * 500, b"[" + b",".join([b"[]"] * 500) + b"]"),
    "many brackets in a string": (["[{" * 500], b'["' + b"[{" * 500 + b'"]'),
}


@cases("value, path, reason", REFUSED.values(), ids=REFUSED.keys())
def test_refuses_what_would_not_survive(value: Any, path: str, reason: str) -> None:
    """A value that would not survive is refused with the JSON path where it stands."""
    with pytest.raises(InvalidEffectError) as caught:
        gate(value)
    assert caught.value.path == path == caught.value.details["path"]
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"{path}: ")


@cases("value, text", TAKEN.values(), ids=TAKEN.keys())
def test_writes_the_canonical_text(value: Any, text: bytes) -> None:
    """A value that passes is written compactly, in UTF-8, with keys sorted by code point."""
    assert gate(value) == text == canonical_json(value)


@settings(max_examples=400, deadline=None)
@given(ANY_JSON)
def test_any_value_survives_or_is_refused_with_its_path(value: Any) -> None:
    """Any JSON value either comes back equal and with the same bytes, or is refused where it offends."""
    bad = list(offences(value))
    try:
        text = gate(value)
    except InvalidEffectError as error:
        assert error.path == bad[0]  # noqa: PT017 - both outcomes are looked at
        return
    assert not bad
    back = orjson.loads(text)
    assert same(back, value)
    assert same(json.loads(text), value)
    assert orjson.dumps(back, option=orjson.OPT_SORT_KEYS) == text


@settings(max_examples=400, deadline=None)
@given(ANY_JSON)
def test_among_many_others_a_value_is_taken_or_refused_as_alone(value: Any) -> None:
    """Beside so many lists that every value is looked at, the same values are refused, at the same path."""
    bad = list(offences(value, "$[0]"))
    try:
        gate([value, *([[]] * MAX_DEPTH)])
    except InvalidEffectError as error:
        assert error.path == bad[0]  # noqa: PT017 - both outcomes are looked at
    else:
        assert not bad


@settings(max_examples=400, deadline=None)
@given(ANY_JSON, st.integers(1, 9))
def test_a_text_is_parted_from_its_strings_in_pieces(value: Any, size: int) -> None:
    """Whatever stands in the strings, and wherever a piece ends."""
    text = json.dumps({"[": value, '{\\"': ["\\", '",[', '\\"']}).encode()
    left_out = bytes(set(range(256)) - set(b',[{"'))
    expected = re.sub(rb'"(?:[^"\\]|\\.)*"|[^,[{"]', b"", text)
    assert outside_strings(text, left_out) == (expected, False, b"")
    found, is_inside, rest = b"", False, b""
    for at in range(0, len(text), size):
        piece, is_inside, rest = outside_strings(rest + text[at : at + size], left_out, is_inside=is_inside)
        found += piece
    assert (found, is_inside, rest) == (expected, False, b"")


def test_brackets_in_strings_are_no_levels() -> None:
    """A text may hold as many brackets as it likes, and close none that is open."""
    many = ["[" * 3 * MAX_DEPTH, *([[]] * MAX_DEPTH)]
    assert orjson.loads(gate(many)) == many
    with pytest.raises(InvalidEffectError, match="nested deeper") as caught:
        gate(["]" * 3 * MAX_DEPTH, nested(MAX_DEPTH), '"]' * 2 * MAX_DEPTH])
    assert caught.value.path.startswith("$[1]")


@cases("wide", [False, True], ids=["short", "long"])
@cases("level", [1, 2, 50, 100])
def test_counts_levels_from_where_the_value_will_stand(level: int, wide: bool) -> None:
    """The level at which a value stands in the effect counts towards the depth."""
    deepest = MAX_DEPTH + 1 - level
    padding: list[Any] = ["x" * 300] if wide else []
    assert gate([nested(deepest - 1), *padding] if deepest > 1 else [], level=level)
    with pytest.raises(InvalidEffectError, match="deeper than 100"):
        gate([nested(deepest), *padding], level=level)


def test_names_the_path_inside_the_effect() -> None:
    """A payload's offence is named by its path inside the effect."""
    with pytest.raises(InvalidEffectError) as caught:
        gate({"x": [1, math.nan]}, path="$.payload", level=2)
    assert caught.value.path == "$.payload.x[1]"


def test_a_value_that_contains_itself_is_refused() -> None:
    """A value without an end is refused as too deep."""
    loop: dict[str, Any] = {}
    loop["again"] = loop
    with pytest.raises(InvalidEffectError, match="deeper than 100"):
        gate(loop)


def test_says_which_draft_of_a_list() -> None:
    """The same refusal can be told with the draft's place in its list."""
    error = InvalidEffectError("not a finite number", "$.payload.x", limit=3).at(7)
    assert str(error) == "draft 7, $.payload.x: not a finite number"
    assert error.details == {"path": "$.payload.x", "index": 7, "limit": 3}


@cases(
    "key, path",
    [
        ("a", "$.a"),
        ("_a1", "$._a1"),
        ("1a", '$["1a"]'),
        ("", '$[""]'),
        ("a.b", '$["a.b"]'),
        ("a\n", '$["a\\n"]'),
        (3, "$[3]"),
    ],
)
def test_paths_are_unambiguous(key: str | int, path: str) -> None:
    """A key that is no plain word is quoted in a path."""
    assert child("$", key) == path


def test_reads_its_own_profile_and_no_other() -> None:
    """Stored text is read in the profile it was written in; an unknown profile is an error."""
    assert PROFILE == "orjson-sorted/1"
    assert decode(PROFILE, b'{"a":1e16}') == {"a": 1e16}
    with pytest.raises(ValueError, match="orjson-sorted/2"):
        decode("orjson-sorted/2", b"{}")
    with pytest.raises(ValueError, match="unexpected"):
        decode(PROFILE, b"{")


@pytest.mark.parametrize(("length", "count"), [(200_000, 20), (9_000, 500)])
def test_a_text_takes_no_more_than_it_has(length: int, count: int) -> None:
    """What is written of a value keeps no address space beside its own bytes."""
    value = [1] * length
    before = psutil.Process().memory_info().vms
    texts = [gate(value) for _ in range(count)]
    assert psutil.Process().memory_info().vms - before < 10 * sum(map(len, texts))
