"""The names of columns in answers whose rows are objects."""

from __future__ import annotations

from collections.abc import Iterable


def unique_names(names: Iterable[str]) -> list[str]:
    """Return distinct names: a repeated one gets a number, ``n_2``, that no other name has."""
    names = list(names)
    own = set(names)
    found: dict[str, None] = {}
    for each in names:
        name, number = each, 1
        while name in found or (number > 1 and name in own):
            number += 1
            name = f"{each}_{number}"
        found[name] = None
    return list(found)
