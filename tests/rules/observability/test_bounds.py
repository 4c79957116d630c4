"""What is observed stays within the bounds of its variable."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from tests.cases import cases
from tests.rules.observability.test_seen import draw, seen
from worldledger.observability import bounds_of
from worldledger.observability.noise import check_bounds
from worldledger.variables import VariableDefinition


def test_numbers_stay_within_their_bounds() -> None:
    """Whatever the noise; floats stay floats where the bound is written as a whole number."""
    names = [f"v{number}" for number in range(40)]
    found = seen(dict.fromkeys(names, 10.0), 50.0, bounds={name: {"min": 9, "max": 11.5} for name in names})
    assert set(map(repr, found.values())) == {"9.0", "11.5"}
    found = seen(dict.fromkeys(names, 10), 50.0, bounds={name: {"min": 8.5, "max": 11.5} for name in names})
    assert set(map(repr, found.values())) == {"9", "11"}
    found = seen(dict.fromkeys(names, -1.0), 50.0, bounds={name: {"max": -0.0} for name in names})
    assert {repr(value) for value in found.values() if value == 0} == {"0.0"}
    assert min(found.values()) < -1.0


def test_one_bound_alone_holds() -> None:
    """The other side is open."""
    names = [f"v{number}" for number in range(40)]
    found = seen(dict.fromkeys(names, 1.0), 50.0, bounds={name: {"min": 0.0} for name in names})
    assert min(found.values()) == 0.0
    assert max(found.values()) > 2.0


def test_what_is_within_a_variable_has_its_own_bounds() -> None:
    """In objects with a schema, dicts, lists and tuples, and these within each other."""
    tree = {
        "object": {"fields": {"a": {"min": 0.0, "max": 0.5}, "b": {"fields": {"c": {"max": 3}}}}},
        "dict": {"values": {"items": {"min": 1, "max": 2}}},
        "tuple": {"elements": [None, {"max": 0.0}]},
    }
    check_bounds(tree)
    for turn in range(30):
        values = {
            "object": {"a": 0.4, "b": {"c": 3, "d": 3}, "e": 1.0},
            "dict": {"x": [1, 2, 2], "y": []},
            "tuple": [5.0, -1.0, 5.0],
        }
        found = seen(values, 20.0, turn, bounds=tree)
        assert 0.0 <= found["object"]["a"] <= 0.5
        assert found["object"]["b"]["c"] <= 3
        assert {type(item) for item in found["dict"]["x"]} == {int}
        assert all(1 <= item <= 2 for item in found["dict"]["x"])
        assert found["tuple"][1] <= 0.0
        assert found["tuple"][0] == 5.0 * (1.0 + 20.0 * draw("/tuple/0", turn))
        assert found["tuple"][2] == 5.0 * (1.0 + 20.0 * draw("/tuple/2", turn))
        assert found["object"]["e"] == 1.0 + 20.0 * draw("/object/e", turn)


def test_bounds_that_do_not_fit_the_value_are_none() -> None:
    """What is bounded otherwise than it is made is seen without bounds."""
    values = {"a": [1.0], "b": {"x": 1.0}, "c": 1.0, "d": [1.0]}
    tree = {"a": {"min": 5}, "b": {"items": {"min": 5}}, "c": {"fields": {}}, "d": {"elements": []}}
    assert seen(values, bounds=tree) == seen(values)


def test_bounds_are_those_of_the_variables() -> None:
    """Only what is bounded has a node; the tree is JSON."""
    number = {"type": "float", "min": 0, "max": 1.5}
    raw = {
        "plain": {"type": "float", "default": 0.0},
        "gold": {"type": "int", "min": 0, "default": 0},
        "note": {"type": "str"},
        "mood": {"type": "categorical", "values": ["a", "b"], "default": "a"},
        "bag": {"type": "dict", "schema": {"x": number, "y": {"type": "bool", "default": True}}},
        "free": {"type": "dict", "key_type": "str", "value_type": number},
        "loose": {"type": "dict", "key_type": "str", "value_type": "float"},
        "past": {"type": "list", "item_type": {"type": "list", "item_type": number}},
        "words": {"type": "list", "item_type": "str"},
        "spot": {"type": "tuple", "item_types": ["int", number], "default": [0, 1.0]},
        "pair": {"type": "tuple", "item_types": ["int", "str"], "default": [0, "x"]},
    }
    tree = bounds_of({name: VariableDefinition.model_validate(each) for name, each in raw.items()})
    node = {"min": 0, "max": 1.5}
    assert tree == {
        "gold": {"min": 0},
        "bag": {"fields": {"x": node}},
        "free": {"values": node},
        "past": {"items": {"items": node}},
        "spot": {"elements": [None, node]},
    }
    check_bounds(tree)
    assert orjson.loads(orjson.dumps(tree)) == tree


@cases(
    "tree",
    [
        [],
        {"a": []},
        {"a": {}},
        {"a": None},
        {"a": {"min": "0"}},
        {"a": {"min": True}},
        {"a": {"min": None}},
        {"a": {"min": float("nan")}},
        {"a": {"max": float("inf")}},
        {"a": {"max": 10**400}},
        {"a": {"min": 0, "fields": {}}},
        {"a": {"fields": [], "items": {}}},
        {"a": {"fields": []}},
        {"a": {"items": {}}},
        {"a": {"values": {"x": 1}}},
        {"a": {"elements": {}}},
        {"a": {"elements": [1]}},
    ],
)
def test_what_is_no_tree_of_bounds_is_refused(tree: Any) -> None:
    """Everything in it is looked at."""
    with pytest.raises(ValueError, match=r"bound|elements"):
        check_bounds(tree)
