"""The models made from definitions: coercion, sizes, messages."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tests.cases import cases
from worldledger.errors import InvalidDefinitionError
from worldledger.variables import (
    ObjectState,
    StateInvalidError,
    VariableDefinition,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    format_validation_error,
    loc_to_dot_notation,
    validate_state,
    values_of,
)

POINT = {"type": "tuple", "item_types": ["float", "float"]}
INVENTORY = {"type": "dict", "key_type": "str", "value_type": "float"}


def model_of(raw: dict[str, Any]) -> type[ObjectState]:
    """Return the model of one variable ``x`` of the world."""
    return create_global_state_model(check_definitions({"x": raw}, "global_vars"))


def read(raw: dict[str, Any], value: Any) -> Any:
    """Return what the model has of a value."""
    return values_of(validate_state(model_of(raw), {"x": value}))["x"]


def refused(raw: dict[str, Any], value: Any) -> list[tuple[Any, ...]]:
    """Return the problems of a value: paths below the variable, and messages."""
    with pytest.raises(StateInvalidError) as caught:
        validate_state(model_of(raw), {"x": value})
    return [(path[1:], message) for path, message in caught.value.problems]


# -- coercion ------------------------------------------------------------------------------------------------


@cases(
    "raw, value, found",
    [
        (POINT, [1, 2.5], (1.0, 2.5)),  # JSON array -> tuple
        (INVENTORY, {"food": 1.5}, {"food": 1.5}),  # JSON object -> dict
        ({"type": "int"}, "12", 12),  # str -> int
        ({"type": "float"}, "1.5", 1.5),  # str -> float
        ({"type": "tuple", "item_types": ["int"]}, ["7"], (7,)),  # list -> tuple, elements too
        ({"type": "str"}, None, None),  # null -> Optional
        ({"type": "int", "default": None}, None, None),
        ({"type": "float"}, 3, 3.0),
        ({"type": "int"}, 3.0, 3),
        ({"type": "bool"}, "yes", True),
        ({"type": "dict", "key_type": "int", "value_type": "int"}, {"1": 2, "-5": 3}, {1: 2, -5: 3}),
        ({"type": "dict", "key_type": "int", "value_type": "int"}, {1: 2}, {1: 2}),
    ],
)
def test_values_are_coerced_as_documented(raw: dict[str, Any], value: Any, found: Any) -> None:
    """Python has the value of the variable's type."""
    assert repr(read(raw, value)) == repr(found)


@cases(
    "raw, value, path, message",
    [
        ({"type": "int"}, "many", (), "Input should be a valid integer, unable to parse string as an integer"),
        ({"type": "int"}, 1.5, (), "Input should be a valid integer, got a number with a fractional part"),
        ({"type": "int"}, None, (), "Input should be a valid integer"),
        ({"type": "int"}, 2**53, (), "Input should be less than or equal to 9007199254740991"),
        ({"type": "int", "min": 0.5}, 0, (), "Input should be greater than or equal to 1"),
        ({"type": "float"}, float("inf"), (), "Input should be a finite number"),
        ({"type": "float"}, float("nan"), (), "Input should be a finite number"),
        ({"type": "str", "default": ""}, None, (), "Input should be a valid string"),
        ({"type": "str"}, 5, (), "Input should be a valid string"),
        ({"type": "list", "item_type": "str"}, [None], (0,), "Input should be a valid string"),
        (POINT, [1], (1,), "Tuple is too short: this element is missing"),
        (POINT, [1, 2, 3], (), "Tuple should have 2 elements (got 3)"),
        (POINT, 5, (), "Input should be a list, with one value per element"),
        (INVENTORY, [], (), "Input should be a mapping of keys to values"),
        (INVENTORY, {"food": "x"}, ("food",), "Input should be a valid number, unable to parse string as a number"),
        (INVENTORY, {5: 1.0}, (5,), "the key 5: Input should be a valid string"),
        (
            {"type": "dict", "key_type": "int", "value_type": "int"},
            {"01": 1},
            ("01",),
            "A key should be a whole number, such as 12, within ±(2^53-1)",
        ),
        (
            {"type": "dict", "key_type": "int", "value_type": "int"},
            {str(2**53): 1},
            (str(2**53),),
            "A key should be a whole number, such as 12, within ±(2^53-1)",
        ),
        ({"type": "object", "schema": {"a": {"type": "int"}}}, {}, ("a",), "Field required"),
        (
            {"type": "object", "schema": {"a": {"type": "int"}}},
            {"a": 1, "b": 2},
            ("b",),
            "Extra inputs are not permitted",
        ),
        ({"type": "object", "schema": {"a": {"type": "int"}}}, 5, (), "Input should be a mapping of fields to values"),
        ({"type": "str", "pattern": "{a}"}, "b", (), "String does not match the pattern '{a}'"),
    ],
)
def test_a_refusal_names_the_way_and_the_reason(raw: dict[str, Any], value: Any, path: Any, message: str) -> None:
    """In words that do not speak of Python."""
    assert refused(raw, value) == [(path, message)]


# -- sizes ---------------------------------------------------------------------------------------------------


@cases(
    "raw, build, most, message",
    [
        (
            {"type": "list", "item_type": "int"},
            lambda count: [0] * count,
            1000,
            "List exceeds maximum size of 1000 items (got 1001 items)",
        ),
        (
            {"type": "list", "item_type": "int", "max_length": 10},
            lambda count: [0] * count,
            10,
            "List exceeds maximum size of 10 items (got 11 items)",
        ),
        (
            INVENTORY,
            lambda count: {str(index): 0.0 for index in range(count)},
            1000,
            "Dict exceeds maximum size of 1000 items (got 1001 items)",
        ),
        (
            {"type": "str"},
            lambda count: "ä" * count,
            10_000,
            "String exceeds maximum length of 10000 characters (got 10001 characters)",
        ),
        (
            {"type": "str", "max_length": 500, "pattern": "ä*"},
            lambda count: "ä" * count,
            500,
            "String exceeds maximum length of 500 characters (got 501 characters)",
        ),
        (
            {"type": "str", "max_length": 20_000},
            lambda count: "ä" * count,
            20_000,
            "String exceeds maximum length of 20000 characters (got 20001 characters)",
        ),
    ],
)
def test_the_size_of_a_collection_is_limited(raw: dict[str, Any], build: Any, most: int, message: str) -> None:
    """The largest that may be is accepted, one more is refused with both numbers, from Python and from JSON."""
    assert len(read(raw, build(most))) == most
    assert refused(raw, build(most + 1)) == [((), message)]
    with pytest.raises(ValidationError) as caught:
        model_of(raw).model_validate_json(json.dumps({"x": build(most + 1)}))
    assert format_validation_error(caught.value) == f"x: {message} at field 'x'"


def test_models_are_made_of_plain_definitions_too() -> None:
    """What was not checked before is checked then; an agent's own name is no variable."""
    plain: Any = {"gold": {"type": "float", "default": 1}}
    assert create_agent_state_model(plain) is create_agent_state_model(check_definitions(plain))
    named = {"name": VariableDefinition(type="int", default=1)}
    assert values_of(validate_state(create_global_state_model(named), {})) == {"name": 1}
    for wrong in (named, {"gold": {"type": "flaot"}}, {"gold": 5}):
        with pytest.raises(InvalidDefinitionError):
            create_agent_state_model(wrong)  # type: ignore[arg-type]  # mypy: that is the point


def test_the_message_names_the_field() -> None:
    """List exceeds maximum size of 1000 items (got 1500 items) at field 'agent_state.history'."""
    model = create_agent_state_model(check_definitions({"history": {"type": "list", "item_type": "int"}}))
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"name": "a", "history": [1] * 1500})
    wanted = "List exceeds maximum size of 1000 items (got 1500 items) at field 'agent_state.history'"
    assert wanted in format_validation_error(caught.value, ("agent_state",))


def test_each_problem_has_a_line() -> None:
    """With the agent in brackets, and indexes too."""
    model = create_agent_state_model(check_definitions({"inventory": INVENTORY, "at": {**POINT, "default": [0, 0]}}))
    with pytest.raises(ValidationError) as caught:
        model.model_validate({"name": "a", "inventory": {"food": "x"}, "at": [1, "y"], "more": 1})
    lines = format_validation_error(caught.value, ("agents", "Trader_1")).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "agents[Trader_1].inventory.food",
        "agents[Trader_1].at[1]",
        "agents[Trader_1].more",
    ]


@cases(
    "loc, text",
    [
        (("agents", "Trader_1", "inventory", "food"), "agents[Trader_1].inventory.food"),
        (("x", 0, "y"), "x[0].y"),
        (("global_state", "towns", "A", "population"), "global_state.towns.A.population"),
        ((), ""),
    ],
)
def test_a_way_is_written_with_dots(loc: tuple[str | int, ...], text: str) -> None:
    """Agents and indexes in brackets, everything else with dots."""
    assert loc_to_dot_notation(loc) == text


def test_a_refusal_without_a_way_is_told_as_it_is() -> None:
    """A state that is no object at all has no field to name."""
    with pytest.raises(StateInvalidError, match=r"^Input should be a mapping of fields to values$"):
        validate_state(model_of({"type": "str"}), 5)
