"""Defaults: given, composed, refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cases import cases
from worldledger.errors import InvalidDefinitionError
from worldledger.variables import (
    VariableDefinition,
    check_definitions,
    create_global_state_model,
    default_of,
    dump_state,
)

POINT = {"type": "tuple", "item_types": ["float", "float"]}
STATS = {
    "type": "dict",
    "schema": {"health": {"type": "float", "max": 100, "default": 100}, "level": {"type": "int", "default": 1}},
}


def _definition(raw: dict[str, Any]) -> VariableDefinition:
    return check_definitions({"x": raw})["x"]


@cases(
    "raw, default",
    [
        ({"type": "float", "default": 5}, 5.0),
        ({"type": "int", "default": "5"}, 5),
        ({"type": "int", "default": None}, None),
        ({"type": "bool", "default": False}, False),
        ({"type": "categorical", "values": ["a"], "default": "a"}, "a"),
        ({"type": "str"}, None),
        ({"type": "str", "default": "x"}, "x"),
        ({"type": "dict", "key_type": "str", "value_type": "int"}, {}),
        ({"type": "dict", "key_type": "str", "value_type": "float", "default": {"food": 1}}, {"food": 1.0}),
        ({"type": "dict", "key_type": "int", "value_type": "str", "default": {7: "a"}}, {"7": "a"}),
        ({"type": "dict", "key_type": "int", "value_type": "str", "default": {"7": "a"}}, {"7": "a"}),
        ({"type": "dict", "key_type": "int", "value_type": "str", "default": None}, None),
        ({"type": "list", "item_type": "int"}, []),
        ({"type": "list", "item_type": POINT, "default": [(1, 2)]}, [[1.0, 2.0]]),
        ({**POINT, "default": (0, 0)}, [0.0, 0.0]),
        (
            {"type": "tuple", "item_types": [{"type": "int", "default": 3}, {**STATS}]},
            [3, {"health": 100.0, "level": 1}],
        ),
        (STATS, {"health": 100.0, "level": 1}),
        ({**STATS, "default": {}}, {"health": 100.0, "level": 1}),
        ({**STATS, "default": {"health": 5, "level": 2}}, {"health": 5.0, "level": 2}),
        ({**STATS, "default": None}, None),
        (
            {"type": "object", "schema": {"stats": STATS, "at": {**POINT, "default": [1, 1]}}},
            {"stats": {"health": 100.0, "level": 1}, "at": [1.0, 1.0]},
        ),
        (
            {"type": "object", "schema": {"note": {"type": "str"}, "goal": {**POINT, "default": None}}},
            {"note": None, "goal": None},
        ),
        (
            {
                "type": "object",
                "schema": {"a": STATS, "n": {"type": "str"}},
                "default": {"a": {"health": 1, "level": 2}},
            },
            {"a": {"health": 1.0, "level": 2}, "n": None},
        ),
    ],
)
def test_a_default_is_given_or_composed(raw: dict[str, Any], default: Any) -> None:
    """It is a JSON value of exact types, and what a state without the variable has."""
    definition = _definition(raw)
    assert json.dumps(default_of(definition)) == json.dumps(default)
    assert json.dumps(dump_state(create_global_state_model({"x": definition})())) == json.dumps({"x": default})


@cases(
    "raw",
    [
        {"type": "int"},
        {"type": "bool"},
        {"type": "categorical", "values": ["a"]},
        POINT,
        {"type": "tuple", "item_types": ["str", {"type": "str"}]},
        {"type": "object", "schema": {"a": {"type": "int"}, "b": {"type": "int", "default": 1}}},
        {"type": "dict", "schema": {"at": POINT}},
    ],
)
def test_a_value_is_required_where_there_is_no_default(raw: dict[str, Any]) -> None:
    """`default_of` raises KeyError, and the model asks for the variable."""
    definition = _definition(raw)
    with pytest.raises(KeyError):
        default_of(definition)
    with pytest.raises(ValueError, match="Field required"):
        create_global_state_model({"x": definition})()


@cases(
    "raw, path, message",
    [
        ({"type": "float", "max": 1, "default": 2}, "default", "Input should be less than or equal to 1"),
        ({"type": "float", "default": float("nan")}, "default", "not a finite number"),
        ({"type": "float", "default": -0.0}, "default", "-0.0 does not survive every JSON reader; send 0.0"),
        ({"type": "int", "default": 2**53}, "default", "an integer beyond ±(2^53-1); send it as a string"),
        ({"type": "categorical", "values": ["a", "b"], "default": "c"}, "default", "Input should be 'a' or 'b'"),
        ({"type": "list", "item_type": "int", "default": [1, "x"]}, "default.1", None),
        (
            {"type": "list", "item_type": "int", "max_length": 1, "default": [1, 2]},
            "default",
            "List exceeds maximum size of 1 items (got 2 items)",
        ),
        ({**POINT, "default": [1]}, "default.1", "Tuple is too short: this element is missing"),
        ({**POINT, "default": [1, 2, 3]}, "default", "Tuple should have 2 elements (got 3)"),
        ({**POINT, "default": {}}, "default", "Input should be a list, with one value per element"),
        (
            {"type": "dict", "key_type": "str", "value_type": "int", "default": {1: 2}},
            "default",
            "the key 1 is no string: quote it",
        ),
        (
            {"type": "dict", "key_type": "int", "value_type": "int", "default": {1: 2, "1": 3}},
            "default",
            "the key 1 stands there twice",
        ),
        ({"type": "dict", "key_type": "int", "value_type": "int", "default": {True: 2}}, "default", None),
        ({"type": "dict", "key_type": "int", "value_type": "int", "default": {"01": 2}}, "default.01", None),
        ({**STATS, "default": {"health": 5}}, "default.level", "Field required"),
        ({"type": "object", "schema": STATS["schema"], "default": {}}, "default.health", "Field required"),
        ({**STATS, "default": {"health": 5, "level": 1, "x": 1}}, "default.x", "Extra inputs are not permitted"),
        ({"type": "str", "pattern": "a+", "default": "b"}, "default", "String does not match the pattern 'a+'"),
        ({"type": "str", "default": "\0"}, "default", None),
        ({"type": "str", "default": "\ud800"}, "default", None),
        ({"type": "str", "default": object()}, "default", None),
        (
            {"type": "object", "schema": {"a": {"type": "list", "item_type": {"type": "int", "default": "x"}}}},
            "schema.a.item_type.default",
            None,
        ),
    ],
)
def test_a_default_of_another_type_is_refused(raw: dict[str, Any], path: str, message: str | None) -> None:
    """With the way to what is wrong in it."""
    with pytest.raises(InvalidDefinitionError) as caught:
        check_definitions({"x": raw})
    found = [(".".join(map(str, problem.path[2:])), problem.message) for problem in caught.value.problems]
    assert path in [place for place, _ in found]
    if message is not None:
        assert (path, message) in found


def test_a_default_that_contains_itself_or_never_ends_is_refused() -> None:
    """By reference to itself, or by many references to the same value."""
    itself: list[Any] = []
    itself.append(itself)
    grid = {"type": "list", "item_type": {"type": "list", "item_type": {"type": "list", "item_type": "int"}}}
    bomb = [[[1] * 1000] * 1000] * 1000
    for default, message in ((itself, "nested deeper than any definition"), (bomb, "at most 100,000 values")):
        with pytest.raises(InvalidDefinitionError, match=message):
            check_definitions({"x": {**grid, "default": default}})


def test_a_default_is_a_new_value_each_time() -> None:
    """Whoever changes a state changes no other one."""
    definition = _definition({"type": "list", "item_type": "int", "default": [1]})
    default_of(definition).append(2)
    assert default_of(definition) == [1]
    model = create_global_state_model({"x": definition})
    first, second = model(), model()
    first.x.append(2)  # type: ignore[attr-defined]
    assert dump_state(second) == {"x": [1]}
