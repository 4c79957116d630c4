"""Paths of values, as rows have them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from worldledger.errors import dotted, stepped

_KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["a.b", "c[0]", "", '"', "[0]"])


@given(st.lists(_KEYS | st.integers(0, 20), max_size=4), _KEYS)
def test_paths_are_written_as_everywhere(keys: list[str | int], variable: str) -> None:
    """A path is what messages about values have."""
    path = stepped("", variable)
    for key in keys:
        path = stepped(path, key)
    assert path == dotted([variable, *keys])
