"""Texts that others wrote: request bodies as they arrived, and lines of somebody's export."""

from __future__ import annotations

import json
import math
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.canonical import MAX_DEPTH, check_stored_text, gate, parse_text
from worldledger.errors import InvalidEffectError

from .values import GOOD_OBJECTS, same

_FRAGMENTS = [
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b":",
    b",",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\xed\xa0\x80",
    b"\xff",
    b"\x00",
]
_FRAGMENTS += [
    b"1e400",
    b"-0.0",
    b"NaN",
    b"1" * 5000,
    b'"a":1',
    b"null",
    b"true",
    b" ",
    b"\n",
    b"\xef\xbb\xbf",
    b"[" * 3000,
]
_HOSTILE = st.binary(max_size=30) | st.lists(st.sampled_from(_FRAGMENTS), max_size=12).map(b"".join)

NOT_PARSED: dict[str, tuple[bytes, str, str]] = {
    "nothing": (b"", "$", "not JSON"),
    "half an object": (b'{"a":', "$", "not JSON"),
    "two values": (b"{} {}", "$", "line 1 column 4"),
    "the second line": (b'{\n"a":x}', "$", "line 2 column 5"),
    "not UTF-8": (b'{"a":"\xff"}', "$", "byte 6"),
    "surrogates in UTF-8": (b'"\xed\xa0\x80"', "$", "not UTF-8"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "$", "not JSON"),
    "a raw control character": (b'"\x01"', "$", "not JSON"),
    "a duplicate key": (b'{"a":1,"a":1}', "$", "'a' stands twice"),
    "a duplicate key, spelt in two ways": (b'{"a":1,"\\u0061":2}', "$", "'a' stands twice"),
    "a duplicate key deep inside": (b'{"p":[0,{"q r":{"x":1,"y":2,"x":3}}]}', '$.p[1]["q r"]', "'x' stands twice"),
    "a duplicate inside what a duplicate hides": (b'{"a":{"x":1,"x":2},"a":1}', "$", "'a' stands twice"),
    "the first of several": (b'[{"a":1,"a":2},{"b":1,"b":2}]', "$[0]", "'a' stands twice"),
    "a duplicate beside an enormous int": (b'{"n":' + b"9" * 5000 + b',"a":{"x":1,"x":2}}', "$.a", "'x' stands twice"),
    "nesting without an end": (b"[" * 100_000, "$" + "[0]" * MAX_DEPTH, "deeper than 100"),
    "nesting of objects": (b'{"k":' * 100_000, "$" + ".k" * MAX_DEPTH, "deeper than 100"),
    "nesting in the third place": (b'{"a":[1,"]",' + b"[" * 100_000, "$.a[2]" + "[0]" * (MAX_DEPTH - 2), "deeper"),
}


@cases("text, path, reason", NOT_PARSED.values(), ids=NOT_PARSED.keys())
def test_a_body_that_a_parser_would_bend_is_refused(text: bytes, path: str, reason: str) -> None:
    """What is not JSON, or what a common parser would silently drop, is refused with its place."""
    with pytest.raises(InvalidEffectError) as caught:
        parse_text(text)
    assert caught.value.path == path
    assert reason in caught.value.reason


@cases(
    "text, path",
    [
        (b'{"a":NaN}', "$.a"),
        (b'{"a":[-Infinity]}', "$.a[0]"),
        (b'{"a":1e400}', "$.a"),
        (b'{"a":-0.0}', "$.a"),
        (b'{"a":-1e-400}', "$.a"),
        (b'{"a":9007199254740992}', "$.a"),
        (b'{"a":' + b"9" * 5000 + b"}", "$.a"),
        (b'{"a":"\\u0000"}', "$.a"),
        (b'{"a":"\\ud800"}', "$.a"),
        (b'{"\\udc00":1}', "$"),
        (b"[" * 200 + b"]" * 200, "$" + "[0]" * 100),
    ],
)
def test_what_parsing_keeps_the_gate_refuses(text: bytes, path: str) -> None:
    """A value that JSON text can name but not carry passes the parser and is refused by the gate, with its path."""
    with pytest.raises(InvalidEffectError) as caught:
        gate(parse_text(text))
    assert caught.value.path == path


@settings(max_examples=400, deadline=None)
@given(_HOSTILE)
@example(b"[" * 2000 + b'"' + b"]" * 2000)
def test_hostile_bytes_raise_only_the_gates_error(text: bytes) -> None:
    """Whatever bytes arrive, parsing and gating either give canonical bytes or raise InvalidEffectError."""
    try:
        written = gate(parse_text(text))
    except InvalidEffectError:
        return
    assert orjson.dumps(orjson.loads(written), option=orjson.OPT_SORT_KEYS) == written


@settings(max_examples=400, deadline=None)
@given(_HOSTILE)
def test_hostile_lines_raise_only_the_gates_error(text: bytes) -> None:
    """Whatever bytes a file holds, a line is an effect's text or InvalidEffectError says why it is not."""
    try:
        value = check_stored_text(text)
    except InvalidEffectError:
        return
    assert isinstance(value, dict)


@settings(max_examples=200, deadline=None)
@given(GOOD_OBJECTS)
def test_a_text_of_ours_is_taken_back(value: dict[str, Any]) -> None:
    """What the gate wrote is taken as a stored text, with the same value."""
    assert same(check_stored_text(gate(value)), value)


@settings(max_examples=200, deadline=None)
@given(GOOD_OBJECTS)
def test_a_text_of_another_writer_of_the_profile_is_taken(value: dict[str, Any]) -> None:
    """Floats spelt as another library spells them are no offence."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    assert same(check_stored_text(text), value)


@cases(
    "text, value",
    [
        (b'{"a":1e16}', 1e16),
        (b'{"a":1e+16}', 1e16),
        (b'{"a":10000000000000000.0}', 1e16),
        (b'{"a":1.8446744073709552e19}', 1.8446744073709552e19),
        (b'{"a":1e-07}', 1e-7),
        (b'{"a":100.0}', 100.0),
    ],
)
def test_the_spelling_of_a_float_is_not_judged(text: bytes, value: float) -> None:
    """Lines written by other versions of orjson are taken, whatever their floats look like."""
    assert same(check_stored_text(text), {"a": value})


LINES_REFUSED: dict[str, tuple[bytes, str, str]] = {
    "a list": (b"[]", "$", "not an object"),
    "a number": (b"1e16", "$", "not an object"),
    "unsorted keys": (b'{"b":1,"a":2}', "$", "not sorted"),
    "unsorted keys inside": (b'{"a":[{"c":1,"b":2}]}', "$.a[0]", "not sorted"),
    "keys sorted by UTF-16, not by code point": ('{"\U0001f600":1,"\uff00":2}'.encode(), "$", "not sorted"),
    "a duplicate key": (b'{"a":1,"a":1}', "$", "stands twice"),
    "a space": (b'{"a": 1}', "$", "white space"),
    "a tab": (b'{\t"a":1}', "$", "white space"),
    "a line end": (b'{"a":1}\n', "$", "white space"),
    "a carriage return": (b'{"a":1}\r', "$", "white space"),
    "white space and a float of another version": (b'{"a":1e16 }', "$", "white space"),
    "NaN": (b'{"a":NaN}', "$.a", "finite"),
    "infinity": (b'{"a":1e400}', "$.a", "finite"),
    "-0.0": (b'{"a":-0.0}', "$.a", "-0.0"),
    "-0.0 beside a float of another version": (b'{"a":1e16,"b":-0.0}', "$.b", "-0.0"),
    "minus zero as an int": (b'{"a":[1,-0]}', "$.a[1]", "-0"),
    "an int of 2^53": (b'{"a":9007199254740992}', "$.a", "2^53-1"),
    "an int beyond 64 bits": (b'{"a":18446744073709551616}', "$.a", "2^53-1"),
    "an enormous int": (b'{"a":' + b"1" * 10_000 + b"}", "$.a", "2^53-1"),
    "NUL": (b'{"a":"\\u0000"}', "$.a", "NUL"),
    "a lone surrogate": (b'{"a":"\\ud800"}', "$.a", "surrogate"),
    "not UTF-8": (b'{"a":"\xff"}', "$", "not UTF-8"),
    "a level too many": (b'{"a":' + b"[" * 100 + b"]" * 100 + b"}", "$.a" + "[0]" * 99, "deeper than 100"),
    "nesting without an end": (b'{"a":' * 100_000, "$" + ".a" * 100, "deeper than 100"),
    "half a line": (b'{"a":1', "$", "not JSON"),
    "nothing": (b"", "$", "not JSON"),
    "a letter as an escape": (b'{"a":"\\u0041"}', "$", "not canonical text"),
    "a key as an escape": (b'{"\\u0061":1}', "$", "not canonical text"),
    "an escaped slash": (b'{"a":"a\\/b"}', "$", "not canonical text"),
    "an escape in upper case": (b'{"a":"\\u001F"}', "$", "not canonical text"),
    "a long escape for a short one": (b'{"a":"\\u000a"}', "$", "not canonical text"),
    "a capital exponent": (b'{"a":1E16}', "$", "not canonical text"),
    "a zero before an exponent": (b'{"a":1e016}', "$", "not canonical text"),
    "an escape beside a float of another version": (b'{"a":1e16,"b":"\\u0041"}', "$", "not canonical text"),
    "a zero too much": (b'{"a":1.50}', "$", "not canonical text"),
    "digits too many": (b'{"a":0.1000000000000000055}', "$", "not canonical text"),
    "an exponent of two digits before": (b'{"a":15e-1}', "$", "not canonical text"),
}


@cases("text, path, reason", LINES_REFUSED.values(), ids=LINES_REFUSED.keys())
def test_a_line_that_no_writer_of_the_profile_wrote_is_refused(text: bytes, path: str, reason: str) -> None:
    """A line with other keys, space or values than the profile allows is refused with its place."""
    with pytest.raises(InvalidEffectError) as caught:
        check_stored_text(text)
    assert caught.value.path == path
    assert reason in caught.value.reason


def test_white_space_inside_strings_is_content() -> None:
    """Blanks and escaped quotes inside strings are left alone."""
    text = b'{"a \\" b":"x \\\\","c":1e16}'
    assert check_stored_text(text) == {'a " b': "x \\", "c": 1e16}


def test_infinity_is_parsed_for_the_gate_to_name() -> None:
    """A number too large for a float reaches the gate as infinity, so that its path can be named."""
    assert math.isinf(parse_text(b"1e400"))
