"""Agent names that are the same: those that are equal after Unicode normalisation (form NFC, UAX #15).

"Zoé" can be written with one code point for its last letter or with two, and looks the same. Of two such names a world
has only one; the second is refused where it comes in. A log that has both, from before this rule, is folded as ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from unicodedata import normalize

from worldledger.errors import InvalidEffectError


def namesake(agent_id: str, names: Iterable[str]) -> str | None:
    """Return the first of these names that is another spelling of an agent's; None where there is none."""
    wanted = normalize("NFC", agent_id)
    # Most names are ASCII, which is its own normal form.
    for name in names:
        if (name == wanted if name.isascii() else normalize("NFC", name) == wanted) and name != agent_id:
            return name
    return None


def namesakes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that is another spelling of an earlier one, with that one."""
    first: dict[str, str] = {}
    for name in names:
        known = first.setdefault(normalize("NFC", name), name)
        if known != name:
            yield name, known


def taken(agent_id: str, other: str) -> str:
    """Say that a name is another spelling of an agent's; escaped, for the two look the same."""
    return f"{agent_id!a} is the agent {other!a} in another Unicode form; both are one name after NFC"


def check_namesake(agent_id: str, names: Iterable[str], path: str = "$.agent_id") -> None:
    """Raise InvalidEffectError if a new agent's name is another spelling of one of these; ``agent_id`` names that."""
    other = namesake(agent_id, names)
    if other is not None:
        raise InvalidEffectError(taken(agent_id, other), path, agent_id=other)
