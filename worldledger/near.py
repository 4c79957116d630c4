"""Names that are like one that is not there, so that a message can ask whether they were meant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def near(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known names that are most like ``name``, whatever their case; the most alike comes first."""
    folded: dict[str, str] = {}
    for other in known:
        folded.setdefault(other.casefold(), other)
    return [folded[other] for other in get_close_matches(name.casefold(), folded, most)]


def meant(names: Sequence[str]) -> str:
    """Ask in a message whether one of these names was meant; an empty text where there is none."""
    return f"; did you mean {' or '.join(map(repr, names))}?" if names else ""
