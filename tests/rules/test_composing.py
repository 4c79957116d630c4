"""Two patches that follow each other, as one."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.deltas import Composition, compose
from worldledger.patches import diff
from worldledger.world import state_text

from .values import GOOD_JSON, GOOD_OBJECTS

_KEYS = st.sampled_from(["a", "b", "c/d", "~", ""])
_OBJECTS: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(_KEYS, st.integers(0, 2) | st.lists(st.integers(0, 1), max_size=2), max_size=3),
    lambda inner: st.dictionaries(_KEYS, inner, max_size=4),
    max_leaves=8,
)


def _operations(patch: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(operation["op"], operation["path"]) for operation in patch]


@settings(max_examples=400, deadline=None)
@given(st.lists(_OBJECTS | GOOD_OBJECTS, min_size=2, max_size=6))
def test_one_patch_does_what_several_did(values: list[dict[str, Any]]) -> None:
    """Applied to the first value it gives the last one; each path exists, and none is below another, or there twice."""
    patches = [diff(*pair) for pair in pairwise(values)]
    kept = copy.deepcopy(patches)
    one: list[dict[str, Any]] = []
    composition = Composition()
    for patch in patches:
        one = compose(one, patch)
        composition.follow(patch)
        assert composition.patch() == one
    assert patches == kept
    # jsonpatch lets "add" replace a member, so that is looked for first; everything else it refuses itself.
    for operation in one:
        tokens = [token.replace("~1", "/").replace("~0", "~") for token in operation["path"].split("/")[1:]]
        parent: Any = values[0]
        for token in tokens[:-1]:
            parent = parent[token]
        assert (tokens[-1] in parent) == (operation["op"] != "add")
    assert state_text(jsonpatch.apply_patch(values[0], one)) == state_text(values[-1])
    paths = [operation["path"] for operation in one]
    assert len(set(paths)) == len(paths)
    assert not any(other.startswith(f"{path}/") for path in paths for other in paths)


@settings(max_examples=150, deadline=None)
@given(st.lists(_OBJECTS, min_size=4, max_size=4))
def test_it_does_not_matter_which_are_put_together_first(values: list[dict[str, Any]]) -> None:
    """(a then b) then c is a then (b then c)."""
    a, b, c = (diff(*pair) for pair in pairwise(values))
    assert compose(compose(a, b), c) == compose(a, compose(b, c))
    assert compose(a, []) == compose([], a) == a


@settings(max_examples=100, deadline=None)
@given(GOOD_OBJECTS, GOOD_JSON)
def test_what_was_there_for_a_while_leaves_no_trace(value: dict[str, Any], guest: Any) -> None:
    """What is added, changed and removed again is not in the patch."""
    value.pop("guest", None)
    there, changed = value | {"guest": {"is": guest}}, value | {"guest": {"is": {"what": guest}}}
    assert compose(compose(diff(value, there), diff(there, changed)), diff(changed, value)) == []


@cases(
    "first, then, both",
    [
        ([("add", "/a", 1)], [("replace", "/a", 2)], [("add", "/a", 2)]),
        ([("add", "/a", {})], [("add", "/a/b", 2)], [("add", "/a", {"b": 2})]),
        ([("replace", "/a", {"b": 1, "c": 1})], [("remove", "/a/b")], [("replace", "/a", {"c": 1})]),
        ([("remove", "/a")], [("add", "/a", 2)], [("replace", "/a", 2)]),
        ([("replace", "/a", 1)], [("remove", "/a")], [("remove", "/a")]),
        ([("replace", "/a/b", 1)], [("remove", "/a")], [("remove", "/a")]),
        ([("add", "/a/b", 1)], [("replace", "/a", 5)], [("replace", "/a", 5)]),
        ([("add", "/b", 1)], [("add", "/a", 1)], [("add", "/a", 1), ("add", "/b", 1)]),
        ([("replace", "/a", 1)], [("replace", "/a", 1)], [("replace", "/a", 1)]),
        ([("add", "/a~1b/~0", 1)], [("remove", "/a~1b/~0")], []),
    ],
)
def test_what_becomes_of_two(first: list[Any], then: list[Any], both: list[Any]) -> None:
    """An operation and one that follows it at the same place, above or below become one."""
    patches = [[dict(zip(("op", "path", "value"), each, strict=False)) for each in part] for part in (first, then)]
    expected = [dict(zip(("op", "path", "value"), each, strict=False)) for each in both]
    assert compose(*patches) == expected


def test_a_patch_that_was_given_stays_as_it_is() -> None:
    """A composition that goes on changes neither what it gave nor what it took."""
    added = [{"op": "add", "path": "/a", "value": {"b": {"c": 1}}}]
    composition = Composition()
    composition.follow(added)
    composition.follow([{"op": "replace", "path": "/a/b/c", "value": 2}])
    given_before = composition.patch()
    composition.follow([{"op": "replace", "path": "/a/b/c", "value": 3}])
    assert added[0]["value"] == {"b": {"c": 1}}
    assert given_before[0]["value"] == {"b": {"c": 2}}
    assert composition.patch()[0]["value"] == {"b": {"c": 3}}


@cases(
    "first, then",
    [
        ([], {"op": "move", "path": "/a", "from": "/b"}),
        ([], {"op": "replace", "path": "", "value": {}}),
        ([{"op": "remove", "path": "/a"}], {"op": "remove", "path": "/a"}),
        ([{"op": "remove", "path": "/a"}], {"op": "replace", "path": "/a", "value": 1}),
        ([{"op": "remove", "path": "/a"}], {"op": "add", "path": "/a/b", "value": 1}),
        ([{"op": "add", "path": "/a", "value": [1]}], {"op": "replace", "path": "/a/0", "value": 1}),
        ([{"op": "add", "path": "/a", "value": {}}], {"op": "remove", "path": "/a/b"}),
        ([{"op": "add", "path": "/a", "value": {}}], {"op": "replace", "path": "/a/b/c", "value": 1}),
        ([{"op": "add", "path": "/a", "value": {"b": 1}}], {"op": "add", "path": "/a/b", "value": 1}),
    ],
)
def test_what_cannot_follow_is_refused(first: list[dict[str, Any]], then: dict[str, Any]) -> None:
    """Other operations, the root, places in lists, and what cannot be there after the first patch."""
    with pytest.raises(ValueError, match=r"/|root|member|put together"):
        compose(first, [then])
