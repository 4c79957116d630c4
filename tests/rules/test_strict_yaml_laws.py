"""Laws of strict YAML: it reads what others write, as they mean it, or refuses it; nothing else comes out of it."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st
from worldledger_simulation.rules.sections import InvalidSimulationConfigError
from worldledger_simulation.rules.strict_yaml import Document, parse

from worldledger.errors import Problem

from .values import GOOD_OBJECTS, same


class _Reference(yaml.SafeLoader):
    """PyYAML's own reading, with this project's numbers, booleans and null."""


_Reference.yaml_implicit_resolvers = {}
_FLOAT = r"^(?:[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+)$"
for _tag, _pattern in (
    ("null", r"^(?:~|null|Null|NULL|)$"),
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$"),
    ("int", r"^[-+]?(?:0|[1-9][0-9]*)$"),
    ("float", _FLOAT),
    ("merge", r"^<<$"),
):
    _Reference.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), None)


class _Writer(yaml.SafeDumper):
    """PyYAML's own writing, which quotes strings that are numbers here."""


_Writer.add_implicit_resolver("tag:yaml.org,2002:float", re.compile(_FLOAT), None)


def _read(text: str) -> Any:
    return parse(text, name="f").value


@given(GOOD_OBJECTS)
def test_what_yaml_writes_is_read(value: dict[str, Any]) -> None:
    """Whatever PyYAML or json write of JSON values is read as the same values."""
    for settings in ({}, {"default_flow_style": True}, {"default_style": '"'}):
        assert same(_read(str(yaml.dump(value, Dumper=_Writer, **settings))), value)
    assert same(_read(json.dumps(value)), value)


_PIECES = st.sampled_from(
    [
        *"abn019:-?,[]{}&*!|>'\"%@`#=~<.+_\\\t\n ",
        *("\n  ", "\n- ", ": ", "&a ", "*a", "<<: ", "!!str ", "!!int ", "!x ", "---\n", "...\n", "%YAML 1.1\n"),
        *("true", "null", "1e5", ".nan", "0x1", "\\u0041", "\ufeff", "\u2028", "\x85", "\x00", "\ud800", "😀", "? "),
        *("|2-\n", ">+\n", "a: ", "b: ", "{a: 1}", "[1, 2]", "\r\n", "\r"),
    ]
)
_TEXTS = st.lists(_PIECES, max_size=25).map("".join) | st.text(max_size=40)


def _outcome(text: str | bytes) -> Document | None:
    """Read it; anything but a value or the one error fails the test."""
    problems: list[Problem] = []
    try:
        return parse(text, name="f")
    except InvalidSimulationConfigError as error:
        problems += error.problems
    assert problems
    assert all(problem.line is not None and problem.line >= 1 for problem in problems)
    return None


@given(_TEXTS)
def test_any_text_is_read_as_yaml_reads_it_or_refused(text: str) -> None:
    """A text that is not refused means what PyYAML takes it for, numbers and words that are strings here aside."""
    document = _outcome(text)
    if document is None:
        return
    try:
        reference = yaml.load(text, _Reference)
    except yaml.YAMLError:
        assert "\t" in text or "<<" in text  # as JSON has it; and a mapping that is merged while it is read
        return
    assert repr(document.value) == re.sub(r"-0\.0\b", "0.0", repr(reference))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    """No bytes lead to anything but a value or the one error."""
    _outcome(data)
    _outcome(b"a: " + data)
