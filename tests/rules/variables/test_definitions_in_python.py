"""Definitions as Python objects."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from worldledger.variables import VariableDefinition, check_definitions


def test_null_says_that_a_field_is_not_set() -> None:
    """Of the default alone it is a value."""
    found = check_definitions({"x": {"type": "int", "min": None, "values": None, "default": None}})["x"]
    assert found.to_value() == {"type": "int", "default": None}


def test_a_definition_can_be_made_in_python() -> None:
    """By keywords, with ``schema`` or ``schema_``, of definitions or of mappings; the rules are those of YAML."""
    inner = VariableDefinition(type="float", min=0, default=1)
    made = [
        VariableDefinition(type="dict", schema_={"a": inner}),
        VariableDefinition(type="dict", schema={"a": inner}),  # type: ignore[call-arg]
        VariableDefinition.model_validate({"type": "dict", "schema": {"a": inner.to_value()}}),
        check_definitions({"x": {"type": "dict", "schema": {"a": inner}}})["x"],
    ]
    assert [found.to_value() for found in made] == [
        {"type": "dict", "schema": {"a": {"type": "float", "min": 0, "default": 1}}}
    ] * 4
    assert len(set(made)) == 1
    assert made[0].schema_ == {"a": inner}
    assert VariableDefinition(type="tuple", item_types=("int", inner), default=(1, 2.0)).to_value()["default"] == [
        1,
        2.0,
    ]
    for arguments, message in (
        ({"type": "int", "min": 3, "max": 1}, "min: min 3 is greater than max 1"),
        ({"type": "int", "default": "x"}, "default: Input should be a valid integer"),
        ({"type": "list", "item_type": VariableDefinition(type="int"), "min": 1}, "min does not belong to type list"),
    ):
        with pytest.raises(ValidationError, match=message):
            VariableDefinition.model_validate(arguments)


def test_a_definition_is_frozen_and_tells_whether_it_has_a_default() -> None:
    """Null is a default; a copy with other fields is another definition."""
    made = VariableDefinition(type="int", default=None)
    assert made.has_default
    assert not VariableDefinition(type="int").has_default
    with pytest.raises(ValidationError, match="frozen"):
        made.min = 3  # type: ignore[misc]
    assert made.text == b'{"default":null,"type":"int"}'
    assert made.model_copy(update={"default": 5}) != made
    item = {"type": "object", "schema": {"a": {"type": "int"}}}
    inner = VariableDefinition.model_validate({"type": "list", "item_type": item, "max_length": 3})
    for each in (made, VariableDefinition(type="int"), inner):
        assert VariableDefinition.model_validate(each.model_dump()) == each
        assert VariableDefinition.model_validate(each.model_dump(by_alias=True)) == each
        assert each.model_dump(include={"type"}) == {"type": each.type}
        assert VariableDefinition.model_validate_json(each.model_dump_json()) == each
    assert made != "int"
