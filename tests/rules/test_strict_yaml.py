"""Strict YAML: what is read, what is refused and where, and the limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_simulation.rules.strict_yaml import MAX_BYTES, MAX_DEPTH, MAX_NODES, MAX_PROBLEMS, parse

from tests.cases import cases

from .values import same


def _read(text: str | bytes) -> Any:
    return parse(text, name="f.yaml").value


def _refused(text: str | bytes) -> list[tuple[int | None, int | None, str]]:
    """Return line, column and message of each problem."""
    with pytest.raises(InvalidSimulationConfigError) as caught:
        parse(text, name="f.yaml")
    assert all(problem.file == "f.yaml" for problem in caught.value.problems)
    return [(problem.line, problem.column, problem.message) for problem in caught.value.problems]


def _one(text: str | bytes) -> tuple[int | None, int | None, str]:
    (found,) = _refused(text)
    return found


# -- what is read ------------------------------------------------------------------------------------------------


@cases(
    "text, value",
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("0", 0),
        ("-0", 0),
        ("+5", 5),
        ("-17", -17),
        ("9007199254740991", 2**53 - 1),
        ("1.5", 1.5),
        (".5", 0.5),
        ("-0.0", 0.0),
        ("1e5", 1e5),
        ("-1.5E-3", -0.0015),
        ("1.0e+2", 100.0),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("tRue", "tRue"),
        ("010", "010"),
        ("0o17", "0o17"),
        ("0x1F", "0x1F"),
        ("0b11", "0b11"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-01-01", "2026-01-01"),
        ("2026-01-01T10:00:00Z", "2026-01-01T10:00:00Z"),
        ("=", "="),
        ("<<", "<<"),
        ("NaN", "NaN"),
        ("1.2.3", "1.2.3"),
        ("e5", "e5"),
        ("'5'", "5"),
        ('"null"', "null"),
        ("!!str 5", "5"),
        ("!!float 5", 5.0),
        ("!!int 5", 5),
        ("!!bool true", True),
        ("!!null ~", None),
        ('"\\ud83d\\ude00"', "😀"),
        ("Überseehändlerin", "Überseehändlerin"),
        ("!!seq [1]", [1]),
        ("!!map {a: 1}", {"a": 1}),
    ],
)
def test_scalars(text: str, value: Any) -> None:
    """Numbers, booleans and null are few and plain; whatever else stands there is a string."""
    assert same(_read(f"a: {text}\n"), {"a": value})


def test_keys_may_be_whole_numbers() -> None:
    """Keys that are whole numbers stay so: whether they may be, the types of variables say."""
    assert _read("1: a\n-2: b\n'3': c\n") == {1: "a", -2: "b", "3": "c"}


def test_merges() -> None:
    """A mapping's own keys count before merged ones, and of those the first that came."""
    text = "a: &a {x: 1, y: 1}\nb: &b {y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  x: 3\nd: {<<: *b, '<<': q}\n"
    value = _read(text)
    assert value["c"] == {"x": 3, "y": 1, "z": 2}
    assert value["d"] == {"y": 2, "z": 2, "<<": "q"}
    assert value == yaml.safe_load(text.replace(", '<<': q", "")) | {"d": value["d"]}


def test_aliases_share_and_may_close_a_circle() -> None:
    """An alias is the very object of its anchor, also within that."""
    value = _read("a: &a {b: [1, *a]}\nc: *a\nd: &s text\ne: *s\n")
    assert value["a"] is value["c"]
    assert value["a"]["b"][1] is value["a"]
    assert value["e"] == "text"


def test_json_is_yaml() -> None:
    """JSON is read as it is written, with tabs if it has some."""
    value = {"a": [1, 2.5e300, None, True], "b\tc": {"": "😀 \\/"}}
    for indent in (None, 2, "\t"):
        for ascii_only in (True, False):
            assert same(_read(json.dumps(value, indent=indent, ensure_ascii=ascii_only)), value)
    assert _read('{"a":1,"b":"\\/"}') == {"a": 1, "b": "/"}


def test_a_bom_is_no_content() -> None:
    """A file may begin with UTF-8's mark; columns are counted after it."""
    document = parse("\ufeffa: 1\n".encode(), name="f")
    assert (document.value, document.place(("a",))) == ({"a": 1}, (1, 1))


# -- where it stands ---------------------------------------------------------------------------------------------

_PLACES = """\
# a comment
base: &base
  gold: 1
agents:
  - name: A
    state: {gold: 5,
            7: x}
  - B
more:
  <<: *base
  own: *base
"""


def test_places() -> None:
    """A member stands where its key begins, an item where it begins itself, what is shared where its anchor is."""
    document = parse(_PLACES, name="f")
    assert document.place(()) == (1, 1)
    assert document.place(("agents",)) == (4, 1)
    assert document.place(("agents", 0)) == (5, 5)
    assert document.place(("agents", 0, "state", "gold")) == (6, 13)
    assert document.place(("agents", 0, "state", 7)) == (7, 13)
    assert document.place(("agents", 0, "state", "7")) == (7, 13)
    assert document.place(("agents", 1)) == (8, 5)
    assert document.place(("more", "gold")) == (3, 3)
    assert document.place(("more", "own", "gold")) == (3, 3)


def test_what_is_not_there_stands_at_what_is_around_it() -> None:
    """A missing member has the place of the nearest one around it."""
    document = parse(_PLACES, name="f")
    assert document.place(("agents", 0, "weight", "x")) == (5, 5)
    assert document.place(("agents", 9)) == (4, 1)
    assert document.place(("agents", "x", 1)) == (4, 1)
    assert document.place(("nothing",)) == (1, 1)
    assert document.place(("agents", 1, "x")) == (8, 5)


def test_places_in_a_circle() -> None:
    """A path may go round a circle as often as it likes."""
    document = parse("a: &a\n  b: *a\n", name="f")
    assert document.place(("a", *["b"] * 1000)) == (2, 3)


# -- what is refused ---------------------------------------------------------------------------------------------


@cases(
    "text, line, column, words",
    [
        ("", 1, 1, "this is empty"),
        ("- a\n", 1, 1, "this is a list"),
        ("text", 1, 1, "this is a string"),
        ("5", 1, 1, "this is a number"),
        ("true", 1, 1, "this is a boolean"),
        ("null", 1, 1, "this is empty"),
        ("a: 1\nb: 2\na: 3\n", 3, 1, "the key 'a' stands twice, first in line 1"),
        ("1: a\n'1': b\n", 2, 1, "the key '1' stands twice, first in line 1"),
        ("a: {b: 1, b: 2}", 1, 11, "the key 'b' stands twice"),
        ("x: &x {}\na:\n  <<: *x\n  <<: *x\n", 4, 3, "the key '<<' stands twice, first in line 3"),
        ("a:\n\tb: 1\n", 2, 1, "a tab"),
        ("a:\n  b: 1\n\t\n\tc: 2\n", 3, 1, "a tab"),
        ("a: 1\n---\nb: 2\n", 2, 1, "a second document begins here"),
        ("a: !python/object:os.system x\n", 1, 4, "the tag !python/object:os.system is not known here"),
        ("a: !!python/object:os.system x\n", 1, 4, "the tag !!python/object:os.system is not known here"),
        ("a: !!set {b}\n", 1, 4, "the tag !!set"),
        ("a: !!binary aGk=\n", 1, 4, "the tag !!binary"),
        ("a: !!str [1]\n", 1, 4, "the tag !!str"),
        ("a: ! x\n", 1, 4, "the tag ! is"),
        ("a: !!int x\n", 1, 4, "this is no value of the tag !!int"),
        ("a: !!int 1.5\n", 1, 4, "this is no value of the tag !!int"),
        ("a: [1, .nan]\n", 1, 8, "numbers are finite"),
        ("a: 1e999\n", 1, 4, "too large"),
        ("a: 9007199254740992\n", 1, 4, "a whole number beyond ±(2^53-1)"),
        ("a: -9007199254740992\n", 1, 4, "a whole number beyond ±(2^53-1)"),
        (f"a: {'9' * 5000}\n", 1, 4, "too many digits"),
        (f"a: {'9' * 5000}.5\n", 1, 4, "too many digits"),
        ("? [a]\n: 1\n", 1, 3, "a key is a string; this is a collection"),
        ("? {a: 1}\n: 1\n", 1, 3, "a key is a string; this is a collection"),
        ("true: 1\n", 1, 1, "keys are strings, this is a boolean: quote it"),
        ("1.5: 1\n", 1, 1, "keys are strings, this is a number: quote it"),
        ("null: 1\n", 1, 1, "keys are strings, this is null: quote it"),
        ("a: *b\n", 1, 4, "there is no anchor &b before this alias"),
        ("a: &a\n  <<: *a\n", 2, 7, "merges a mapping into itself"),
        ("a: &a\n  b:\n    <<: *a\n", 3, 9, "merges a mapping into itself"),
        ("a:\n  <<: 5\n", 2, 7, "merges a mapping, or a list of mappings"),
        ("a:\n  <<: [{}, 5]\n", 2, 7, "merges a mapping, or a list of mappings"),
        ("a: b: c\n", 1, 5, "not YAML: mapping values are not allowed here"),
        ("a: [1, 2\nb: 3\n", 2, 2, "not YAML"),
        ("a: 'x\n", 2, 1, "not YAML"),
        ("a: 1\nb: x\x07y\n", 2, 5, "the character U+0007"),
        ('a: "\\0"\n', 1, 4, "a NUL character"),
        ('a: "\\ud83d"\n', 1, 4, "a lone surrogate"),
        ('"\\ud83d": 1\n', 1, 1, "a lone surrogate"),
        ('a: "\\UFFFFFFFF"\n', 1, 7, "not YAML"),
        ('a: "\\U00110000"\n', 1, 7, "not YAML"),
        (f"%YAML {'9' * 5000}.1\n--- {{a: 1}}\n", 1, 7, "not YAML"),
        ("%YAML 2.0\n--- {a: 1}\n", 1, 1, "not YAML"),
        ("a: 1\nb: 'x\u2028y'\n", 2, 6, "the character U+2028, which may be a line break or not"),
        ("# \x85\n", 1, 3, "the character U+0085"),
        ("a: \ud800\n", 1, 4, "the character U+D800"),
        (b"a: 1\nb: \xff\n", 2, 4, "not UTF-8 (byte 0xff)"),
        ("a: 1\n".encode("utf-16"), 1, 1, "this is UTF-16"),
    ],
)
def test_refusals(text: str | bytes, line: int, column: int, words: str) -> None:
    """Each thing that is refused is named with its line and column."""
    found = _one(text)
    assert found[:2] == (line, column)
    assert words in found[2]


_TAGS = "!!str, !!int, !!float, !!bool, !!null, !!map and !!seq"


def test_all_that_can_be_told_is_told_at_once() -> None:
    """Whatever does not end the reading is told together, in its order, and with its path."""
    with pytest.raises(InvalidSimulationConfigError) as caught:
        parse("a: .nan\nb: [1, !x 2, {c: 1, c: 2}]\ntrue: 3\n", name="f.yaml")
    assert caught.value.message.splitlines() == [
        "f.yaml:1:4: a: numbers are finite; .nan and .inf are not",
        f"f.yaml:2:8: b[1]: the tag !x is not known here; there are {_TAGS}",
        "f.yaml:2:21: b[2].c: the key 'c' stands twice, first in line 2",
        "f.yaml:3:1: keys are strings, this is a boolean: quote it",
    ]
    first = {"file": "f.yaml", "line": 1, "column": 4, "path": "a"}
    assert caught.value.details["problems"][0] == first | {"message": "numbers are finite; .nan and .inf are not"}


def test_after_many_problems_it_ends() -> None:
    """After a thousand problems no more are looked for."""
    found = _refused("a: [" + ".nan," * 5000 + "]")
    assert len(found) == MAX_PROBLEMS + 1
    assert "the rest was not read" in found[-1][2]


# -- bombs -------------------------------------------------------------------------------------------------------


def test_a_large_text_is_not_looked_at() -> None:
    """A text over the limit is refused by its size; one at the limit is read."""
    assert _one(b"[" * 10_000_000) == (None, None, f"more than {MAX_BYTES} bytes")
    assert _one("ä" * 3_000_000)[2] == f"more than {MAX_BYTES} bytes"
    assert parse("a: 12", name="f", max_bytes=5).value == {"a": 12}
    with pytest.raises(InvalidSimulationConfigError, match="f: more than 5 bytes"):
        parse("a: 123", name="f", max_bytes=5)


@cases("opening", ["[", "{a: ", "- ", "? ", "[? "])
def test_a_bomb_of_depth(opening: str) -> None:
    """What is nested too deep is refused where it is, however deep it goes on."""
    assert f"nested deeper than {MAX_DEPTH} levels" in _one("a:\n  " + opening * 20_000)[2]


def test_the_deepest_that_is_read() -> None:
    """A hundred levels are read, the document being the first; one more is not."""
    assert _read("a: " + "[" * (MAX_DEPTH - 1) + "]" * (MAX_DEPTH - 1))
    assert "nested deeper" in _one("a: " + "[" * MAX_DEPTH + "]" * MAX_DEPTH)[2]


def test_depth_by_aliases() -> None:
    """Depth is that of the value: aliases of deep things in deep places add up."""
    half = MAX_DEPTH // 2
    deep = "[" * half + "]" * half
    assert _read(f"a: &a {deep}\nb: {'[' * (half - 1)}*a{']' * (half - 1)}\n")
    found = _one(f"a: &a {deep}\nb: {'[' * half}*a{']' * half}\n")
    assert found[0] == 2
    assert found[2] == f"nested deeper than {MAX_DEPTH} levels, aliases written out"


def _bomb(opening: str, closing: str, item: str, times: int) -> str:
    lines = [f"a0: &a0 {opening}1{closing}"]
    for level in range(1, times):
        each = ", ".join(item.format(number, level - 1) for number in range(10))
        lines.append(f"a{level}: &a{level} {opening}{each}{closing}")
    return "\n".join(lines)


@pytest.mark.parametrize(
    "text",
    [
        _bomb("[", "]", "*a{1}", 30),
        "a0: &a0 {x: 1}\n"
        + "\n".join(f"a{n}: &a{n} {{<<: *a{n - 1}, k{n}: *a{n - 1}, m{n}: *a{n - 1}}}" for n in range(1, 60)),
        "a: &a {" + ", ".join(f"k{n}: 1" for n in range(1000)) + "}\nb: [" + "{<<: *a}, " * 1000 + "]",
    ],
    ids=["lists", "mappings", "merges"],
)
def test_a_bomb_of_values(text: str) -> None:
    """Values are counted with the aliases written out, before anything is."""
    assert f"more than {MAX_NODES} values" in _one(text)[2]


def test_values_that_are_written_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as the limit are read, one more is refused: the mapping, the list and what is in it count."""
    monkeypatch.setattr("worldledger_simulation.rules.strict_yaml.MAX_NODES", 1000)
    assert len(_read("a: [" + "1," * 998 + "]")["a"]) == 998
    assert "more than 1000 values" in _one("a: [" + "1," * 999 + "]")[2]


@pytest.mark.parametrize("text", ["x" * 10_000, "{" + "k" * 1000 + ": 1}"], ids=["value", "key"])
def test_a_bomb_of_text(text: str) -> None:
    """So are the characters of strings and keys."""
    assert f"more than {MAX_BYTES} characters" in _one(f"a: &a {text}\nb: [" + "*a," * 9000 + "]")[2]
