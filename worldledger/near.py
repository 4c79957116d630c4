"""Names similar to an unknown one, so that a message can suggest them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher, get_close_matches
from typing import Final

#: The least similarity of a field's name and the suggested one if their first letters differ.
_VERY_ALIKE: Final = 0.8
#: The most characters by which their lengths differ, unless one contains the other.
_LONGER: Final = 2
#: Names with fewer characters are contained in too many others.
_SHORTEST: Final = 3


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are most like ``name``, ignoring case; the most similar comes first."""
    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    return [folded[other] for other in get_close_matches(name.casefold(), folded, most)]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name of a field that is probably meant, None if any suggestion might mislead."""
    for close in near(name, known, 1):
        short, long = sorted((name, close), key=len)
        if short in long and len(short) >= _SHORTEST:
            return close
        alike = SequenceMatcher(None, name, close).ratio()
        if len(long) - len(short) <= _LONGER and (name[:1] == close[:1] or alike >= _VERY_ALIKE):
            return close
    return None


def meant(names: Sequence[str]) -> str:
    """Return the question whether one of these names was meant; an empty text if there is none."""
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""
