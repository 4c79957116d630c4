"""JSON Patch: the difference of two values, and its application within limits."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.canonical import MAX_DEPTH
from worldledger.patches import PatchError, apply_patch, diff
from worldledger.world import state_text

from .values import GOOD_JSON, GOOD_OBJECTS, nested, same

# -- the difference ------------------------------------------------------------------------------------------


@cases(
    "before, after, patch",
    [
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, [("replace", "/a", 2), ("replace", "/b", 2)]),
        ({"b": 1}, {"a": 1, "c": {}}, [("add", "/a", 1), ("remove", "/b"), ("add", "/c", {})]),
        ({"x": {"y": {"z": 1, "w": 1}}}, {"x": {"y": {"z": 2, "w": 1}}}, [("replace", "/x/y/z", 2)]),
        ({"a/b": {"~": 1}}, {"a/b": {"~": 2}}, [("replace", "/a~1b/~0", 2)]),
        ({"": 1}, {"": 2}, [("replace", "/", 2)]),
        ({"l": [1, 2, 3]}, {"l": [1, 9, 3]}, [("replace", "/l", [1, 9, 3])]),
        ({"l": (1.0, 2.0)}, {"l": (1.0, 3.0)}, [("replace", "/l", [1.0, 3.0])]),
        ({"l": (1.0, {"a": 1})}, {"l": [1.0, {"a": 1}]}, []),
        ([1], [True], [("replace", "", [True])]),
        ([1], [1.0], [("replace", "", [1.0])]),
        ({"a": 1}, {"a": True}, [("replace", "/a", True)]),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}, [("replace", "/a", [{"b": False}])]),
        ({"a": {}}, {"a": []}, [("replace", "/a", [])]),
        ({"a": None}, {}, [("remove", "/a")]),
        ({}, {"a": None}, [("add", "/a", None)]),
        (1, 1, []),
        (1, {"a": 1}, [("replace", "", {"a": 1})]),
    ],
)
def test_the_difference_is_made_of_paths_by_name(before: Any, after: Any, patch: list[tuple[Any, ...]]) -> None:
    """Keys come sorted, lists whole, and 1, 1.0 and true are three values."""
    expected = [dict(zip(("op", "path", "value"), operation, strict=False)) for operation in patch]
    assert same(diff(before, after), expected)


@settings(max_examples=300, deadline=None)
@given(GOOD_JSON, GOOD_JSON)
def test_the_difference_leads_from_one_value_to_the_other(before: Any, after: Any) -> None:
    """Applied to the first value it gives exactly the second, and both are left as they were."""
    kept = copy.deepcopy((before, after))
    patch = diff(before, after)
    assert state_text(apply_patch(before, patch)) == state_text(after)
    assert same([before, after], list(kept))
    assert {operation["op"] for operation in patch} <= {"add", "remove", "replace"}
    assert json.loads(json.dumps(patch)) == patch


@settings(max_examples=200, deadline=None)
@given(GOOD_OBJECTS, st.data())
def test_objects_that_differ_a_little_are_led_over_too(before: dict[str, Any], data: st.DataObject) -> None:
    """The same law where most of two objects is the same, and the difference does not hang on the order of keys."""
    after = copy.deepcopy(before)
    for key in data.draw(st.lists(st.sampled_from(sorted(before)), unique=True) if before else st.just([])):
        after[key] = data.draw(GOOD_JSON)
    after.update(data.draw(GOOD_OBJECTS))
    patch = diff(before, after)
    assert state_text(apply_patch(before, patch)) == state_text(after)
    assert diff(dict(reversed(before.items())), dict(reversed(after.items()))) == patch


@given(GOOD_JSON)
def test_nothing_differs_from_itself(value: Any) -> None:
    """The difference of a value and its copy is empty."""
    assert diff(value, copy.deepcopy(value)) == []


def test_a_difference_shares_nothing_with_the_values() -> None:
    """Whoever changes a state later does not change the patch that was made of it."""
    after: dict[str, Any] = {"a": {"deep": [1, [2]]}, "b": [1], "c": {"d": (1, [2])}}
    patch = diff({"b": 0, "c": {}}, after)
    kept = copy.deepcopy(patch)
    after["a"]["deep"][1].append(3)
    after["b"].append(2)
    after["c"]["d"][1].append(3)
    assert patch == kept


# -- the application -----------------------------------------------------------------------------------------


@cases(
    "document, operation, result",
    [
        # RFC 6902, appendix A
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"baz": "qux", "foo": "bar"}),
        ({"foo": [1, 2]}, {"op": "add", "path": "/foo/1", "value": 9}, {"foo": [1, 9, 2]}),
        ({"baz": 1, "foo": 2}, {"op": "remove", "path": "/baz"}, {"foo": 2}),
        ({"foo": [1, 2, 3]}, {"op": "remove", "path": "/foo/1"}, {"foo": [1, 3]}),
        ({"baz": 1, "foo": 2}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo", "foo": 2}),
        (
            {"foo": {"bar": "baz", "waldo": "fred"}, "qux": {}},
            {"op": "move", "from": "/foo/waldo", "path": "/qux/thud"},
            {"foo": {"bar": "baz"}, "qux": {"thud": "fred"}},
        ),
        ({"foo": [1, 2, 3, 4]}, {"op": "move", "from": "/foo/1", "path": "/foo/3"}, {"foo": [1, 3, 4, 2]}),
        ({"foo": ["a", 2]}, {"op": "test", "path": "/foo/1", "value": 2}, {"foo": ["a", 2]}),
        ({"foo": "bar"}, {"op": "add", "path": "/child", "value": {"g": {}}}, {"foo": "bar", "child": {"g": {}}}),
        ({"foo": 1}, {"op": "add", "path": "/baz", "value": 2, "xyz": 123}, {"foo": 1, "baz": 2}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
        ({"foo": ["bar"]}, {"op": "add", "path": "/foo/-", "value": ["abc", "def"]}, {"foo": ["bar", ["abc", "def"]]}),
        # the root, and other corners
        ({"a": 1}, {"op": "add", "path": "", "value": [1]}, [1]),
        ([1], {"op": "add", "path": "", "value": 2}, 2),
        (None, {"op": "replace", "path": "", "value": {}}, {}),
        ({"a": 1}, {"op": "test", "path": "", "value": {"a": 1}}, {"a": 1}),
        ({"a": [1]}, {"op": "test", "path": "/a", "value": [1.0]}, {"a": [1]}),
        ({"a": 1}, {"op": "copy", "from": "", "path": "/b"}, {"a": 1, "b": {"a": 1}}),
        ([1], {"op": "copy", "from": "", "path": "/-"}, [1, [1]]),
        ({"a": {"b": 1}}, {"op": "move", "from": "/a", "path": ""}, {"b": 1}),
        ({"a": 1}, {"op": "move", "from": "/a", "path": "/a"}, {"a": 1}),
        ({"a": 1}, {"op": "move", "from": "", "path": ""}, {"a": 1}),
        ({"a": 1, "b": 2}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": 1, "b": 1}),
        ({"": {"": 1}}, {"op": "replace", "path": "//", "value": 2}, {"": {"": 2}}),
        ({"0": {"-": 1}, "01": 2}, {"op": "move", "from": "/0/-", "path": "/01"}, {"0": {}, "01": 1}),
        ([0, 1], {"op": "add", "path": "/2", "value": 2}, [0, 1, 2]),
        ({"a\nb": 1}, {"op": "remove", "path": "/a\nb"}, {}),
        ({"-": 1}, {"op": "replace", "path": "/-", "value": 2}, {"-": 2}),
        ({"-": 1}, {"op": "remove", "path": "/-"}, {}),
        ([0, 1], {"op": "replace", "path": "/1", "value": 2}, [0, 2]),
    ],
)
def test_the_six_operations(document: Any, operation: dict[str, Any], result: Any) -> None:
    """Each operation does what RFC 6902 says, at the root too, and leaves its input alone."""
    kept = copy.deepcopy((document, operation))
    assert same(apply_patch(document, [operation]), result)
    assert same([document, operation], list(kept))


def test_operations_follow_each_other() -> None:
    """Each operation sees what those before it made."""
    patch = [
        {"op": "add", "path": "/a", "value": {"l": []}},
        {"op": "add", "path": "/a/l/-", "value": 1},
        {"op": "copy", "from": "/a", "path": "/b"},
        {"op": "replace", "path": "/b/l/0", "value": 2},
        {"op": "test", "path": "/a/l/0", "value": 1},
        {"op": "move", "from": "/b/l/0", "path": "/a/l/0"},
    ]
    kept = copy.deepcopy(patch)
    assert apply_patch({}, patch) == {"a": {"l": [2, 1]}, "b": {"l": []}}
    assert patch == kept


@cases(
    "document, operation, reason",
    [
        ({}, None, "an operation is an object"),
        ({}, ["op", "path"], "an operation is an object"),
        ({}, {}, "op is add, remove, replace, move, copy or test, not None"),
        ({}, {"op": "Add", "path": "", "value": 1}, "not 'Add'"),
        ({}, {"op": ["add"], "path": "", "value": 1}, "not ['add']"),
        ({}, {"op": "add", "value": 1}, "add needs a path that is a JSON Pointer"),
        ({}, {"op": "add", "path": 5, "value": 1}, "add needs a path"),
        ({}, {"op": "add", "path": "a", "value": 1}, "add needs a path"),
        ({}, {"op": "add", "path": "/a~2", "value": 1}, "add needs a path"),
        ({}, {"op": "add", "path": "/a~", "value": 1}, "add needs a path"),
        ({}, {"op": "add", "path": "/a"}, "add needs a value"),
        ({"a": 1}, {"op": "replace", "path": "/a"}, "replace needs a value"),
        ({"a": None}, {"op": "test", "path": "/a"}, "test needs a value"),
        ({}, {"op": "copy", "path": "/a"}, "copy needs a from"),
        ({}, {"op": "move", "path": "/a", "from": {}}, "move needs a from"),
        ({}, {"op": "remove", "path": "/a"}, "there is nothing at /a"),
        ({}, {"op": "remove", "path": ""}, "the whole document cannot be removed"),
        ({}, {"op": "replace", "path": "/a", "value": 1}, "there is nothing at /a"),
        ({}, {"op": "add", "path": "/a/b", "value": 1}, "there is nothing at /a"),
        ({"a": "text"}, {"op": "add", "path": "/a/0", "value": 1}, "/a is neither an object nor a list"),
        (5, {"op": "add", "path": "/a", "value": 1}, "the root is neither an object nor a list"),
        ({"a": "text"}, {"op": "test", "path": "/a/0", "value": "t"}, "there is nothing at /a/0"),
        ([1], {"op": "remove", "path": "/-"}, "there is nothing at /-"),
        ([1], {"op": "replace", "path": "/-", "value": 1}, "there is nothing at /-"),
        ([1], {"op": "test", "path": "/-", "value": None}, "there is nothing at /-"),
        ([1, 2], {"op": "remove", "path": "/01"}, "there is nothing at /01"),
        ([1, 2], {"op": "replace", "path": "/+1", "value": 1}, "there is nothing at /+1"),
        ([1, 2], {"op": "add", "path": "/-1", "value": 1}, "/-1 is no place in a list"),
        ([1, 2], {"op": "add", "path": "/1\n", "value": 1}, "is no place in a list"),
        ([1, 2], {"op": "add", "path": "/\u0661", "value": 1}, "is no place in a list"),
        ([1, 2], {"op": "add", "path": "/3", "value": 1}, "outside of list"),
        ([1, 2], {"op": "replace", "path": "/2", "value": 1}, "there is nothing at /2"),
        ([1, 2], {"op": "add", "path": f"/{'9' * 5000}", "value": 1}, "is no place in a list"),
        ([1, 2], {"op": "remove", "path": "/2"}, "there is nothing at /2"),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}, "a value cannot be moved into itself"),
        ([[], {}], {"op": "move", "from": "/0", "path": "/0/a"}, "a value cannot be moved into itself"),
        ({}, {"op": "move", "from": "", "path": "/a"}, "a value cannot be moved into itself"),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}, "the test fails: another value stands at /a"),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 1.5}, "the test fails"),
        ({"a": [1.0]}, {"op": "test", "path": "/a", "value": [True]}, "the test fails"),
        ({"a": [{"b": False}]}, {"op": "test", "path": "/a", "value": [{"b": 0}]}, "the test fails"),
        ({"a": {"b": 1}}, {"op": "test", "path": "/a", "value": {"b": 1, "c": 2}}, "the test fails"),
        ({}, {"op": "add", "path": "/a", "value": float("nan")}, "not a finite number"),
        ({}, {"op": "add", "path": "/a", "value": "\0"}, "NUL"),
        ({}, {"op": "add", "path": "/a", "value": 2**53}, "beyond"),
        ({}, {"op": "add", "path": "/a", "value": object()}, "not a JSON value"),
        ({}, {"op": "add", "path": "/a", "value": nested(MAX_DEPTH)}, "nested deeper"),
        ({}, {"op": "add", "path": "/a", "value": nested(5000)}, "nested deeper"),
        ({"a": 1}, {"op": "test", "path": "/a", "value": nested(5000)}, "the test fails"),
    ],
)
def test_a_fault_is_one_error_that_names_its_operation(document: Any, operation: Any, reason: str) -> None:
    """Whatever is wrong with an operation, PatchError says which one it is and why, in few words."""
    with pytest.raises(PatchError) as caught:
        apply_patch(document, [{"op": "test", "path": "", "value": document}, operation])
    assert caught.value.index == 1
    assert reason in caught.value.reason
    assert str(caught.value) == f"operation 1: {caught.value.reason}"
    assert len(caught.value.reason) < 250


@cases("operations", [None, {}, "[]", 1, ({"op": "remove", "path": "/a"},)])
def test_a_patch_is_a_list(operations: Any) -> None:
    """Anything else is refused, and no operation is at fault."""
    with pytest.raises(PatchError, match="a patch is a list") as caught:
        apply_patch({"a": 1}, operations)
    assert caught.value.index is None


def test_what_goes_out_shares_nothing_with_what_came_in() -> None:
    """Neither the document nor the values of the operations can be changed through the result."""
    document, patch = {"a": {"b": [1]}}, [{"op": "add", "path": "/c", "value": {"d": []}}]
    result = apply_patch(document, patch)
    result["a"]["b"].append(2)
    result["c"]["d"].append(2)
    assert (document, patch) == ({"a": {"b": [1]}}, [{"op": "add", "path": "/c", "value": {"d": []}}])
