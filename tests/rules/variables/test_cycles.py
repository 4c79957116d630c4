"""Schemas that contain themselves."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.cases import cases
from worldledger.errors import CircularSchemaError, InvalidDefinitionError
from worldledger.variables import VariableDefinition, check_definitions

CIRCLE = """Circular reference detected in schema definitions:
  Cycle: Agent -> Inventory -> Item -> Agent
  Fields: Agent.inventory -> Inventory.items -> Item.owner -> Agent

Suggested fixes:
  1. Use Optional[ForwardRef] for back-references
  2. Use string IDs instead of nested objects
  3. Flatten the schema structure"""


def told(raw: Any) -> list[str]:
    """Return the lines *Cycle* and *Fields* of the refusal."""
    with pytest.raises(CircularSchemaError) as caught:
        check_definitions(raw)
    return [line.strip() for line in str(caught.value).splitlines()[1:3]]


def three_in_a_circle() -> dict[str, Any]:
    """Return three definitions, of which each contains the next one."""
    agent: dict[str, Any] = {"type": "object"}
    item = {"type": "object", "schema": {"owner": agent}}
    inventory = {"type": "object", "schema": {"items": {"type": "list", "item_type": item}}}
    agent["schema"] = {"inventory": inventory}
    return {"Agent": agent, "Inventory": inventory, "Item": item}


def test_the_message_names_the_circle() -> None:
    """Word by word, with the names of the variables and of the fields."""
    with pytest.raises(CircularSchemaError) as caught:
        check_definitions(three_in_a_circle())
    assert str(caught.value) == CIRCLE
    assert caught.value.code == "circular_schema"
    [problem] = caught.value.problems
    assert problem.path[:2] == ("agent_vars", "Agent")
    assert problem.path[-1] == "owner"


def test_a_yaml_alias_can_close_a_cycle() -> None:
    """What has no name of its own is called after the field that leads to it."""
    raw = yaml.safe_load(
        """
        Agent: &agent
          type: object
          schema:
            inventory:
              type: object
              schema:
                items: {type: list, item_type: {type: object, schema: {owner: *agent}}}
        """
    )
    assert told(raw) == [
        "Cycle: Agent -> inventory -> items -> Agent",
        "Fields: Agent.inventory -> inventory.items -> items.owner -> Agent",
    ]


@cases(
    "kind, edge, fields",
    [
        ({"type": "list"}, "item_type", "L.item_type -> L"),
        ({"type": "dict", "key_type": "str"}, "value_type", "L.value_type -> L"),
        ({"type": "tuple"}, "item_types", "L.item_types[1] -> L"),
        ({"type": "object"}, "schema", "L.again -> L"),
    ],
)
def test_a_definition_may_not_contain_itself(kind: dict[str, Any], edge: str, fields: str) -> None:
    """Through no kind of holder."""
    itself: dict[str, Any] = dict(kind)
    itself[edge] = {"item_types": ["int", itself], "schema": {"again": itself}}.get(edge, itself)
    assert told({"first": {"type": "int"}, "L": itself}) == ["Cycle: L -> L", f"Fields: {fields}"]
    with pytest.raises(CircularSchemaError):
        VariableDefinition.model_validate(itself)
    with pytest.raises(CircularSchemaError):
        VariableDefinition(**itself)


def test_variables_and_schemas_may_not_contain_themselves() -> None:
    """Neither the mapping of the variables nor a schema, although they are no definitions."""
    variables: dict[str, Any] = {}
    variables["x"] = {"type": "object", "schema": variables}
    assert told(variables) == ["Cycle: x -> x", "Fields: x.x -> x"]
    variables = {}
    variables["x"] = variables
    with pytest.raises(InvalidDefinitionError):
        check_definitions(variables)
    elements: list[Any] = ["int"]
    elements.append(elements)
    with pytest.raises(InvalidDefinitionError):
        check_definitions({"x": {"type": "tuple", "item_types": elements}})


def test_a_cycle_is_found_behind_a_long_way() -> None:
    """Before depth is looked at, and however deep it is."""
    end: dict[str, Any] = {"type": "list"}
    way: dict[str, Any] = end
    for _ in range(5000):
        way = {"type": "list", "item_type": way}
    with pytest.raises(InvalidDefinitionError, match="list nesting exceeds") as caught:
        check_definitions({"x": {**way}})
    assert not isinstance(caught.value, CircularSchemaError)
    end["item_type"] = way
    assert told({"x": way})[0].startswith("Cycle: x -> x -> ")


def test_a_cycle_is_found_among_many_shared_definitions() -> None:
    """Each object is looked at once: 2^40 ways lead to the last one."""
    last: dict[str, Any] = {"type": "object", "schema": {}}
    first = last
    for _ in range(40):
        first = {"type": "object", "schema": {"a": first, "b": first}}
    last["schema"]["back"] = last
    assert told({"x": first})[0] == "Cycle: a -> a"


def test_diamonds_are_no_cycles() -> None:
    """Two ways to the same definition are fine."""
    low = {"type": "object", "schema": {"v": {"type": "int"}}}
    check_definitions(
        {
            "x": {"type": "object", "schema": {"a": low, "b": {"type": "list", "item_type": low}}},
            "low": low,
        }
    )
