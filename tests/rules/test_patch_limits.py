"""JSON Patch: its limits, and the laws that hold for any patch."""

from __future__ import annotations

import copy
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldledger.canonical import MAX_DEPTH
from worldledger.patches import MAX_BYTES, PatchError, apply_patch
from worldledger.world import state_text

from .values import ANY_JSON, GOOD_JSON, nested, same

# -- limits --------------------------------------------------------------------------------------------------


def test_doubling_again_and_again_is_refused() -> None:
    """Copies of copies end at the limit, long before memory does."""
    patch = [{"op": "copy", "from": "", "path": "/-"}] * 80
    with pytest.raises(PatchError, match="the patch copies and moves more than it may") as caught:
        apply_patch(["x" * 100], patch, max_bytes=10_000)
    assert caught.value.index == 6
    with pytest.raises(PatchError, match="the patch copies and moves more than it may"):
        apply_patch(["x" * 100], patch)


@pytest.mark.parametrize("op", ["copy", "move"])
def test_copying_and_moving_is_work_even_where_nothing_grows(op: str) -> None:
    """The sum of all that is copied and moved has the limit; going nowhere costs nothing."""
    document = {"a": "x" * 998, "b": 1}
    there, back = {"op": op, "from": "/a", "path": "/b"}, {"op": op, "from": "/b", "path": "/a"}
    assert apply_patch(document, [there, back, there], max_bytes=3000)["b"] == "x" * 998
    with pytest.raises(PatchError, match="copies and moves more") as caught:
        apply_patch(document, [there, back, there, back], max_bytes=3000)
    assert caught.value.index == 3
    assert apply_patch(document, [{"op": "move", "from": "/a", "path": "/a"}] * 4, max_bytes=3000) == document


def test_a_result_over_the_limit_is_refused() -> None:
    """The canonical bytes of the result count, to the byte; what it was on the way does not."""
    add = {"op": "add", "path": "/a", "value": "é" * 10}
    assert apply_patch({}, [add], max_bytes=28) == {"a": "é" * 10}
    with pytest.raises(PatchError, match="the result would have 28 bytes, more than 27") as caught:
        apply_patch({}, [add], max_bytes=27)
    assert caught.value.index is None
    assert apply_patch({}, [add, {"op": "remove", "path": "/a"}], max_bytes=2) == {}


def test_depth_counts_from_the_level_at_which_the_result_stands() -> None:
    """What would be nested too deeply where the document belongs is refused, even if moves alone made it so."""
    patch = [{"op": "add", "path": "/a", "value": nested(MAX_DEPTH - 3)}]
    assert apply_patch({}, patch, level=3) == {"a": nested(MAX_DEPTH - 3)}
    with pytest.raises(PatchError, match="nested deeper") as caught:
        apply_patch({}, patch, level=4)
    assert caught.value.index == 0
    wrap = [{"op": "add", "path": "/b", "value": {}}, {"op": "move", "from": "/a", "path": "/b/a"}]
    wrap += [{"op": "move", "from": "/b", "path": "/a"}]
    assert apply_patch({"a": {}}, wrap * 98)
    with pytest.raises(PatchError, match="nested deeper") as caught:
        apply_patch({"a": {}}, wrap * 2000)
    assert caught.value.index == 3 * 98 + 1


def test_a_document_that_is_no_json_is_refused() -> None:
    """What could not be kept as it is, is not patched."""
    for document in ({"a": float("inf")}, {"a": {1: 2}}, nested(MAX_DEPTH + 1), {"a": b""}):
        with pytest.raises(PatchError, match="the document cannot be patched") as caught:
            apply_patch(document, [])
        assert caught.value.index is None


# -- laws ----------------------------------------------------------------------------------------------------

_PATHS = st.sampled_from(["", "/", "/a", "/a/b", "/a/0", "/a/-", "/b", "/b/a", "/b/01", "/0", "/1", "/-", "a", "/~"])
_OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": _PATHS},
    optional={"value": ANY_JSON, "from": _PATHS},
)
_DOCUMENTS = st.recursive(
    st.sampled_from([1, True, "x", None, 1.5]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "", "0", "01"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(_DOCUMENTS | GOOD_JSON, ANY_JSON | st.lists(ANY_JSON | _OPERATIONS, max_size=5))
def test_any_json_as_a_patch_gives_a_value_or_a_patch_error(document: Any, operations: Any) -> None:
    """Nothing but PatchError is ever raised, and neither document nor patch is changed."""
    kept = copy.deepcopy([document, operations])
    index = None
    try:
        state_text(apply_patch(document, operations))
    except PatchError as error:
        index = error.index
    assert index is None or 0 <= index < len(operations)
    assert repr([document, operations]) == repr(kept)


@settings(max_examples=300, deadline=None)
@given(_DOCUMENTS, st.lists(_OPERATIONS, max_size=4))
def test_what_we_apply_the_library_applies_alike(document: Any, operations: list[dict[str, Any]]) -> None:
    """We refuse more than the library does, but where both apply a patch they agree."""
    try:
        ours = apply_patch(document, operations)
    except PatchError:
        return
    theirs: Any = copy.deepcopy(operations)
    try:
        theirs = jsonpatch.apply_patch(document, theirs)
    except Exception:  # noqa: BLE001  (it cannot add to a root that is a list, nor copy the root)
        return
    assert same(ours, theirs)


def test_the_limit_is_generous() -> None:
    """Sixteen mebibytes, unless the caller says otherwise."""
    assert MAX_BYTES == 16 * 1024 * 1024
