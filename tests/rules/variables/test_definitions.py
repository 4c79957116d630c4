"""The rules of definitions, a row each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases import cases
from worldledger.errors import InvalidDefinitionError
from worldledger.variables import check_definitions

TYPES = "; the types are float, int, bool, categorical, dict, list, tuple, str and object"
FLOAT = {"type": "float"}


def nested(kind: str, levels: int) -> dict[str, Any]:
    """Return a definition of ``levels`` dicts, lists, tuples or objects in each other."""
    found: Any = "int"
    for _ in range(levels):
        match kind:
            case "dict":
                found = {"type": "dict", "key_type": "str", "value_type": found}
            case "list":
                found = {"type": "list", "item_type": found}
            case "tuple":
                found = {"type": "tuple", "item_types": [found]}
            case "schema" | "object":
                inner = {"type": found} if found == "int" else found
                found = {"type": "object" if kind == "object" else "dict", "schema": {"a": inner}}
    assert isinstance(found, dict)
    return found


def problems(raw: Any, where: str = "agent_vars") -> list[tuple[str, str]]:
    """Return what is wrong: the rest of the path, with dots, and the message."""
    with pytest.raises(InvalidDefinitionError) as caught:
        check_definitions(raw, where)
    return [(".".join(map(str, found.path[1:])), found.message) for found in caught.value.problems]


@cases(
    "raw, path, message",
    [
        # What a definition is
        (5, "x", "a definition is a mapping with a type, such as {type: int, default: 0}"),
        ("int", "x", "a definition is a mapping with a type: write {type: int}"),
        (None, "x", "a definition is a mapping with a type, such as {type: int, default: 0}"),
        ({}, "x.type", "a type is missing"),
        ({"type": "flaot"}, "x.type", f"unknown type 'flaot'{TYPES}; did you mean 'float'?"),
        ({"type": ["int"]}, "x.type", f"unknown type ['int']{TYPES}"),
        ({"type": "int", "mix": 1}, "x.mix", "unknown field 'mix'; did you mean 'min'?"),
        ({"type": "int", "q": 1}, "x.q", "unknown field 'q'"),
        ({"type": "int", 5: 1}, "x.5", "unknown field 5"),
        ({"type": "float", "mx": None, "default": 1}, "x.mx", "unknown field 'mx'; did you mean 'max'?"),
        ({"type": "list", "item_type": {"type": "int", "q": None}}, "x.item_type.q", "unknown field 'q'"),
        # Fields that belong to other types
        ({"type": "bool", "min": 1}, "x.min", "min does not belong to type bool"),
        ({"type": "int", "values": ["a"]}, "x.values", "values does not belong to type int"),
        ({"type": "float", "pattern": "a"}, "x.pattern", "pattern does not belong to type float"),
        (
            {"type": "dict", "key_type": "str", "value_type": "int", "max_length": 5},
            "x.max_length",
            "max_length does not belong to type dict",
        ),
        ({"type": "str", "schema": {"a": FLOAT}}, "x.schema", "schema does not belong to type str"),
        # float and int
        ({"type": "float", "min": "0"}, "x.min", "min is a number (got '0')"),
        ({"type": "float", "min": True}, "x.min", "min is a number (got True)"),
        ({"type": "float", "max": float("inf")}, "x.max", "not a finite number"),
        ({"type": "float", "min": float("nan")}, "x.min", "not a finite number"),
        ({"type": "float", "min": 2, "max": 1}, "x.min", "min 2 is greater than max 1"),
        (
            {"type": "int", "min": 0.2, "max": 0.8},
            "x.min",
            "there is no whole number from 0.2 to 0.8, within ±(2^53-1)",
        ),
        ({"type": "int", "min": 2**53}, "x.min", "an integer beyond ±(2^53-1); send it as a string"),
        # categorical
        ({"type": "categorical"}, "x.values", "a categorical has values: a list of 1 to 1000 strings"),
        ({"type": "categorical", "values": []}, "x.values", "a categorical has values: a list of 1 to 1000 strings"),
        ({"type": "categorical", "values": "ab"}, "x.values", "a categorical has values: a list of 1 to 1000 strings"),
        (
            {"type": "categorical", "values": ["a", 1]},
            "x.values.1",
            "a value is a string, and not an empty one (got 1)",
        ),
        (
            {"type": "categorical", "values": [""]},
            "x.values.0",
            "a value is a string, and not an empty one (got '')",
        ),
        ({"type": "categorical", "values": ["a", "a"]}, "x.values.1", "the value 'a' stands there twice"),
        # dict
        ({"type": "dict"}, "x", "a dict has either key_type and value_type, or a schema"),
        ({"type": "dict", "key_type": "str"}, "x.value_type", "value_type is missing: the type of each value"),
        ({"type": "dict", "value_type": "int"}, "x.key_type", "key_type is str or int, but is missing"),
        (
            {"type": "dict", "key_type": "float", "value_type": "int"},
            "x.key_type",
            "key_type is str or int, but is 'float'",
        ),
        (
            {"type": "dict", "key_type": ["str"], "value_type": "int"},
            "x.key_type",
            "key_type is str or int, but is ['str']",
        ),
        (
            {"type": "dict", "key_type": {"a": 1}, "value_type": "int"},
            "x.key_type",
            "key_type is str or int, but is {'a': 1}",
        ),
        (
            {"type": "dict", "schema": {"a": FLOAT}, "key_type": "str", "value_type": "int"},
            "x",
            "schema cannot be combined with key_type and value_type",
        ),
        ({"type": "dict", "schema": {}}, "x.schema", "a schema is a mapping of 1 to 1000 fields to their definitions"),
        # list
        ({"type": "list"}, "x.item_type", "item_type is missing: the type of each item"),
        (
            {"type": "list", "item_type": "int", "max_length": 0},
            "x.max_length",
            "max_length is a whole number > 0 and <= 1000 (got 0)",
        ),
        (
            {"type": "list", "item_type": "int", "max_length": 1001},
            "x.max_length",
            "max_length is a whole number > 0 and <= 1000 (got 1001)",
        ),
        (
            {"type": "list", "item_type": "int", "max_length": True},
            "x.max_length",
            "max_length is a whole number > 0 and <= 1000 (got True)",
        ),
        (
            {"type": "list", "item_type": "number"},
            "x.item_type",
            f"unknown type 'number'{TYPES}; did you mean 'float'?",
        ),
        (
            {"type": "list", "item_type": "categorical"},
            "x.item_type",
            "a categorical cannot stand for itself: write {type: categorical, …} with its values",
        ),
        (
            {"type": "list", "item_type": "list"},
            "x.item_type",
            "a list cannot stand for itself: write {type: list, …} with its item_type",
        ),
        (
            {"type": "list", "item_type": 5},
            "x.item_type",
            "a definition is a mapping with a type, such as {type: int, default: 0}",
        ),
        # tuple
        ({"type": "tuple"}, "x.item_types", "a tuple has item_types: a list of 1 to 1000 types, one per element"),
        (
            {"type": "tuple", "item_types": []},
            "x.item_types",
            "a tuple has item_types: a list of 1 to 1000 types, one per element",
        ),
        (
            {"type": "tuple", "item_types": ["int", "flot"]},
            "x.item_types.1",
            f"unknown type 'flot'{TYPES}; did you mean 'float'?",
        ),
        ({"type": "tuple", "item_types": ["int", {"type": "int", "min": 1, "max": 0}]}, "x.item_types.1.min", None),
        # str
        (
            {"type": "str", "max_length": 0},
            "x.max_length",
            "max_length is a whole number > 0 and <= 1000000 (got 0)",
        ),
        ({"type": "str", "pattern": 5}, "x.pattern", "a pattern is a string"),
        ({"type": "str", "pattern": "("}, "x.pattern", None),
        ({"type": "str", "pattern": "\0"}, "x.pattern", None),
        # object
        ({"type": "object"}, "x.schema", "a schema is a mapping of 1 to 1000 fields to their definitions"),
        (
            {"type": "object", "schema": {"a": {"type": "in"}}},
            "x.schema.a.type",
            f"unknown type 'in'{TYPES}; did you mean 'int'?",
        ),
        ({"type": "object", "schema": {"a-b": FLOAT}}, "x.schema.a-b", None),
        ({"type": "object", "schema": {"a": "float"}}, "x.schema.a", None),
    ],
)
def test_a_broken_rule_is_told(raw: Any, path: str, message: str | None) -> None:
    """One problem, with the way to it and what to do."""
    found = problems({"x": raw})
    assert [place for place, _ in found] == [path]
    if message is not None:
        assert found[0][1] == message


@cases(
    "kind, most, what",
    [
        ("dict", 4, "dict"),
        ("schema", 4, "dict"),
        ("list", 3, "list"),
        ("tuple", 10, "definition"),
        ("object", 10, "definition"),
    ],
)
def test_the_depth_of_nesting_is_limited(kind: str, most: int, what: str) -> None:
    """Dict 4, list 3, everything 10: the last level that may be is accepted, one more is refused and named."""
    check_definitions({"x": nested(kind, most)})
    [(path, message)] = problems({"x": nested(kind, most + 1)})
    assert message == f"{what} nesting exceeds the maximum depth of {most} levels (got {most + 1})"
    assert path.startswith("x.")


def test_levels_are_counted_along_the_way() -> None:
    """Dicts count although tuples or lists stand between them; brothers do not add up."""
    inner = {"type": "tuple", "item_types": [nested("dict", 2), nested("dict", 2)]}
    check_definitions(
        {"x": {"type": "dict", "key_type": "str", "value_type": {**nested("dict", 1), "value_type": inner}}}
    )
    around = {**nested("dict", 1), "value_type": {**nested("dict", 1), "value_type": inner}}
    wrong = {"type": "dict", "key_type": "str", "value_type": around}
    assert {message for _, message in problems({"x": wrong})} == {
        "dict nesting exceeds the maximum depth of 4 levels (got 5)"
    }


def test_all_problems_are_told_at_once() -> None:
    """Problems of several variables, and several of one, come in one error with a line each."""
    raw = {
        "a": {"type": "float", "min": 2, "max": 1},
        "_b": {"type": "int"},
        "c": {"type": "list", "item_type": "nothing", "max_length": -1},
        "d": {"type": "int", "default": "many"},
    }
    with pytest.raises(InvalidDefinitionError) as caught:
        check_definitions(raw)
    lines = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        "agent_vars.a.min",
        "agent_vars._b",
        "agent_vars.c.item_type",
        "agent_vars.c.max_length",
        "agent_vars.d.default",
    ]


@cases("name", ["", "_x", "__class__", "a b", "1a", "a-b", "a" * 201, 5, None, ("a",)])
def test_a_name_is_an_identifier(name: Any) -> None:
    """Anything else is refused, of variables and of fields."""
    assert len(problems({name: FLOAT})) == 1
    assert len(problems({"x": {"type": "object", "schema": {name: FLOAT}}})) == 1


@cases("name", ["a", "größe", "名前", "class", "None", "a" * 200, "model_dump", "self"])
def test_an_identifier_is_a_name(name: str) -> None:
    """Letters of any script, keywords, and what Pydantic has as well."""
    assert list(check_definitions({name: FLOAT})) == [name]


def test_the_name_of_an_agent_is_reserved() -> None:
    """``name`` is no variable of agents; of the world, and as a field, it is."""
    assert problems({"name": {"type": "str"}}) == [("name", "'name' is reserved: an agent's own name stands there")]
    assert problems({"name": {"type": "str"}}, "agent_vars")
    check_definitions({"name": {"type": "str"}}, "global_vars")
    check_definitions({"x": {"type": "object", "schema": {"name": {"type": "str"}}}})


def test_where_may_be_a_way() -> None:
    """Paths begin with all of it."""
    with pytest.raises(InvalidDefinitionError, match=r"^state_variables\.agent_vars\.name: 'name' is reserved"):
        check_definitions({"name": FLOAT}, ("state_variables", "agent_vars"))


@cases("raw", [[], "x", None, 5])
def test_variables_are_a_mapping(raw: Any) -> None:
    """Anything else is refused as a whole."""
    assert problems(raw) == [("", "variables are a mapping of names to definitions")]


def test_an_alias_bomb_ends_quickly() -> None:
    """Shared definitions are counted each time they are used, up to 10,000."""
    bomb: dict[str, Any] = FLOAT
    for _ in range(9):
        bomb = {"type": "object", "schema": {f"f{index}": bomb for index in range(100)}}
    found = problems({"a": bomb, "b": bomb})
    assert found == [("a", "at most 10,000 definitions in one set of variables, nested ones counted")]


def test_shared_definitions_are_fine() -> None:
    """What a YAML anchor names may be used several times, beside each other and within."""
    point = {"type": "tuple", "item_types": ["float", "float"]}
    found = check_definitions({"a": point, "b": {"type": "list", "item_type": point}, "c": point})
    assert found["a"] == found["c"] == found["b"].item_type
