"""Paths of values, as rows have them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.variables import stepped
from worldledger.errors import dotted

_PLAIN = st.text(st.characters(exclude_characters='.[]"', exclude_categories=["Cs"]), min_size=1)


@given(st.lists(_PLAIN | st.integers(0, 20), max_size=4), _PLAIN)
def test_paths_are_written_as_everywhere(keys: list[str | int], variable: str) -> None:
    """Where no key needs quotes, a path is what messages about values have."""
    path = stepped("", variable)
    for key in keys:
        path = stepped(path, key)
    assert path == dotted([variable, *keys])
