"""The models made from definitions: names, keeping, dumping, null."""

from __future__ import annotations

import json
from typing import Any

import pytest

from worldledger.variables import (
    ObjectState,
    StateInvalidError,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
    values_of,
)

from .test_variable_models import INVENTORY, POINT, read, refused

CLASHING = ("copy", "json", "dict", "schema", "construct", "validate", "from_orm", "fields", "model_x", "self", "class")


def test_names_that_pydantic_has_as_well_belong_to_the_variables() -> None:
    """They are read and written as attributes, validated and dumped by their own names, at every depth."""
    integers = {name: {"type": "int"} for name in (*CLASHING, "copy_")}
    raw = {**integers, "inner": {"type": "object", "schema": integers}}
    model = create_agent_state_model(check_definitions(raw))
    numbers = {name: index for index, name in enumerate(integers)}
    value = {"name": "a", **numbers, "inner": numbers}
    state = validate_state(model, value)
    assert {name: getattr(state, name) for name in integers} == numbers
    assert {name: getattr(values_of(state)["inner"], name) for name in integers} == numbers
    assert dump_state(state) == state.model_dump() == value
    assert model.model_validate_json(state.model_dump_json()) == state
    setattr(state, "copy", 99)  # noqa: B010 - for the type checker, it is a method
    assert dump_state(state)["copy"] == 99
    assert values_of(state.model_copy())["copy"] == 99
    assert refused({"type": "object", "schema": {"copy": {"type": "int"}}}, {"copy": "x"})[0][0] == ("copy",)


def test_pydantics_own_interface_stays_what_it_is() -> None:
    """A variable may be called like a method that Pydantic needs; its value is read by name."""
    names = ("model_dump", "model_fields", "model_config", "model_copy", "model_validate", "model_construct")
    model = create_global_state_model(check_definitions({name: {"type": "int", "default": 1} for name in names}))
    state = model()
    assert state.model_dump() == values_of(state) == dump_state(state) == dict.fromkeys(names, 1)
    given: dict[str, Any] = {"model_dump": 5}
    assert model.model_construct(**given).model_dump()["model_dump"] == 5


def test_models_are_kept_by_their_schema() -> None:
    """Equal variables in the same order give the same class; agents and the world have classes of their own."""
    raw = {"a": {"type": "int"}, "b": INVENTORY}
    first, again = check_definitions(raw), check_definitions(raw)
    assert create_agent_state_model(first) is create_agent_state_model(again)
    classes: set[type[ObjectState]] = {create_agent_state_model(first), create_global_state_model(first)}
    assert len(classes) == 2
    assert create_agent_state_model(first) is not create_agent_state_model({"a": first["a"]})
    assert list(create_agent_state_model(dict(reversed(first.items()))).model_fields) == ["name", "b", "a"]
    assert create_agent_state_model(first).__name__ == "DynamicAgentState"
    assert create_global_state_model(first).__name__ == "DynamicGlobalState"
    assert dict(create_agent_state_model(first).__variables__) == first


def test_an_agent_has_a_name_and_no_unknown_variables() -> None:
    """The name is a string, and not an empty one."""
    model = create_agent_state_model({})
    assert dump_state(model(name="a")) == {"name": "a"}
    for wrong in ({}, {"name": ""}, {"name": 5}, {"name": "a", "gold": 1}):
        with pytest.raises(StateInvalidError):
            validate_state(model, wrong)


def test_what_was_assigned_is_dumped_exactly_typed_or_refused() -> None:
    """An int in a float, a list in a tuple: they are dumped as the type says; anything else is named."""
    raw = {
        "gold": {"type": "float", "min": 0, "default": 0},
        "at": {**POINT, "default": [0, 0]},
        "goods": {**INVENTORY},
        "note": {"type": "float", "default": None},
    }
    model: Any = create_agent_state_model(check_definitions(raw))
    state = model(name="a")
    state.gold, state.at, state.goods["food"] = 5, [1, 2], -0.0
    dumped = json.dumps(dump_state(state))
    assert dumped == '{"name": "a", "gold": 5.0, "at": [1.0, 2.0], "goods": {"food": 0.0}, "note": null}'
    assert json.dumps(dump_state(validate_state(model, json.loads(dumped)))) == dumped
    for name, wrong in (("gold", -1), ("gold", "x"), ("at", [1]), ("goods", {"a": {}}), ("note", float("nan"))):
        state = model(name="a")
        setattr(state, name, wrong)
        with pytest.raises(StateInvalidError, match=f"^{name}"):
            dump_state(state)
    state.note = object()
    with pytest.raises(StateInvalidError):
        dump_state(state)


def test_fields_with_null_for_a_default_may_be_left_out() -> None:
    """All other fields of an object are required, although they have a default."""
    raw = {
        "type": "object",
        "schema": {
            "goal": {"type": "int", "default": None},
            "note": {"type": "str"},
            "level": {"type": "int", "default": 1},
        },
    }
    assert dump_state(read(raw, {"level": 2})) == {"goal": None, "note": None, "level": 2}
    assert refused(raw, {"goal": 1}) == [(("level",), "Field required")]


def test_a_model_tells_its_json_schema() -> None:
    """Whatever its variables are, tools for JSON Schema can read it, by the variables' own names."""
    raw = {
        "copy": {"type": "str", "pattern": "[a-z]+", "max_length": 5},
        "debts": {"type": "dict", "key_type": "int", "value_type": POINT},
        "stats": {"type": "object", "schema": {"mood": {"type": "categorical", "values": ["calm", "angry"]}}},
    }
    schema = create_agent_state_model(check_definitions(raw)).model_json_schema()
    assert list(schema["properties"]) == ["name", *raw]
    assert schema["additionalProperties"] is False


def test_elements_are_null_only_where_null_is_their_default() -> None:
    """A string without a default may be null as a variable, not as an element."""
    assert read({"type": "list", "item_type": {"type": "str", "default": None}}, ["a", None]) == ["a", None]
    for element in ("str", {"type": "str"}, {"type": "str", "default": "x"}):
        assert refused({"type": "list", "item_type": element}, [None])
