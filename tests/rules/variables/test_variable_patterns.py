"""Patterns: Python's syntax and meaning, in linear time."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.errors import InvalidDefinitionError
from worldledger.variables import check_definitions, create_global_state_model
from worldledger.variables.patterns import PatternError, translate


def matches(pattern: str, text: str) -> bool:
    """Tell whether a variable with the pattern takes the text."""
    model = create_global_state_model(check_definitions({"x": {"type": "str", "pattern": pattern}}))
    try:
        model.model_validate({"x": text})
    except ValueError:
        return False
    return True


@cases(
    "pattern, good, bad",
    [
        ("^[A-Za-z][A-Za-z0-9_]{2,19}$", ["Agent_1", "abc"], ["ab", "1abc", "a" * 21, "Agent_1\n", " Agent_1", "é_1"]),
        ("a|bc", ["a", "bc"], ["ac", "abc", "b", ""]),
        ("", [""], ["a"]),
        (r"\d+", ["12", "١٢"], ["", "1a", "²"]),
        (r"\w+", ["aé²_9"], ["a-b", "e\u0301"]),
        (r"\s", [" ", "\x1c", "\u2003"], ["", "  "]),
        (r"\S\D\W", ["a-!"], ["a1!"]),
        (r"[^\W\d]", ["a", "_"], ["1", "-"]),
        ("a{,2}b", ["b", "aab"], ["aaab"]),
        ("a{,}", ["", "aaa"], ["b"]),
        ("a{x}|b{", ["a{x}", "b{"], ["a"]),
        (r"a\Z", ["a"], ["a\n"]),
        (r"\A(?P<first>a)\.", ["a."], ["ab"]),
        ("a.c", ["abc", "a\rc"], ["a\nc"]),
        ("(?s)a.c", ["a\nc"], ["ac"]),
        ("(?i)Straße|[k-m]", ["STRAßE", "K", "\u212a"], ["n", "strasse"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?i)i[^i]", ["\u0130x", "\u0131x"], ["x\u0130", "ii"]),
        ("(?m)a$\n^b", ["a\nb"], ["ab"]),
        (r"\x41\u00e9\101\0", ["AéA\0"], ["Aé"]),
        (r"[]a\-\]\\[^]", ["]", "-", "\\", "[", "^"], ["b"]),
        (r"\<\>\-\é\ ", ["<>-é "], [""]),
        ("a*?b+?c??", ["aabb", "bc"], ["a"]),
        ("(a|b$)", ["b"], ["b\n"]),
        ("[\\b]", ["\b"], ["b"]),
        ("[^[]", ["a"], ["["]),
    ],
)
def test_a_pattern_means_what_it_means_in_python(pattern: str, good: list[str], bad: list[str]) -> None:
    """The whole string has to match; Python's own engine says the same."""
    assert [text for text in good + bad if matches(pattern, text)] == good
    assert [text for text in good + bad if re.fullmatch(pattern, text)] == good


@cases(
    "pattern, reason",
    [
        ("(?=a)a", "look-ahead is not supported"),
        ("(?!a)b", "look-ahead is not supported"),
        ("(?<=a)b", "look-behind is not supported"),
        ("(?<!a)b", "look-behind is not supported"),
        (r"(a)\1", "back-references are not supported"),
        ("(?P<n>a)(?P=n)", "back-references are not supported"),
        ("(a)?(?(1)b|c)", "conditional groups are not supported"),
        ("(?>a)", "atomic groups are not supported"),
        ("a++", "possessive repetitions are not supported"),
        ("a(?#why)", "comments are not supported"),
        ("(?x)a b", "a flag other than i, m and s, is not supported"),
        ("(?a:a)", "a flag other than i, m and s, is not supported"),
        (r"\bword\b", r"\b and \B are not supported"),
        ("a$b", r"write \Z"),
        ("(?:a$|b)*", r"write \Z"),
        ("[[a]", "nested set"),
        ("[a&&b]", "set operation"),
        ("[ --b]", "set operation"),
        ("[--b]", "set operation"),
        ("[a||b]", "set operation"),
        ("(", "the pattern ends too early"),
        (")", "unbalanced parenthesis"),
        ("[a", "the pattern ends too early"),
        ("a\\", "the pattern ends too early"),
        ("*a", "nothing to repeat"),
        ("a**", "multiple repeat"),
        ("a{2}{3}", "multiple repeat"),
        ("a{3,2}", "min repeat greater than max repeat"),
        ("[b-a]", "bad character range"),
        (r"[a-\d]", "bad character range"),
        (r"\xg1", "incomplete"),
        (r"\U00110000", "incomplete or impossible"),
        (r"\ud800", "half a surrogate"),
        (r"\pL", r"\p is not supported"),
        (r"\z", r"\z is not supported"),
        (r"\9", "back-references"),
        ("^*", "nothing to repeat"),
        ("(?P<1>a)", "bad character in group name"),
        ("(?P<a>a)(?P<a>b)", "redefinition of group name"),
        ("a" * 1001, "at most 1000 characters"),
        ("(" * 51 + ")" * 51, "nested at most 50 deep"),
        ("a{2001}", "too large with its repetitions written out"),
        ("a{99999999999999999999}", "too large with its repetitions written out"),
        ("(?:(?:a{100}){100}){100}", "too large"),
        (r"\w{500}", "too large"),
        ("a{1001}", "at most 2000 units: a letter takes 1"),
        (".{667}", "too large"),
        (r"\w{223}", r"a class such as \w 8"),
    ],
)
def test_what_has_no_counterpart_is_refused(pattern: str, reason: str) -> None:
    """Naming why, and the place of the pattern."""
    with pytest.raises(PatternError, match=re.escape(reason)):
        translate(pattern)
    with pytest.raises(InvalidDefinitionError, match=r"agent_vars\.x\.pattern: "):
        check_definitions({"x": {"type": "str", "pattern": pattern}})


_TOKENS = [*"aab1.^$|()[]{},-?*+\\\n iI", r"\d", r"\w", r"\W", r"\s", r"\Z", r"\A", r"\n", r"\x41", r"\."]
_TOKENS += ["[a-c]", "[^b]", "(?:", "{2}", "{,2}", "(?i)", "(?s)", "(?m:"]
_SET = st.lists(st.sampled_from([*"ab-^[]&~| \\", r"\w", r"\-", "--", "||"]), max_size=6).map("".join)
_TEXTS = st.text(alphabet="ab1iI-^[]&|\n ²é\u0130\u0131\x1c{", max_size=4)


@settings(max_examples=1000, deadline=None)
@given(
    st.lists(st.sampled_from(_TOKENS), max_size=7).map("".join) | _SET.map(lambda inside: f"[{inside}]"),
    st.lists(_TEXTS, max_size=12),
)
def test_both_engines_agree(pattern: str, texts: list[str]) -> None:
    """Whatever is put together: it is refused, or it means the same as Python's `re.fullmatch`."""
    try:
        translate(pattern)
    except PatternError:
        return
    model: Any = create_global_state_model(check_definitions({"x": {"type": "str", "pattern": pattern}}))
    for text in texts:
        assert _takes(model, text) == bool(re.fullmatch(pattern, text))


def _takes(model: Any, text: str) -> bool:
    try:
        model.model_validate_json(model.model_construct(x=text).model_dump_json())
    except ValueError:
        return False
    return True


def test_no_pattern_takes_exponential_time() -> None:
    """(a+)+$ on a long string that does not match would take a backtracking engine longer than the universe lasts."""
    assert not matches("(a+)+$", "a" * 9_999 + "b")
    assert matches("(a+)+$", "a" * 10_000)
    assert not matches("(a|a)*(a|aa)+b", "a" * 10_000)


@cases("pattern", ["a{1000}", ".{666}", r"\w{200}", r"\d{222}", "a{999,}", "a" * 1000])
def test_the_largest_patterns(pattern: str) -> None:
    """A repetition is as large as what it repeats and one more, as often as that is written out: 2000 units in all."""
    assert not matches(pattern, "b" * 2000)
